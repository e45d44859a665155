"""The report as one HTML page that needs nothing but itself: it opens offline and asks no server for anything."""

import json
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from archopt.report.figure import Figure
from archopt.report.files import json_ready
from archopt.report.page import Page


def render(page: Page) -> str:
    """The whole page.

    Returns:
        HTML of about 5 MB, nearly all of it plotly.js, which is left out where there is no figure. Texts from
        outside appear as texts, whatever they contain.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("archopt.report").joinpath("template.html.j2").read_text("utf-8"))
    return template.render(
        page=page,
        specs={figure.key: script_json(_spec(figure)) for figure in page.figures},
        plotly_js=_plotly_js() if page.figures else None,
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
