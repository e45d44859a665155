"""The tables of the report as plain text cells, for the terminal and for HTML alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from archopt.report.numbers import (
    MISSING,
    decimals_for,
    finite,
    fixed,
    printable,
    probability,
    short,
    step_time,
    whole,
)
from archopt.report.wording import Recommendation, TrialRow, allocation_of, in_words, metric_name, ties

MARKS = "use: recommended. tie: cannot be told apart from it. theory: nearest to the closed form."


@dataclass(frozen=True)
class Table:
    """Cells as text.

    Args:
        caption: one line that says what the table shows.
        columns: the headings.
        rows: as many cells each as there are columns.
        text_columns: indices of the columns that hold words and not numbers.
        emphasised: indices of the rows that hold the recommendation.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[int] = frozenset()
    emphasised: frozenset[int] = frozenset()


def allocation_table(recommendation: Recommendation) -> Table | None:
    """Each feasible allocation: posterior loss, P(best), trials, step time; None where there is none."""
    entries = [entry for entry in recommendation.get("allocations") or () if allocation_of(entry)]
    if not entries:
        return None
    decimals = loss_decimals(recommendation)
    chosen, tied = allocation_of(recommendation.get("allocation")), set(ties(recommendation))
    theory = allocation_of((recommendation.get("theory") or {}).get("nearest"))
    rows, emphasised = [], set()
    for index, entry in enumerate(entries):
        allocation = allocation_of(entry)
        marks = [
            word
            for word, holds in (
                ("use", allocation == chosen),
                ("tie", allocation in tied),
                ("theory", allocation == theory),
            )
            if holds
        ]
        if allocation == chosen:
            emphasised.add(index)
        rows.append(
            (
                *(str(number) for number in allocation or ()),
                fixed(entry.get("mean"), decimals),
                interval(entry.get("low"), entry.get("high"), decimals),
                probability(entry.get("p_best")),
                _counted(entry.get("n_trials")),
                step_time(entry.get("seconds_per_step")),
                ", ".join(marks),
            )
        )
    confidence = finite(recommendation.get("confidence"))
    level = f"{100 * confidence:.0f} % interval" if confidence is not None else "interval"
    columns = ("heads", "head_dim", metric_name(recommendation), level, "P(best)", "trials", "step time", "mark")
    caption = f"Every allowed allocation, at its best other settings. {MARKS}"
    return Table(caption, columns, tuple(rows), frozenset({7}), frozenset(emphasised))


def comparison_table(recommendation: Recommendation) -> Table | None:
    """The recommendation against what people do today, on held-out data; None where it was not measured."""
    entries = [entry for entry in recommendation.get("comparison") or () if allocation_of(entry)]
    if not entries:
        return None
    spread = [sd for entry in entries if (sd := finite(entry.get("test_sd")))]
    decimals = decimals_for([entry.get("test") for entry in entries], min(spread, default=None))
    chosen = next((entry for entry in entries if _is_recommended(entry)), entries[0])
    base = finite(chosen.get("seconds_per_step"))
    rows = []
    for entry in entries:
        n_heads, head_dim = allocation_of(entry) or (0, 0)
        seconds = finite(entry.get("seconds_per_step"))
        sd = finite(entry.get("test_sd"))
        rows.append(
            (
                printable(entry.get("label") or "", most=80),
                f"{n_heads} x {head_dim}",
                fixed(entry.get("test"), decimals) + (f" ± {fixed(sd, decimals)}" if sd is not None else ""),
                _difference(entry, decimals),
                step_time(seconds),
                f"{seconds / base:.2f}x" if seconds is not None and base else MISSING,
            )
        )
    counts = sorted({n for entry in entries if (n := whole(entry.get("n")))})
    seeds = (
        " to ".join(str(n) for n in dict.fromkeys([counts[0], counts[-1]])) + " fresh seeds" if counts else "no seed"
    )
    columns = (
        "what",
        "heads x dim",
        f"test {metric_name(recommendation)}",
        "difference",
        "step time",
        "cost",
    )
    caption = (
        f"Against what people do today, on data that no trial was scored on: mean ± standard deviation over {seeds}. "
        "difference: from the recommendation, paired by seed, ± standard error; above 0 is worse. "
        "cost: step time relative to the recommendation's."
    )
    emphasised = frozenset({entries.index(chosen)}) if _is_recommended(chosen) else frozenset()
    return Table(caption, columns, tuple(rows), frozenset({0, 1}), emphasised)


def _is_recommended(entry: Mapping[str, Any]) -> bool:
    """Its label may go on with the practices that are the same configuration."""
    return str(entry.get("label") or "").startswith("recommended")


def _difference(entry: Mapping[str, Any], decimals: int) -> str:
    """How much worse than the recommendation, with the standard error of the paired mean."""
    gain, error = finite(entry.get("gain")), finite(entry.get("gain_se"))
    if gain is None or _is_recommended(entry):
        return MISSING
    return f"{-gain:+.{decimals}f}" + (f" ± {fixed(error, decimals)}" if error is not None else "")


