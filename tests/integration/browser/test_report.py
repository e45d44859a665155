"""Reports in a real browser: drawn, silent, readable, and deaf to what names try to say."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")


POINTS = """plots => plots.map(plot => ({
    key: plot.id,
    points: plot.data.map(trace => trace.y.filter(value => value !== null).length),
    drawn: plot.querySelectorAll('.scatterlayer path, .boxlayer path').length,
    label: plot.getAttribute('aria-label'),
}))"""
DARK_LETTERS = """() => [...document.querySelectorAll('.xtick text')].map(text => getComputedStyle(text).fill)"""


def _brightness(colour: str) -> float:
    """0 to 255, of "rgb(r, g, b)"."""
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_it_says_nothing_on_the_console_and_asks_nobody(opened: Any) -> None:
    assert opened.console == []
    assert opened.requests == [opened.url]


def test_every_figure_is_drawn_with_data_in_it_and_has_a_name(opened: Any) -> None:
    page = opened.page
    plots = page.eval_on_selector_all(".plot", POINTS)
    assert len(plots) >= {"campaign": 5}.get(opened.name, 4)
    assert page.locator("html").get_attribute("data-drawn") == str(len(plots))
    for plot in plots:
        assert min(plot["points"]) > 0, plot
        assert plot["drawn"] >= len(plot["points"]) / 2, plot
        assert page.get_by_role("img", name=plot["label"], exact=True).count() == 1
        assert len(plot["label"]) > 40
    assert page.locator("figure").count() == page.locator("figure figcaption").count() == len(plots)


def test_hostile_names_are_text(opened: Any, hostile: str) -> None:
    page = opened.page
    assert opened.dialogs == []
    assert page.locator("img, iframe, object, embed, [onerror], [onload]").count() == 0
    assert page.locator("main script:not([type='application/json'])").count() == 0
    shown = page.inner_text("body")
    assert {"text": "archopt search", "theirs": "<u>accuracy</u>"}.get(opened.name, hostile) in " ".join(shown.split())
    if opened.name == "theirs":
        assert hostile in page.title()
        ticks = page.locator("#plot-weighting .xtick text").all_text_contents()
        assert "uniform" in ticks
        assert any(tick.startswith("<img src=y") for tick in ticks)


def test_headings_are_in_order_and_links_lead_somewhere(opened: Any) -> None:
    page = opened.page
    levels = page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.locator("main, header, footer, nav").count() == 4
    for target in page.eval_on_selector_all("a", "all => all.map(each => each.getAttribute('href'))"):
        place = Path(opened.url.removeprefix("file://")).parent / target
        assert page.locator(target).count() == 1 if target.startswith("#") else place.is_file(), target


def test_the_keyboard_reaches_the_content(opened: Any) -> None:
    page = opened.page
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert skip.inner_text() == "Skip to the content"
    assert skip.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    assert page.evaluate("document.activeElement.tagName") in ("MAIN", "BODY")
    tables = page.locator(".scroll")
    assert tables.count() == page.locator(".scroll[tabindex='0'][aria-label]").count() == page.locator("table").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(opened: Any, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened.page
    page.emulate_media(color_scheme=scheme)
    found = axe.run(page)
    page.emulate_media(color_scheme="light")
    assert found.violations_count == 0, found.generate_report()


def test_dark_and_paper(opened: Any) -> None:
    page = opened.page
    background = "getComputedStyle(document.body).backgroundColor"
    assert _brightness(page.evaluate(background)) > 200
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(100)
    assert _brightness(page.evaluate(background)) < 50
    assert min(map(_brightness, page.evaluate(DARK_LETTERS))) > 200
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(100)
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert max(map(_brightness, page.evaluate(DARK_LETTERS))) < 50
    widths = page.eval_on_selector_all(".plot .main-svg", "all => all.map(each => each.getBoundingClientRect().width)")
    assert max(widths) <= 680  # A4 less margins of 15 mm, at 96 pixels an inch
    page.emulate_media(media="screen", color_scheme="light")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")


def test_a_phone_scrolls_down_only(opened: Any) -> None:
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    page.wait_for_selector("html[data-drawn]")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = page.eval_on_selector_all(".plot .main-svg", "all => all.map(each => each.getBoundingClientRect().right)")
    assert max(widths) <= 390
    assert opened.console == []
