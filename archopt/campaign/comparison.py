"""The recommendation against what people do today, on the test split and with seeds that the search never used."""

import time
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

from archopt.allocation import HeadAllocation, nearest_allocation
from archopt.campaign.cell import trial_spec
from archopt.evaluation import TrialSpec
from archopt.evaluation.workers import Failed, Finished, RungReached, WorkerPool
from archopt.recommendation import Recommendation
from archopt.search_space import DECORRELATION, LEARNING_RATE, N_HEADS, WEIGHTING
from archopt.study_model import StudyModel

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

FIRST_FRESH_REPLICATE = 1_000_000  # far above any replicate that a search reaches
N_SEEDS = 3
SIGNIFICANCE = 0.05  # one-sided, over all rows together
TOO_LATE = "the time limit came first"


def practices(feasible: Sequence[HeadAllocation], closed_form: HeadAllocation) -> dict[str, HeadAllocation]:
    """What people do today, and what the closed form says, each at the nearest feasible split."""
    return {
        "8 heads": min(feasible, key=lambda split: (abs(split.n_heads - 8), split.n_heads)),
        "head_dim 16": nearest_allocation(16, feasible),
        "head_dim 64": nearest_allocation(64, feasible),
        "closed form": nearest_allocation(closed_form.head_dim, feasible),
    }


def opening_trials(
    feasible: Sequence[HeadAllocation],
    closed_form: HeadAllocation,
    distributions: "Mapping[str, BaseDistribution]",
    defaults: Mapping[str, float],
) -> list[dict[str, Any]]:
    """Today's practices and the closed form under every learning rate: the first trials of a campaign.

    A practice that is compared at an untuned learning rate would lose unfairly; and the model learns from these too.

    Args:
        defaults: values, by parameter, of what else is searched: the nearest choice of each is taken.
    """
    found = practices(feasible, closed_form)
    splits = dict.fromkeys([found.pop("closed form"), *found.values()])
    weightings, rates = _choices(distributions[WEIGHTING]), _choices(distributions[LEARNING_RATE])
    plain = "uniform" if "uniform" in weightings else weightings[0]
    usual = {
        name: _nearest(value, _choices(distributions[name]))
        for name, value in defaults.items()
        if name in distributions
    }
    return [
        {N_HEADS: split.n_heads, WEIGHTING: plain, DECORRELATION: 0.0, LEARNING_RATE: rate, **usual}
        for split in splits
        for rate in rates
    ]


def contenders(
    recommendation: Recommendation,
    model: StudyModel,
    feasible: Sequence[HeadAllocation],
    closed_form: HeadAllocation,
) -> tuple[list[dict[str, Any]], list[str]]:
    """What is compared: label, allocation and parameters; and the labels that are left out.

    Left out is what has no tuned learning rate yet: no plain trial of it has ended, or it is infeasible.

    Today's practices get uniform weighting, no decorrelation and the tried learning rate with the best posterior mean
    for their own allocation. Where two labels mean the same configuration they share a row.
    """
    exact = {"8 heads": 8, "head_dim 16": 16, "head_dim 64": 64}
    left_out = []
    rows = [{"label": "recommended", "allocation": recommendation.allocation, "params": dict(recommendation.params)}]
    for label, split in practices(feasible, closed_form).items():
        got = split.n_heads if label == "8 heads" else split.head_dim
        shown = label if exact.get(label, got) == got else f"{label} (nearest)"
        params = _plain_params(split, model)
        if params is None:
            left_out.append(shown)
            continue
        same = next((row for row in rows if row["allocation"] == split and row["params"] == params), None)
        if same is None:
            rows.append({"label": shown, "allocation": split, "params": params})
        else:
            same["label"] = f"{same['label']}, {shown}"
    return rows, left_out


def compare(
    pool: WorkerPool, rows: Sequence[Mapping[str, Any]], *, deadline: float | None = None
) -> list[dict[str, Any]]:
    """Train every row with the same fresh seeds, score the test split, and put the figures beside it.

    Args:
        pool: with no trial in training.
        rows: as `contenders` gives them.
        deadline: monotonic time at which what still trains is given up; None to wait for all.

    Returns:
        The rows with their figures, over as many seeds as ended. A row without any says why.
    """
    jobs = [(row, seed) for seed in range(N_SEEDS) for row in range(len(rows))]
    waiting = list(enumerate(jobs))
    found: dict[int, dict[int, float]] = {row: {} for row in range(len(rows))}
    seconds: dict[int, list[float]] = {row: [] for row in range(len(rows))}
    reasons: dict[int, str] = {}
    running: set[int] = set()
    while waiting or running:
        if deadline is not None and time.monotonic() >= deadline:
            for job_id in running:
                pool.cancel(job_id)
            for row, _ in [*(jobs[job_id] for job_id in running), *(job for _, job in waiting)]:
                reasons.setdefault(row, TOO_LATE)
            break
        while waiting and pool.n_idle:
            job_id, (row, seed) = waiting.pop(0)
            pool.submit(job_id, _fresh_spec(rows[row], seed))
            running.add(job_id)
        event = pool.next_event(1.0)
        if event is None:
            continue
        row, seed = jobs[event.job_id]
        if isinstance(event, RungReached):
            pool.answer(event.job_id, stop=False)
            continue
        running.discard(event.job_id)
        if isinstance(event, Finished) and event.outcome.test_value is not None:
            found[row][seed] = event.outcome.test_value
            seconds[row].append(event.outcome.seconds_per_step)
        elif isinstance(event, Failed):
            reasons[row] = event.reason
    return [_figures(rows[row], found[row], seconds[row], reasons.get(row), found[0]) for row in range(len(rows))]


