"""What a campaign leaves on disk: its trials as rows, the recommendation, the report."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archopt.campaign.facts import was_interrupted
from archopt.recommendation import Recommendation
from archopt.search_space import (
    ATTRIBUTES,
    DECORRELATION,
    LEARNING_RATE,
    WARMUP,
    WEIGHT_DECAY,
    WEIGHTING,
    TrialRecord,
)
from archopt.theory.diversity import excess_from_index


def trial_rows(records: Sequence[TrialRecord], *, maximise: bool = False, own: bool = True) -> list[dict[str, Any]]:
    """Trials as plain rows, for trials.csv and the report; trials that still run are left out.

    Args:
        maximise: whether the study is; its records are negated, these rows are not.
        own: whether archopt ran the trials.
    """
    sign = -1.0 if maximise else 1.0
    return [
        {
            "number": record.number,
            "state": "interrupted" if was_interrupted(record, own=own) else record.state,
            "n_heads": record.allocation.n_heads,
            "head_dim": record.allocation.head_dim,
            "weighting": record.params.get(WEIGHTING),
            "decorrelation": record.params.get(DECORRELATION),
            "learning_rate": record.params.get(LEARNING_RATE),
            "weight_decay": record.params.get(WEIGHT_DECAY),
            "warmup": record.params.get(WARMUP),
            "replicate": record.replicate,
            "value": None if record.value is None else sign * record.value,
            "seconds_per_step": record.seconds_per_step,
            "train_seconds": rungs[-1][1] if (rungs := record.attributes.get(ATTRIBUTES.rungs)) else None,
            "reason": record.attributes.get(ATTRIBUTES.reason),
            "curve": [[step, sign * value] for step, value in record.curve],
            "diversity": [[report.step, report.hdi, report.output_correlation] for report in record.diversity],
            "decisions": record.attributes.get(ATTRIBUTES.pruner, []),
            "params": record.params,
        }
        for record in records
        if record.allocation is not None and record.state != "running"
    ]


def rung_rows(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """One row for every rung that a trial reached, for rungs.csv; empty where a trial did not come to record it."""
    rows = []
    for record in records:
        if record.allocation is None or record.state == "running":
            continue
        d_model, head_dim = record.allocation.d_model, record.allocation.head_dim
        diversity = {report.step: report for report in record.diversity}
        spent = {int(step): (seconds, seen) for step, seconds, seen in record.attributes.get(ATTRIBUTES.rungs, ())}
        for step, value in record.curve:
            heads = diversity.get(step)
            hdi = math.nan if heads is None else heads.hdi
            seconds, seen = spent.get(step, (None, None))
            rows.append(
                {
                    "number": record.number,
                    "step": step,
                    "value": value,
                    "hdi": hdi,
                    "hdi_excess": excess_from_index(hdi, d_model=d_model, head_dim=head_dim),
                    "output_correlation": None if heads is None else heads.output_correlation,
                    "train_seconds": seconds,
                    "n_seen": seen,
                }
            )
    return rows


def write_results(
    folder: Path,
    recommendation: Recommendation | None,
    records: Sequence[TrialRecord],
    command: str,
    *,
    pictures: bool = True,
) -> None:
    """trials.csv and rungs.csv always; recommendation.json and the report where there is something to recommend.

    Args:
        pictures: whether to write the report's figures as PNG files, too.

    Raises:
        StorageError: the file system refuses.
    """
    from archopt.report.files import RUNG_COLUMNS, TRIAL_COLUMNS, write_csv, write_json
    from archopt.report.search_page import search_page
    from archopt.report.write import write_page

    rows = trial_rows(records)
    table = [{name: value for name, value in row.items() if name != "params"} for row in rows]  # they have columns
    write_csv(folder / "trials.csv", table, TRIAL_COLUMNS)
    write_csv(folder / "rungs.csv", rung_rows(records), RUNG_COLUMNS)
    if recommendation is not None:
        plain = recommendation.to_dict()
        write_json(folder / "recommendation.json", plain)
        write_page(folder, search_page(plain, rows, command=command), pictures=pictures)
