import json
import math
from html.parser import HTMLParser

import pytest

from archopt.report.html import render, script_json
from archopt.report.search_page import search_page

HOSTILE = "</script><script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>\u2028'\"{{7*7}}"


class Page(HTMLParser):
    """The page's elements, tables, and texts outside scripts and styles."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.tables, self.texts, self.scripts = [], [], [], []
        self._inside, self._in_cell = None, False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self._inside = self.elements[-1]
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside = None
        if tag in ("th", "td"):
            self.texts.append(" ")
            self._in_cell = False

    def handle_data(self, data):
        if self._inside is not None:
            self.scripts.append((self._inside[1], data))
            return
        self.texts.append(data)
        if self._in_cell:
            self.tables[-1][-1][-1] += data

    @property
    def text(self):
        return " ".join("".join(self.texts).split())

    @property
    def specs(self):
        return {
            attributes["id"]: json.loads(data)
            for attributes, data in self.scripts
            if attributes.get("id", "").startswith("spec-")
        }

    def table(self, first_heading):
        (found,) = [table for table in self.tables if table[0][0] == first_heading]
        return found


@pytest.fixture
def page(recommendation, rows):
    return Page(render(search_page(recommendation, rows, command="archopt search sklearn:digits --d-model 48")))


def test_the_answer_and_every_number_come_from_the_data(page, recommendation):
    assert "Use 4 heads x 12 (d_model 48), weighting uniform" in page.text
    assert "Cannot be told apart from it (90 % confidence set): 6 heads x 8, 3 heads x 16." in page.text
    lines = {(line[0], line[1]): line for line in page.table("heads")[1:]}
    for entry in recommendation["allocations"]:
        line = lines[str(entry["n_heads"]), str(entry["head_dim"])]
        assert line[2] == f"{entry['mean']:.4f}"
        assert line[3] == f"[{entry['low']:.4f}, {entry['high']:.4f}]"
        assert line[5] == str(entry["n_trials"])
        assert line[6] == f"{1000 * entry['seconds_per_step']:.0f} ms"
    assert lines["4", "12"][7] == "use"
    comparison = page.table("what")
    assert comparison[2][:4] == ["8 heads", "8 x 6", "0.2213 ± 0.0058", "+0.0126 ± 0.0040"]


def test_a_large_confidence_set_is_cut_and_it_is_said(recommendation):
    recommendation["confidence_set"] *= 50
    page = Page(render(search_page(recommendation, [])))
    assert len(page.table("allocation")) == 1 + 20
    assert "20 of the 150 configurations" in page.text


def test_sections_stand_in_reading_order(page):
    order = [attributes["id"] for tag, attributes in page.elements if tag == "section"]
    assert order == [
        "rests-on",
        "allocations",
        "comparison",
        "landscape",
        "time",
        "weighting",
        "pruning",
        "diversity",
        "curves",
        "data",
        "reproduce",
    ]
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert links == ["#main", *(f"#{key}" for key in order)]


def test_what_it_rests_on_and_how_to_reproduce_it(page):
    assert "A small proxy's best allocation need not be the big model's." in page.text
    assert "archopt search sklearn:digits --d-model 48" in page.text
    assert [tag for tag, _ in page.elements].count("pre") == 1
    assert "ab" * 32 in page.text
    assert ["torch", "2.13.0"] in page.table("software")
    assert ["seed", "0"] in page.table("setting")


def test_every_figure_has_data_and_a_text_alternative(page):
    plots = [attributes for tag, attributes in page.elements if attributes.get("class") == "plot"]
    assert [f"spec-{plot['id'].removeprefix('plot-')}" for plot in plots] == list(page.specs)
    assert len(plots) == 7
    for plot in plots:
        assert plot["role"] == "img"
        assert len(plot["aria-label"]) > 30
    assert all(any(trace["y"] for trace in spec["data"]) for spec in page.specs.values())
    assert "4 heads x 12 0.2014" in plots[0]["aria-label"]


def test_every_table_has_a_caption_and_headings(page):
    tags = [tag for tag, _ in page.elements]
    assert tags.count("caption") == tags.count("table") == len(page.tables)
    for index, (tag, attributes) in enumerate(page.elements):
        if tag == "tr":
            assert page.elements[index + 1][0] == "th", attributes
    assert all(attributes["scope"] in ("row", "col") for tag, attributes in page.elements if tag == "th")
    assert all(len({len(row) for row in table}) == 1 for table in page.tables)


def test_the_page_loads_nothing(page):
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "link", "object", "embed", "base", "form")
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
    policies = [attributes["content"] for _, attributes in page.elements if "http-equiv" in attributes]
    assert "default-src 'none'" in policies[0]
    styles = "".join(data for attributes, data in page.scripts if not attributes)[:10_000]
    assert "url(" not in styles.split("}")[0]
    assert "@import" not in styles


def test_hostile_names_are_texts(recommendation, rows):
    recommendation["data"].update(name=HOSTILE, notes=[HOSTILE])
    recommendation["caveats"] = recommendation["caveats"] + [HOSTILE]
    recommendation["metric"] = "<img src=x>"
    recommendation["settings"] = {HOSTILE: HOSTILE}
    for row in rows:
        row["weighting"] = HOSTILE if row["weighting"] == "uniform" else row["weighting"]
        row["reason"] = HOSTILE
    html = render(search_page(recommendation, rows, command=HOSTILE))
    page = Page(html)
    assert {tag for tag, _ in page.elements}.isdisjoint({"img", "iframe"})
    assert sum(tag == "script" for tag, _ in page.elements) == 7 + 2
    assert html.count("</script") == 7 + 2  # no element ends early
    assert "<script>alert(1)</script>" in page.text
    assert "{{7*7}}" in page.text
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert not any("<img" in json.dumps(spec) for spec in page.specs.values())  # plotly reads some HTML in its texts


def test_size_and_2000_trials(recommendation, make_rows):
    assert len(render(search_page(recommendation, make_rows(2000))).encode()) < 6_000_000


@pytest.mark.parametrize("states", [(), ("failed",), ("pruned",)])
def test_without_a_finished_trial(nothing, rows, states):
    html = render(search_page(nothing, [row for row in rows if row["state"] in states]))
    page = Page(html)
    assert "No recommendation: no trial has finished" in page.text
    sections = [attributes["id"] for tag, attributes in page.elements if tag == "section"]
    assert (
        sections
        == {
            (): ["rests-on", "data"],
            ("failed",): ["rests-on", "pruning", "data"],
            ("pruned",): ["rests-on", "pruning", "curves", "data"],
        }[states]
    )
    assert "loss became NaN at step 12" in page.text if states == ("failed",) else True
    if states != ("pruned",):
        assert len(html) < 100_000  # no figure, no plotly.js


def test_missing_numbers_everywhere(recommendation, rows):
    for entry in recommendation["allocations"]:
        entry.update(low=None, high=math.inf, seconds_per_step=None, p_best=math.nan)
    for entry in recommendation["comparison"]:
        entry.update(test_sd=None, seconds_per_step=None)
    for row in rows:
        row.update(reason=None, seconds_per_step=None, train_seconds=math.nan, learning_rate=None)
        row["curve"] = [[step, math.nan if step == 20 else value] for step, value in row["curve"]]
        row["diversity"] = [[step, math.nan, math.nan] for step, _, _ in row["diversity"]]
    recommendation.update(noise_sd=math.inf, p_best=math.nan, theory=None)
    html = render(search_page(recommendation, rows))
    page = Page(html)
    assert " nan" not in page.text.lower()
    assert [line[3] for line in page.table("heads")[1:]] == ["-"] * 10
    assert set(page.specs) == {"spec-loss-head-dim", "spec-weighting", "spec-learning-curves"}


def test_the_barest_recommendation():
    page = Page(render(search_page({"allocation": {"n_heads": 2, "head_dim": 8}}, [])))
    assert "Use 2 heads x 8 (d_model 16)" in page.text
    assert page.tables == []


def test_json_in_a_script_cannot_end_it():
    text = script_json({"a": "</script><!-- & \u2028", "b": math.nan})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028", "b": None}
