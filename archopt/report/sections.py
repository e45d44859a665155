"""What the HTML report says, section by section, before any markup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archopt.report.figure import Figure
from archopt.report.figures import Figures, draw
from archopt.report.numbers import finite, printable, probability
from archopt.report.pruning import decision_table, pruning_sentences, pruning_table
from archopt.report.tables import (
    Table,
    allocation_table,
    comparison_table,
    configuration_table,
    failure_table,
    pairs_table,
    weighting_table,
)
from archopt.report.wording import (
    Recommendation,
    TrialRow,
    allocation_of,
    certainty,
    data_sentence,
    headline,
    in_words,
    lines_of,
    metric_name,
    search_sentences,
    theory_sentence,
    tie_sentence,
)


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in this order; never without content.

    Args:
        key: unique, safe in an HTML id.
        heading: a few words.
        paragraphs: sentences.
        figures, tables: shown after the paragraphs.
        points: a list after all of them.
    """

    key: str
    heading: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    points: tuple[str, ...] = ()


def sections(recommendation: Recommendation, rows: Sequence[TrialRow], command: str | None = None) -> list[Section]:
    """The report's sections in reading order; what the data do not hold is absent.

    Args:
        recommendation: as in recommendation.json.
        rows: one a trial.
        command: the command line that made the search.
    """
    drawn = draw(recommendation, rows)
    every = [
        _rests_on(recommendation),
        _ties(recommendation),
        _section("comparison", "Against what people do today", tables=[comparison_table(recommendation)]),
        _landscape(recommendation, drawn),
        _section("time", "What it costs in time", figures=[drawn.time]),
        _weighting(recommendation, rows, drawn),
        _pruning(recommendation, rows),
        _section("diversity", "Head diversity and loss", figures=drawn.diversity),
        _section("curves", "Learning curves", figures=[drawn.curves]),
        _data(recommendation),
        _reproduce(recommendation, command),
    ]
    return [section for section in every if section is not None]


def answer(recommendation: Recommendation) -> tuple[str, list[str], list[tuple[str, str]]]:
    """The top of the page: the headline, the sentences on certainty, and a few numbers with their names."""
    told = [sentence for sentence in (certainty(recommendation), tie_sentence(recommendation)) if sentence]
    numbers = []
    allocation = allocation_of(recommendation.get("allocation"))
    if allocation is not None:
        numbers.append(("allocation", in_words(allocation)))
        if finite(recommendation.get("p_best")) is not None:
            numbers.append(("probability best", probability(recommendation["p_best"])))
    table = allocation_table(recommendation)
    for index in sorted(table.emphasised if table else ()):
        row = table.rows[index] if table else ()
        numbers += [(f"{metric_name(recommendation)}, posterior mean", row[2]), ("step time", row[6])]
    return headline(recommendation), told, [(name, value) for name, value in numbers if value != "-"]


def _rests_on(recommendation: Recommendation) -> Section | None:
    paragraphs = [*lines_of(recommendation, "reason"), *search_sentences(recommendation)]
    return _section("rests-on", "On what this rests", paragraphs, points=lines_of(recommendation, "caveats"))


def _ties(recommendation: Recommendation) -> Section | None:
    tables = [allocation_table(recommendation), configuration_table(recommendation)]
    return _section("allocations", "The allocations, and which tie", tables=tables)


def _landscape(recommendation: Recommendation, drawn: Figures) -> Section | None:
    told = theory_sentence(recommendation)
    heading = f"{metric_name(recommendation)} against head_dim"
    return _section("landscape", heading, [told] if told else [], figures=[drawn.head_dim])


def _weighting(recommendation: Recommendation, rows: Sequence[TrialRow], drawn: Figures) -> Section | None:
    minimize = recommendation.get("direction") != "maximize"
    table = weighting_table(rows, metric_name(recommendation), minimize=minimize)
    return _section("weighting", "Head weighting compared", figures=[drawn.weighting], tables=[table])


def _pruning(recommendation: Recommendation, rows: Sequence[TrialRow]) -> Section | None:
    tables = [pruning_table(rows), decision_table(rows), failure_table(rows)]
    heading = "What was pruned and what failed" if tables[2] else "What the pruner did"
    told = pruning_sentences(recommendation, rows) if any(tables) or recommendation.get("diversity_worth") else []
    return _section("pruning", heading, told, tables=tables)


def _data(recommendation: Recommendation) -> Section | None:
    data = recommendation.get("data") or {}
    told = data_sentence(recommendation)
    return _section("data", "The data", [told] if told else [], points=lines_of(data, "notes"))


def _reproduce(recommendation: Recommendation, command: str | None) -> Section | None:
    told = [f"Command: {printable(command, most=1000)}"] if command else []
    data: Mapping[str, Any] = recommendation.get("data") or {}
    if data.get("hash"):
        told.append(f"Data, SHA-256: {printable(data['hash'])}")
    tables = [
        pairs_table("Settings of the search.", recommendation.get("settings") or {}, "setting"),
        pairs_table("Versions it ran with.", recommendation.get("versions") or {}, "software"),
    ]
    return _section("reproduce", "How to reproduce it", told, tables=tables)


def _section(
    key: str,
    heading: str,
    paragraphs: Sequence[str] = (),
    *,
    figures: Sequence[Figure | None] = (),
    tables: Sequence[Table | None] = (),
    points: Sequence[str] = (),
) -> Section | None:
    held = tuple(figure for figure in figures if figure is not None)
    kept = tuple(table for table in tables if table is not None)
    if not (paragraphs or held or kept or points):
        return None
    return Section(key, heading, tuple(paragraphs), held, kept, tuple(points))
