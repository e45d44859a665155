"""The cells of a campaign as one table: what each allocation came to, by its own cell's trials alone."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from archopt.campaign.storage import open_storage, recorded_settings
from archopt.campaign.storage_url import masked, refuse_missing_file
from archopt.errors import OptionError, StorageError
from archopt.evaluation import METRICS
from archopt.search_space import read_history, recognise_head_parameter, search_space_of
from archopt.study_model import flat_prior, model_study

if TYPE_CHECKING:
    import optuna
    import pandas as pd

CELL_COLUMNS = ("n_samples", "d_model", "n_heads", "head_dim", "loss", "loss_sd", "n_trials")


def cell_name(campaign: str, n_samples: int, d_model: int) -> str:
    """The study of one cell."""
    return f"{campaign}-n{n_samples}-d{d_model}"


def cells_of(campaign: str, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """(n, D) of the studies that are cells of a campaign, by name, in order of n and D."""
    pattern = re.compile(rf"{re.escape(campaign)}-n(\d+)-d(\d+)")
    found = {name: (int(match[1]), int(match[2])) for name in names if (match := pattern.fullmatch(name))}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def cells_frame(
    studies: "Sequence[optuna.Study]",
    *,
    n_samples: Sequence[float | None] = (),
    d_models: Sequence[int | None] = (),
) -> "pd.DataFrame":
    """One row for each study and allocation that was tried in it.

    The loss is the posterior mean at the allocation's best other parameters, under a flat prior of the optimum: neither
    the theory nor another cell has a part in it, so that a law fitted to it can be held against the theory.

    Args:
        studies: single-objective, archopt's own or not. One without a finished trial has no row.
        n_samples: one for each study, or none at all; None where archopt recorded it.
        d_models: D, in the same way; None where the study says it itself.

    Returns:
        Columns `CELL_COLUMNS`: n_samples and d_model (of the cell), n_heads, head_dim, loss (in the objective's units,
        negated where it is maximised, so that lower is better), loss_sd (posterior standard deviation of that expected
        value, noise apart), n_trials (finished ones, and pruned ones whose curve says something).

    Raises:
        OptionError: n or D of a study is neither given nor recorded, or is not one a study.
    """
    import pandas as pd

    for name, given in (("n_samples", n_samples), ("d_models", d_models)):
        if given and len(given) != len(studies):
            raise OptionError(f"{name} must be one for each of the {len(studies)} studies but got {len(given)}")
    rows = [
        row
        for at, study in enumerate(studies)
        for row in _rows(study, n_samples[at] if n_samples else None, d_models[at] if d_models else None)
    ]
    return pd.DataFrame(rows, columns=list(CELL_COLUMNS))


def load_campaign_cells(storage_url: str, name: str) -> "tuple[pd.DataFrame, str]":
    """`cells_frame` of every cell of a campaign that a storage holds, whatever sizes it was last run with.

    And the family of its data, "table" or "text".

    Args:
        storage_url: Optuna storage URL.
        name: of the campaign; its studies are NAME-n1000-d48 and so on.

    Raises:
        StorageError: the storage cannot be opened, or holds no such campaign.
    """
    import optuna

    refuse_missing_file(storage_url)
    storage = open_storage(storage_url)
    names = optuna.get_all_study_names(storage)
    cells = cells_of(name, names)
    if not cells:
        held = sorted({match[1] for other in names if (match := re.fullmatch(r"(.+)-n\d+-d\d+", other))})
        shown = ", ".join(map(repr, held[:5])) + (", ..." if len(held) > 5 else "") if held else "none"
        raise StorageError(
            f"storage {masked(storage_url)} has no campaign {name[:60]!r} over several sizes; it has {shown}"
        )
    studies = [optuna.load_study(study_name=cell, storage=storage) for cell in cells]
    frame = cells_frame(
        studies, n_samples=[n for n, _ in cells.values()], d_models=[width for _, width in cells.values()]
    )
    metric = (recorded_settings(studies[0]) or {}).get("metric")
    return frame, "text" if metric in METRICS["text"] else "table"


def _rows(study: "optuna.Study", n_samples: float | None, d_model: int | None) -> list[dict[str, Any]]:
    settings = recorded_settings(study) or {}
    n_samples = settings.get("n_samples") if n_samples is None else n_samples
    if n_samples is None:
        raise OptionError(f"study {study.study_name!r} does not say its n_samples: give one for each study")
    if len(study.directions) > 1:
        raise OptionError(f"a table of cells needs studies with one objective; {study.study_name!r} has several")
    if not any(trial.state.name == "COMPLETE" for trial in study.get_trials(deepcopy=False)):
        return []
    head = recognise_head_parameter(study, settings.get("d_model") if d_model is None else d_model)
    history = read_history(study, head)
    space = search_space_of(history.distributions(), head)
    if space is None or not any(record.is_finished and record.allocation for record in history.ended):
        return []
    model = model_study(history, space, flat_prior(space.log2_head_dim))
    mean, sd = model.posterior.in_units(model.posterior.mean), model.posterior.sd
    positions: dict[Any, list[int]] = {}
    for at, candidate in enumerate(space.candidates):
        if not model.infeasible[at]:
            positions.setdefault(candidate.allocation, []).append(at)
    rows = []
    for split in sorted(positions, key=lambda split: (split.d_model, split.head_dim)):
        n_trials = int(model.n_trials[positions[split]].sum())
        if n_trials:
            best = min(positions[split], key=lambda at: float(mean[at]))
            figures = (n_samples, split.d_model, split.n_heads, split.head_dim, mean[best], sd[best], n_trials)
            rows.append(dict(zip(CELL_COLUMNS, figures, strict=True)))
    return rows
