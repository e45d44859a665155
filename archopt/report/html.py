"""The report as one HTML page that needs nothing but itself: it opens offline and asks no server for anything."""

import json
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from archopt.report.figure import Figure
from archopt.report.files import json_ready
from archopt.report.numbers import printable
from archopt.report.sections import answer, sections
from archopt.report.wording import Recommendation, TrialRow


def render(recommendation: Recommendation, rows: Sequence[TrialRow], *, command: str | None = None) -> str:
    """The whole page.

    Args:
        recommendation: as in recommendation.json; what it lacks is left out of the page.
        rows: one a trial; may be empty.
        command: the command line that made the search, shown under how to reproduce it.

    Returns:
        HTML of about 5 MB, nearly all of it plotly.js, which is left out where there is no figure. Texts from
        outside appear as texts, whatever they contain.
    """
    shown = sections(recommendation, rows, command)
    drawn = [figure for section in shown for figure in section.figures]
    data = recommendation.get("data") or {}
    headline, certainty, numbers = answer(recommendation)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("archopt.report").joinpath("template.html.j2").read_text("utf-8"))
    return template.render(
        name=printable(data.get("name") or "", most=120),
        headline=headline,
        certainty=certainty,
        numbers=numbers,
        sections=shown,
        specs={figure.key: script_json(_spec(figure)) for figure in drawn},
        plotly_js=_plotly_js() if drawn else None,
    )


def script_json(obj: object) -> Markup:
    """JSON that may stand in a ``<script>`` element: nothing in it can end the element or open a comment.

    NaN and infinities become null.
    """
    text = json.dumps(json_ready(obj), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # every character that HTML reads in a script is escaped above


def _spec(figure: Figure) -> dict[str, object]:
    return {"data": figure.data, "layout": figure.layout}


def _plotly_js() -> Markup:
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())  # ships with plotly and holds no "</script"
