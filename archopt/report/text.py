"""What the terminal prints when a search ends: the answer, how sure, what it costs, and on what it rests."""

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from archopt.report.numbers import encoded
from archopt.report.tables import Table, allocation_table, comparison_table
from archopt.report.wording import (
    Recommendation,
    certainty,
    data_sentence,
    headline,
    lines_of,
    search_sentences,
    theory_sentence,
    tie_sentence,
)

TERMINAL_WIDTH = 80


def summary(recommendation: Recommendation, *, encoding: str = "utf-8") -> Group:
    """The recommendation for a terminal of 80 columns or more; plain text where colours are not shown.

    Args:
        recommendation: as in recommendation.json; parts that are missing are left out.
        encoding: of the output; characters that it lacks are written as escapes.

    Returns:
        A rich renderable. Every text in it is taken as it is: no markup in names is obeyed.
    """
    answer = [Text(encoded(headline(recommendation), encoding), style="bold")]
    answer += [
        Text(encoded(sentence, encoding))
        for sentence in (certainty(recommendation), tie_sentence(recommendation))
        if sentence
    ]
    parts: list[RenderableType] = [Panel(Group(*answer), border_style="green", padding=(0, 1))]
    for table in (allocation_table(recommendation), comparison_table(recommendation)):
        if table is not None:
            parts += [drawn_table(table, encoding), Text(encoded(table.caption, encoding), style="dim"), Text("")]
    parts += [
        Text(encoded(sentence, encoding))
        for sentence in (
            theory_sentence(recommendation),
            data_sentence(recommendation),
            *search_sentences(recommendation),
        )
        if sentence
    ]
    reasons = lines_of(recommendation, "reason") + lines_of(recommendation, "caveats")
    if reasons:
        parts += [Text(""), Text("On what this rests", style="bold"), _listed(reasons, encoding)]
    return Group(*parts)


def print_summary(recommendation: Recommendation, console: Console | None = None) -> None:
    """Print :func:`summary`, on standard output unless another console is given."""
    console = console or Console(highlight=False)
    console.print(summary(recommendation, encoding=console.encoding))


def drawn_table(table: Table, encoding: str) -> RichTable:
    """A table for a terminal of 80 columns or more."""
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    roomy = sum(widths) + 2 * len(widths) <= TERMINAL_WIDTH - 2
    drawn = RichTable(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1 if roomy else 0, 0, 0))
    for index, column in enumerate(table.columns):
        words = index in table.text_columns
        # Numbers never wrap or lose digits; words give way first.
        drawn.add_column(
            Text(encoded(column, encoding)),
            justify="left" if words else "right",
            no_wrap=not words,
            overflow="fold",
        )
    for index, row in enumerate(table.rows):
        cells = [Text(encoded(cell, encoding)) for cell in row]
        drawn.add_row(*cells, style="bold" if index in table.emphasised else None)
    return drawn


def _listed(lines: list[str], encoding: str) -> RichTable:
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    for line in lines:
        grid.add_row(Text("-"), Text(encoded(line, encoding)))
    return grid