def configuration_table(recommendation: Recommendation, most: int = 20) -> Table | None:
    """The confidence set, at most so many of its configurations; None where it is empty."""
    entries = [entry for entry in recommendation.get("confidence_set") or () if allocation_of(entry)]
    if not entries:
        return None
    decimals = loss_decimals(recommendation)
    names = [
        name
        for name in dict.fromkeys(key for entry in entries for key in entry.get("params") or ())
        if name != "n_heads"
    ]
    rows = []
    for entry in entries[:most]:
        params = entry.get("params") or {}
        rows.append(
            (
                in_words(allocation_of(entry) or (0, 0)),
                *(_parameter(params.get(name)) for name in names),
                fixed(entry.get("mean"), decimals),
                fixed(entry.get("sd"), decimals),
                probability(entry.get("p_best")),
                _counted(entry.get("n_trials")),
            )
        )
    metric = metric_name(recommendation)
    named = [printable(name, most=24).replace("_", " ") for name in names]
    columns = ("allocation", *named, metric, "sd", "P(best)", "trials")
    shown = f"{most} of the {len(entries):,}" if len(entries) > most else f"the {len(entries)}"
    caption = f"The confidence set: {shown} configurations that cannot be ruled out as the best, recommended one first."
    words = {
        at
        for at, name in enumerate(names, 1)
        if any(isinstance((e.get("params") or {}).get(name), str) for e in entries)
    }
    return Table(caption, columns, tuple(rows), frozenset({0, *words}))


def weighting_table(rows: Sequence[TrialRow], metric: str, *, minimize: bool = True) -> Table | None:
    """Finished trials by weighting scheme (H > 1, where weights matter); None with fewer than two schemes."""
    best = min if minimize else max
    groups = values_by_weighting(rows)
    if len(groups) < 2:
        return None
    decimals = decimals_for([value for values in groups.values() for value in values])
    cells = tuple(
        (printable(name, most=40), str(len(values)), fixed(best(values), decimals), fixed(median(values), decimals))
        for name, values in groups.items()
    )
    caption = "Finished trials by head weighting, more than one head; other settings differ between the trials."
    return Table(caption, ("weighting", "trials", f"best {metric}", f"median {metric}"), cells, frozenset({0}))


def failure_table(rows: Sequence[TrialRow], most: int = 10) -> Table | None:
    """The first failures with their reasons; None where nothing failed."""
    failed = [row for row in rows if row.get("state") == "failed"]
    if not failed:
        return None
    cells = tuple(
        (
            str(whole(row.get("number"))),
            in_words(allocation_of(row) or (0, 0)),
            short(row.get("learning_rate")),
            printable(row.get("reason") or "no reason on record", most=200),
        )
        for row in failed[:most]
    )
    shown = f"The first {most} of {len(failed):,} failed trials." if len(failed) > most else "Failed trials."
    return Table(shown, ("trial", "allocation", "learning rate", "reason"), cells, frozenset({1, 3}))


def data_table(data: Mapping[str, Any]) -> Table | None:
    """The data set in numbers; None where none is known."""
    unit = "bytes" if data.get("kind") == "text" else "rows"
    share = finite(data.get("noise_variance"))
    facts = {
        "kind": printable(data.get("kind") or "", most=40),
        f"training {unit}": _counted(data.get("n_samples")),
        f"training {unit} available": _counted(data.get("n_available")),
        f"validation {unit}": _counted(data.get("n_valid")),
        "share of noise in the target": MISSING if share is None else f"{100 * share:.0f} %",
        "bias-to-noise ratio": short(data.get("bias_to_noise")),
    }
    known = {name: value for name, value in facts.items() if value not in ("", MISSING)}
    cells = tuple(known.items())
    return Table("The data in numbers.", ("fact", "value"), cells, frozenset({0})) if len(cells) > 1 else None


def pairs_table(caption: str, pairs: Mapping[str, Any], name: str) -> Table | None:
    """A mapping as a two-column table, without what is None; None where nothing is left."""
    known = {key: value for key, value in pairs.items() if value is not None}
    cells = tuple((printable(key, most=60), printable(_value(value))) for key, value in known.items())
    return Table(caption, (name, "value"), cells, frozenset({0, 1})) if cells else None


def loss_decimals(recommendation: Recommendation) -> int:
    """Decimals at which the allocations' losses differ: two digits of the narrowest interval's half-width."""
    entries = list(recommendation.get("allocations") or ())
    widths = [
        (high - low) / 2
        for entry in entries
        if (low := finite(entry.get("low"))) is not None and (high := finite(entry.get("high"))) is not None
        if high > low
    ]
    return decimals_for([entry.get("mean") for entry in entries], min(widths, default=None))


def finished(rows: Sequence[TrialRow]) -> list[TrialRow]:
    """The complete trials with a finite value and an allocation."""
    return [
        row
        for row in rows
        if row.get("state") == "complete" and finite(row.get("value")) is not None and allocation_of(row)
    ]


def values_by_weighting(rows: Sequence[TrialRow]) -> dict[str, list[float]]:
    """Finished values by weighting scheme, of more than one head: one head has nothing to weight."""
    groups: dict[str, list[float]] = {}
    for row in finished(rows):
        if (whole(row.get("n_heads")) or 1) > 1 and row.get("weighting"):
            groups.setdefault(str(row["weighting"]), []).append(float(row["value"]))
    return dict(sorted(groups.items()))


def last_step(row: TrialRow) -> int | None:
    """The last training step at which the trial was scored."""
    curve = row.get("curve") or ()
    return whole(curve[-1][0]) if curve else None


def interval(low: object, high: object, decimals: int) -> str:
    """ "[0.912, 0.957]", or a dash."""
    ends = fixed(low, decimals), fixed(high, decimals)
    return MISSING if MISSING in ends else f"[{ends[0]}, {ends[1]}]"


def _parameter(value: object) -> str:
    return printable(value, most=24) if isinstance(value, str | bool) else short(value)


def _counted(value: object) -> str:
    number = whole(value)
    return MISSING if number is None else f"{number:,}"


def _value(value: object) -> str:
    if isinstance(value, float):
        return short(value, 6)
    if isinstance(value, list | tuple):
        return ", ".join(_value(entry) for entry in value)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_value(entry)}" for key, entry in value.items())
    return MISSING if value is None else str(value)