def was_cut(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the deadline left some row with fewer seeds than the others may have."""
    return any(row["n"] < N_SEEDS and row["reason"] in (None, TOO_LATE) for row in rows)


def caveats(rows: Sequence[Mapping[str, Any]], left_out: Sequence[str]) -> list[str]:
    """A line where some row is surely better than the recommendation on the test split, and one on what is missing.

    Surely: by a paired t test, one-sided, its level shared between the rows (Bonferroni), since the best of several
    rows is looked at.
    """
    from scipy.stats import t  # here: it is slow to import, and needed once

    lines = []
    paired = [row for row in rows[1:] if row["gain"] is not None and row["gain_se"] is not None]
    better = [
        row
        for row in paired
        if row["gain"] > 0.0
        and row["gain"] > t.ppf(1.0 - SIGNIFICANCE / len(paired), row["n_pairs"] - 1) * row["gain_se"]
    ]
    if better:
        best = max(better, key=lambda row: float(row["gain"]))
        split = best["allocation"]
        lines.append(
            f"{split['n_heads']} x {split['head_dim']} ({best['label']}) did better than the recommendation by "
            f"{best['gain']:.4g} +- {best['gain_se']:.2g} over {best['n_pairs']} seeds on one test split"
        )
    if left_out:
        lines.append(
            f"not compared, since no trial of it with plain settings ended and was feasible: {', '.join(left_out)}"
        )
    return lines


def _choices(distribution: "BaseDistribution") -> tuple[Any, ...]:
    return tuple(getattr(distribution, "choices", ()))


def _nearest(value: float, choices: Sequence[float]) -> float:
    return min(choices, key=lambda choice: abs(choice - value))


def _plain_params(split: HeadAllocation, model: StudyModel) -> dict[str, Any] | None:
    """The tuned learning rate of this allocation with everything else as it is done today."""
    own = [i for i, candidate in enumerate(model.space.candidates) if candidate.allocation == split]
    weightings = {model.space.candidates[i].params[WEIGHTING] for i in own}
    weighting = "uniform" if "uniform" in weightings else model.space.candidates[own[0]].params[WEIGHTING]
    plain = [
        i
        for i in own
        if model.space.candidates[i].params[WEIGHTING] == weighting
        and model.space.candidates[i].params[DECORRELATION] == 0.0
        and model.n_trials[i] > 0
        and not model.infeasible[i]
    ]
    if not plain:
        return None
    return dict(model.space.candidates[min(plain, key=lambda i: model.posterior.mean[i])].params)


def _fresh_spec(row: Mapping[str, Any], seed: int) -> TrialSpec:
    return trial_spec(row["params"], row["allocation"], replicate=FIRST_FRESH_REPLICATE + seed, score_test=True)


def _figures(
    row: Mapping[str, Any],
    tests: Mapping[int, float],
    seconds: Sequence[float],
    reason: str | None,
    recommended: Mapping[int, float],
) -> dict[str, Any]:
    values = list(tests.values())
    gains = [recommended[seed] - value for seed, value in tests.items() if seed in recommended]
    return {
        "label": row["label"],
        "allocation": {"n_heads": row["allocation"].n_heads, "head_dim": row["allocation"].head_dim},
        "weighting": row["params"][WEIGHTING],
        "decorrelation": row["params"][DECORRELATION],
        "learning_rate": row["params"][LEARNING_RATE],
        "test": fmean(values) if values else None,
        "test_sd": stdev(values) if len(values) > 1 else None,
        "n": len(values),
        "seconds_per_step": median(seconds) if seconds else None,
        # paired by seed: same initialisation and batches; positive where this row did better
        "gain": fmean(gains) if gains else None,
        "gain_se": stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else None,
        "n_pairs": len(gains),
        "reason": reason if not values else None,
    }
