"""What the pruner did, how its forecasts came out, and what head diversity was worth to them."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from archopt.report.numbers import MISSING, count, duration, finite, printable, probability, short
from archopt.report.tables import Table, last_step
from archopt.report.wording import Recommendation, TrialRow, allocation_of, in_words

VERDICTS = ("yes", "no", "cannot tell")


def pruning_sentences(recommendation: Recommendation, rows: Sequence[TrialRow]) -> list[str]:
    """Steps saved, how the forecasts of trials that ran on came out, the worth of diversity, time in all."""
    told = [_saved(rows), _came_out(rows), worth_sentence(recommendation.get("diversity_worth") or {})]
    seconds = sum(time for row in rows if (time := finite(row.get("train_seconds"))) is not None)
    if seconds > 0:
        told.append(f"Training took {duration(seconds)} in all, added up over the trials.")
    return [sentence for sentence in told if sentence]


def worth_sentence(worth: Mapping[str, Any]) -> str:
    """ "HDI helped: no. Reading head diversity with the curve changed ..."; empty where nothing reported it."""
    if worth.get("helped") not in VERDICTS or not worth.get("n_trials"):
        return ""
    told = f"HDI helped: {worth['helped']}."
    gain, low, high = (finite(worth.get(key)) for key in ("gain", "low", "high"))
    n_trials = int(worth["n_trials"])
    if gain is None or low is None or high is None:
        told += f" {count(n_trials, 'finished trial')} with head diversity are too few to measure what it adds."
    else:
        told += (
            " Read with the curve, head diversity lowered the squared error of forecasts of left-out trials by "
            f"{100 * gain:.1f} % (90 % interval {100 * low:.1f} to {100 * high:.1f}, {n_trials:,} trials; below 0 it "
            "did harm)."
        )
    tau, error = finite(worth.get("tau")), finite(worth.get("tau_error"))
    if tau is not None and error is not None:
        told += (
            f" At equal numbers of heads, Kendall's tau between the z-score of HDI and the final value was {tau:+.2f}, "
            f"where chance gives 0 ± {error:.2f}; below 0 more diverse heads went with lower values."
        )
    return told


def pruning_table(rows: Sequence[TrialRow]) -> Table | None:
    """At which training step how many trials were stopped; None where none was."""
    steps = Counter(step for row in rows if row.get("state") == "pruned" if (step := last_step(row)) is not None)
    if not steps:
        return None
    cells = tuple((f"{step:,}", f"{number:,}") for step, number in sorted(steps.items()))
    return Table("Pruned trials by the training step they reached.", ("training step", "trials pruned"), cells)


def decision_table(rows: Sequence[TrialRow], most: int = 20) -> Table | None:
    """The trials that the pruner stopped or would have stopped, those that ran on first; None where there is none."""
    found = [(row, decision) for row in rows if (decision := _would_prune(row)) is not None]
    if not found:
        return None
    found.sort(key=lambda pair: (pair[0].get("state") == "pruned", pair[0].get("number") or 0))
    cells = []
    for row, decision in found[:most]:
        by_curve, both = finite(decision.get("by_curve")), finite(decision.get("by_curve_and_diversity"))
        moved = both - by_curve if by_curve is not None and both is not None else None
        expected, sd = short(decision.get("predicted")), short(decision.get("predicted_sd"), 2)
        cells.append(
            (
                f"{row.get('number')}",
                in_words(allocation_of(row) or (0, 0)),
                short(decision.get("step"), 9),
                f"{expected} ± {sd}" if MISSING not in (expected, sd) else MISSING,
                "none" if not moved else f"{moved:+.2g}",
                short(decision.get("incumbent")),
                probability(decision.get("p_better")),
                short(row.get("value")),
                printable(decision.get("reason") or MISSING, most=120),
            )
        )
    shown = f"The first {most} of {len(found):,} trials" if len(found) > most else "Trials"
    columns = ("trial", "allocation", "step", "expected", "by HDI", "to beat", "P(better)", "came out", "reason")
    caption = (
        f"{shown} that the pruner stopped, or would have stopped had they not been kept running; those that ran on "
        "stand first. expected: of the configuration where the study has a model of it, else of the trial. by HDI: how "
        "far head diversity moved the forecast. came out: the value at the end, of those that ran on."
    )
    return Table(caption, columns, tuple(cells), frozenset({1, 8}))


def share_saved(rows: Sequence[TrialRow]) -> float | None:
    """Of the training steps that all trials to the end would have taken; None where none was pruned, or all were."""
    pruned, complete = _steps(rows, "pruned"), _steps(rows, "complete")
    if not pruned or not complete:
        return None
    full = max(complete)
    return sum(full - step for step in pruned) / (full * (len(pruned) + len(complete))) if full else 0.0


def _steps(rows: Sequence[TrialRow], state: str) -> list[int]:
    """The last scored step of each trial that ended so."""
    return [step for row in rows if row.get("state") == state and (step := last_step(row)) is not None]


def _saved(rows: Sequence[TrialRow]) -> str:
    saved = share_saved(rows)
    if saved is None:
        return ""
    pruned, complete = _steps(rows, "pruned"), _steps(rows, "complete")
    full, n_tried = max(complete), len(pruned) + len(complete)
    return (
        f"{len(pruned):,} of {n_tried:,} trials were pruned, which saved {100 * saved:.0f} % of the training steps "
        f"that running all of them to step {full:,} would have taken."
    )


def _came_out(rows: Sequence[TrialRow]) -> str:
    """Of the trials that ran on though the pruner would have stopped them: how many it would have been wrong about."""
    ran_on = [
        (decision, value)
        for row in rows
        if row.get("state") == "complete"
        and (decision := _would_prune(row)) is not None
        and (value := finite(row.get("value"))) is not None
    ]
    held = [
        (decision, value)
        for decision, value in ran_on
        if finite(decision.get("predicted")) is not None and finite(decision.get("incumbent")) is not None
    ]
    if not held:
        return ""
    # both are in the study's own sign: what was expected to lose lies on the far side of what was to be beaten
    wrong = sum((value - d["incumbent"]) * (d["predicted"] - d["incumbent"]) < 0 for d, value in held)
    off = math.sqrt(sum((value - d["predicted"]) ** 2 for d, value in held) / len(held))
    return (
        f"{count(len(held), 'trial')} would have been stopped but ran to the end: {wrong:,} of them came out better "
        f"than what was to be beaten. Forecasts and outcomes were {off:.2g} apart (root mean square), the noise of "
        "single runs included."
    )


def _would_prune(row: TrialRow) -> Mapping[str, Any] | None:
    """The first decision to stop it, carried out or not."""
    return next((decision for decision in row.get("decisions") or () if decision.get("would_prune")), None)
