"""What the report of one search says, section by section."""

from collections.abc import Mapping, Sequence
from typing import Any

from archopt.report.failure_sides import side_sentences
from archopt.report.figures import Figures, draw
from archopt.report.numbers import MISSING, finite, printable, probability
from archopt.report.page import Page, Section, section
from archopt.report.pruning import decision_table, pruning_sentences, pruning_table
from archopt.report.tables import (
    allocation_table,
    comparison_table,
    configuration_table,
    data_table,
    failure_table,
    pairs_table,
    weighting_table,
)
from archopt.report.weighting import paired_table
from archopt.report.wording import (
    Recommendation,
    TrialRow,
    allocation_of,
    certainty,
    data_sentence,
    headline,
    in_words,
    law_sentence,
    lines_of,
    metric_name,
    search_sentences,
    seed_sentence,
    theory_sentence,
    tie_sentence,
)

PRUNING = "What the pruner did, and what HDI was worth"


def search_page(
    recommendation: Recommendation, rows: Sequence[TrialRow], *, command: str | None = None, name: str = ""
) -> Page:
    """The report of one search, or of any study.

    Args:
        recommendation: as in recommendation.json; what it lacks is left out of the page.
        rows: one a trial; may be empty.
        command: the command line that made the search, shown under how to reproduce it.
        name: of the study, shown where its data have none.
    """
    data = recommendation.get("data") or {}
    headline_, told, numbers = answer(recommendation)
    return Page(
        name=printable(data.get("name") or name, most=120),
        headline=headline_,
        certainty=tuple(told),
        numbers=tuple(numbers),
        sections=tuple(_sections(recommendation, rows, command)),
    )


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
    return headline(recommendation), told, [(name, value) for name, value in numbers if value != MISSING]


def _sections(recommendation: Recommendation, rows: Sequence[TrialRow], command: str | None) -> list[Section]:
    """In reading order; what the data do not hold is absent, or a line says why where a reader would miss it."""
    drawn = draw(recommendation, rows)
    answered = allocation_of(recommendation.get("allocation")) is not None

    def absent(line: str) -> str | None:
        return line if answered else None

    every = [
        _rests_on(recommendation),
        section(
            "allocations",
            "The allocations: which tie, and what they cost",
            tables=[allocation_table(recommendation), configuration_table(recommendation)],
        ),
        section(
            "comparison",
            "Against what people do today",
            tables=[comparison_table(recommendation)],
            without=absent("Not compared on a test split: a search of archopt does that when it ends."),
        ),
        _landscape(recommendation, drawn),
        section(
            "time",
            f"{metric_name(recommendation)} against time",
            figures=[drawn.time],
            without=absent("No time: fewer than two allocations have trials that say how long a training step takes."),
        ),
        section(
            "weighting",
            "Weighting schemes compared",
            figures=[drawn.weighting],
            tables=[
                weighting_table(rows, metric_name(recommendation), minimize=_minimize(recommendation)),
                paired_table(rows, metric_name(recommendation)),
            ],
            without=absent("Not compared: fewer than two weightings have finished trials with several heads."),
        ),
        _pruning(recommendation, rows, absent("Nothing was pruned, and no trial reported head diversity.")),
        section(
            "diversity",
            "Head diversity and loss",
            figures=drawn.diversity,
            without=absent("No head diversity: no two finished trials with several heads reported it."),
        ),
        section(
            "curves",
            "Learning curves",
            figures=[drawn.curves],
            without=absent("No curves: no trial reported values on its way."),
        ),
        _data(recommendation),
        _reproduce(recommendation, rows, command),
    ]
    return [each for each in every if each is not None]


def _minimize(recommendation: Recommendation) -> bool:
    return recommendation.get("direction") != "maximize"


def _rests_on(recommendation: Recommendation) -> Section | None:
    told = [*lines_of(recommendation, "reason"), *search_sentences(recommendation)]
    return section("rests-on", "On what this rests", told, points=lines_of(recommendation, "caveats"))


def _landscape(recommendation: Recommendation, drawn: Figures) -> Section | None:
    told = [*side_sentences(recommendation), theory_sentence(recommendation), law_sentence(recommendation)]
    return section(
        "landscape",
        f"{metric_name(recommendation)} against head_dim",
        told if drawn.head_dim is not None else [],
        figures=[drawn.head_dim],
    )


def _pruning(recommendation: Recommendation, rows: Sequence[TrialRow], without: str | None) -> Section | None:
    tables = [pruning_table(rows), decision_table(rows), failure_table(rows)]
    heading = "What was pruned, what failed, and what HDI was worth" if tables[2] else PRUNING
    told = pruning_sentences(recommendation, rows) if any(tables) or recommendation.get("diversity_worth") else []
    return section("pruning", heading, told, tables=tables, without=without)


def _data(recommendation: Recommendation) -> Section | None:
    data: Mapping[str, Any] = recommendation.get("data") or {}
    return section(
        "data", "The data", [data_sentence(recommendation)], tables=[data_table(data)], points=lines_of(data, "notes")
    )


def _reproduce(recommendation: Recommendation, rows: Sequence[TrialRow], command: str | None) -> Section | None:
    data: Mapping[str, Any] = recommendation.get("data") or {}
    told = [
        seed_sentence(recommendation, rows),
        f"Data, SHA-256: {printable(data['hash'])}" if data.get("hash") else "",
    ]
    tables = [
        pairs_table("Settings of the search.", recommendation.get("settings") or {}, "setting"),
        pairs_table("Versions it ran with.", recommendation.get("versions") or {}, "software"),
    ]
    shown = printable(command, most=1000) if command else None
    return section("reproduce", "How to reproduce it", told, tables=tables, command=shown)
