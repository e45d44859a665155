"""Names from data, columns and studies are texts in the report and on the terminal, whatever they contain."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import optuna
import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

CHOICES = ["<img src=x onerror=alert('zqx')>", "\x1b[2J\x1b]0;zqx\x07", "\u202egpj.zqx"]


class Page(HTMLParser):
    """Elements with their attributes, scripts with theirs, and the text outside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[str, str]] = []  # id, content
        self.text = ""
        self._within: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self._within = tag if tag in ("script", "style") else None

    def handle_endtag(self, tag: str) -> None:
        self._within = None

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts.append((self.elements[-1][1].get("id") or "", data))
        elif self._within is None:
            self.text += data


@pytest.fixture
def html(workplace: Any, resumed: Any) -> str:
    return (workplace.folder / "out" / "report.html").read_text("utf-8")


def test_the_report_holds_no_element_of_theirs(html: str) -> None:
    page = Page(html)
    tags = [tag for tag, _ in page.elements]
    assert set(tags).isdisjoint({"img", "b", "iframe", "object", "embed", "link", "base", "form", "svg"})
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    plots = [attributes for _, attributes in page.elements if attributes.get("class") == "plot"]
    assert plots
    assert tags.count("script") == len(plots) + 2  # plotly.js, and what draws with it
    assert len(re.findall("</script", html, re.IGNORECASE)) == tags.count("script")  # none is closed from within


def test_the_report_shows_their_names_as_texts(html: str) -> None:
    text = " ".join(Page(html).text.split())
    assert "<img src=x onerror=alert(zqx)>" in text  # the file
    assert "<script>alert('zqx'" in text  # a column
    assert "{{7*7}}zqx" in text
    assert "__import__('os').sy" in text
    assert all(character.isprintable() for character in text)


def test_figures_hold_nothing_of_theirs_that_plotly_reads_as_markup(html: str) -> None:
    specs = [json.loads(content) for name, content in Page(html).scripts if name.startswith("spec-")]
    assert specs
    strings = [string for spec in specs for string in _strings(spec)]
    assert not {"\x1b", "\x07", "\u202e"} & set("".join(strings))
    assert not [string for string in strings if re.search(r"<(?!br>|/?b>|/?i>|/?sub>|/?sup>|extra>|/extra>)", string)]


def _strings(part: object) -> list[str]:
    if isinstance(part, str):
        return [part]
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [string for each in inner for string in _strings(each)]


def test_the_terminal_gets_no_control_characters(searched: Any, resumed: Any) -> None:
    for ended in (searched, resumed):
        for said in (ended.out, ended.err):
            assert "zqx" in said
            assert all(character.isprintable() or character == "\n" for character in said)


def test_a_study_of_somebody_hostile_is_read_as_text(workplace: Any) -> None:
    url, name = f"sqlite:///{workplace.folder / 'theirs.db'}", "</script><script>zqx\x1b[2J"
    storage = optuna.storages.RDBStorage(url)
    study = optuna.create_study(study_name=name, storage=storage)
    parameter = "\x1b[31m<script>alert('zqx')</script>"
    for number in range(9):
        trial = study.ask()
        n_heads = trial.suggest_categorical("n_heads", [1, 2, 4])
        trial.suggest_categorical(parameter, CHOICES)
        study.tell(trial, n_heads + number / 100)
    storage.remove_session()
    storage.engine.dispose()
    read = ["recommend", "--storage", url, "--study", name, "--d-model", "8"]
    other = ["recommend", "--storage", url, "--study", "\x1b[2Jno", "--d-model", "8"]
    codes, ended = workplace.archopt_each([read, [*read, "--json"], other])
    assert codes == [0, 0, 2], ended.err
    *_, plain = ended.out.splitlines()
    assert parameter in json.loads(plain)["params"]  # JSON tells it as it is, escaped
    assert "alert('zqx')" in ended.out.removesuffix(plain)
    for text in (ended.out, ended.err):
        assert all(character.isprintable() or character == "\n" for character in text)
    assert ended.heard == set()


def test_groups_of_runs_are_texts(workplace: Any) -> None:
    rows = [
        f'{n},32,{dim},{abs(dim.bit_length() - 4) + 1 / n},"{cell}"'
        for n in (300, 1000)
        for dim in (2, 4, 8, 16, 32)
        for cell in CHOICES
    ]
    table = workplace.folder / "groups.csv"
    table.write_text("\n".join(["n_samples,d_model,head_dim,loss,\x1b[2Jgroup", *rows]) + "\n")
    size = ["--d-model", "64", "--samples", "1e5"]
    fit, recommend = ["fit", table.name, "--no-plan"], ["recommend", "--data", table.name, *size]
    codes, ended = workplace.archopt_each([fit, recommend, [*fit, "--best-over", "\x1b[2Jzqx"]])
    assert codes == [0, 0, 2], ended.err
    assert "zqx" in ended.out
    for text in (ended.out, ended.err):
        assert all(character.isprintable() or character == "\n" for character in text)
