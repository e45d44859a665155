"""From a table of runs to cells: columns checked, bad rows listed, runs averaged over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from archopt.allocation import MAX_D_MODEL
from archopt.data.wording import listed, shown
from archopt.errors import DataError, OptionError
from archopt.laws.cells import Cell

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

COLUMNS = ("n_samples", "d_model", "n_heads", "head_dim", "loss", "loss_sd", "seed")
# of a campaign's cells.csv: how many trials a loss rests on, which its loss_sd knows
COUNT_COLUMN = "n_trials"
FEWEST_HEAD_DIMS = 2  # in a cell, for it to say anything
# Beyond: what stands for infinity or cannot be squared; no width
MOST = {"loss": 1e100, "loss_sd": 1e100, "d_model": MAX_D_MODEL}
WIDEST = 8_192  # head_dim: far above any in use
DIVERGED = 100.0  # times the distance from lower quartile to median: a run so far above the median tells of no head_dim
_MOST_LISTED = 20


@dataclass(frozen=True)
class Runs:
    """What a table of runs holds.

    Attributes:
        cells: those with at least `FEWEST_HEAD_DIMS` head_dims, by group, D and n.
        notes: what was dropped and why, one line each.
        n_rows: that are used.
    """

    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    n_rows: int


def read_runs(
    frame: "pd.DataFrame",
    *,
    best_over: Sequence[str] | str = (),
    ignore: Sequence[str] | str = (),
    direction: str = "minimize",
) -> Runs:
    """Check the columns, drop and list the rows that cannot be used, and average what repeats.

    Args:
        frame: columns as for `archopt.fit_scaling_law`.
        best_over: columns of which, in each cell and head_dim, the value with the best mean loss counts.
        ignore: columns without meaning here.
        direction: of ``loss``: "minimize" or "maximize".

    Raises:
        DataError: a column is missing, or no row can be used.
        OptionError: an unknown direction, or a column named that is not there.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise OptionError(f"a scaling law is fitted to a pandas DataFrame but got {type(frame).__name__}")
    if direction not in ("minimize", "maximize"):
        raise OptionError(f"direction must be minimize or maximize but got {direction!r}")
    best_over, ignore = ([each] if isinstance(each, str) else list(each) for each in (best_over, ignore))
    frame = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    for option, named in (("best_over", best_over), ("ignore", ignore)):
        for name in named:
            fixed = COLUMNS if option == "best_over" else COLUMNS[:5]
            if name not in frame.columns or name in fixed:
                allowed = listed([each for each in frame.columns if each not in fixed]) or "none"
                raise OptionError(f"{option} names {shown(name)}, but the columns it can name are {allowed}")
    frame = frame.drop(columns=ignore)
    _refuse_missing(frame)
    groups = [name for name in frame.columns if name not in {*COLUMNS, COUNT_COLUMN, *best_over}]
    tidy, notes = _tidy(frame, groups, best_over)
    if direction == "maximize":
        tidy["loss"] = -tidy["loss"]
    keys = [*groups, "d_model", "n_samples"]
    try:
        tidy, diverged = _without_diverged(tidy, keys)
    except TypeError:
        raise DataError("columns that make groups must hold text or numbers but one holds lists or the like") from None
    notes += diverged
    cells: list[Cell] = []
    thin: list[Cell] = []
    for key, rows in tidy.groupby(keys, sort=True, dropna=False):
        cell = _cell(rows, dict(zip(keys, key, strict=True)), groups, best_over)
        (cells if len(cell.loss) >= FEWEST_HEAD_DIMS else thin).append(cell)
    if thin:
        notes.append(f"left out {_counted(len(thin), 'cell')} with one head_dim: {_listed([c.label for c in thin], 5)}")
    if not cells:
        raise DataError(_why_no_cell(tidy, groups))
    return Runs(tuple(cells), tuple(notes), len(tidy))


def _refuse_missing(frame: "pd.DataFrame") -> None:
    missing = [name for name in ("n_samples", "d_model", "loss") if name not in frame.columns]
    if "n_heads" not in frame.columns and "head_dim" not in frame.columns:
        missing.append("n_heads or head_dim")
    if missing:
        there = listed(list(frame.columns)) or "none"
        raise DataError(
            f"there is no column {' and none '.join(missing)}; the columns are {there}: "
            "rename them, or say which is which"
        )
    twice = sorted({str(name) for name in frame.columns[frame.columns.duplicated()]})
    if twice:
        raise DataError(f"columns must have different names but {listed(twice)} is there twice")


def _tidy(frame: "pd.DataFrame", groups: list[str], best_over: list[str]) -> "tuple[pd.DataFrame, list[str]]":
    """The usable rows, with head_dim and n_heads in agreement."""
    import pandas as pd

    row = np.arange(1, len(frame) + 1)
    numbers = {name: _numbers(frame[name]) for name in COLUMNS[:-1] if name in frame.columns}
    notes: list[str] = []
    reasons: list[str] = []
    good = np.ones(len(frame), dtype=bool)

    def drop(bad: npt.NDArray[np.bool_], what: str) -> None:
        nonlocal good
        new = bad & good
        if new.any():
            reasons.append(f"{_counted(int(new.sum()), 'row')} {what}")
            notes.append(f"dropped {reasons[-1]}: {_listed([str(number) for number in row[new]], _MOST_LISTED)}")
        good &= ~bad

    for name, values in numbers.items():
        if name == "n_heads" and "head_dim" in numbers:
            bad = np.isnan(values) & np.isnan(numbers["head_dim"])
        elif name == "head_dim" and "n_heads" in numbers:
            continue
        else:
            bad = ~(np.abs(values) <= MOST.get(name, np.finfo(np.float64).max))
        limit = f" up to {MOST[name]:,.7g}" if name in MOST else ""
        drop(bad, f"whose {name} is missing or not a finite number{limit}")
    width = numbers["d_model"]
    heads = numbers.get("n_heads", np.full(len(frame), np.nan))
    head_dim = numbers.get("head_dim", np.full(len(frame), np.nan))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        heads_ = np.where(np.isnan(heads), width / head_dim, heads)
        whole = (np.rint(heads_) == heads_) & (np.rint(width) == width) & (width >= 1) & (heads_ >= 1)
        apart = ~np.isnan(head_dim) & ~(np.abs(heads_ * head_dim - width) <= 1e-3 * width)
    drop(good & apart, "where n_heads x head_dim is not d_model")
    drop(good & ~whole, "where n_heads does not come out as a whole number of at least 1")
    drop(good & (numbers["n_samples"] < 2), "whose n_samples is below 2")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        drop(good & (width % np.where(whole, heads_, 1.0) != 0), "where n_heads does not divide d_model")
        drop(good & (width / heads_ > WIDEST), f"whose head_dim is above {WIDEST:,}, which is not looked at")
    if "loss_sd" in numbers:
        drop(good & (numbers["loss_sd"] < 0), "whose loss_sd is below 0")
    if not good.any():
        raise DataError(
            f"none of the {len(frame):,} rows can be used: {'; '.join(reasons[:3]) or 'the table is empty'}"
        )
    kept = frame.loc[good, [*groups, *best_over, *(["seed"] if "seed" in frame.columns else [])]].reset_index(drop=True)
    for name in ("n_samples", "loss", "loss_sd"):
        if name in numbers:
            kept[name] = numbers[name][good]
    kept["d_model"] = width[good].astype(np.int64)
    kept["head_dim"] = np.rint(width[good] / heads_[good]).astype(np.int64)
    for name in groups:
        if pd.api.types.is_float_dtype(kept[name]) and (kept[name].dropna() % 1 == 0).all():
            kept[name] = kept[name].astype("Int64")
    return kept, notes


def _without_diverged(tidy: "pd.DataFrame", keys: list[str]) -> "tuple[pd.DataFrame, list[str]]":
    """Without runs so far above their cell's others that no head_dim explains it."""
    by_cell = tidy.groupby(keys, sort=False, dropna=False)["loss"]
    middle, quarter = by_cell.transform("median"), by_cell.transform("quantile", 0.25)
    far = tidy["loss"] > middle + DIVERGED * (middle - quarter)
    far &= middle > quarter
    if not far.any():
        return tidy, []
    listed = _listed([f"{value:.3g}" for value in tidy.loc[far, "loss"]], 5)
    count = _counted(int(far.sum()), "run")
    limit = f"{DIVERGED:g} times as far above the cell's median as its lower quartile below"
    return tidy[~far], [f"dropped {count} that diverged ({limit}): {listed}"]


def _cell(rows: "pd.DataFrame", key: dict[str, Any], groups: list[str], best_over: list[str]) -> Cell:
    if best_over:
        rows = _best_values(rows, best_over)
    head_dims, column = np.unique(rows["head_dim"].to_numpy(), return_inverse=True)
    loss = rows["loss"].to_numpy(dtype=np.float64)
    given = None
    if "loss_sd" in rows:
        variance = rows["loss_sd"].to_numpy(dtype=np.float64) ** 2
        given = np.sqrt(np.bincount(column, weights=variance)) / np.bincount(column)
    means, runs, residuals, degrees = _averages(loss, column, rows["seed"].to_numpy() if "seed" in rows else None)
    if degrees > 0:
        residuals = residuals * np.sqrt(len(residuals) / degrees)
    return Cell(
        n_samples=float(key["n_samples"]),
        d_model=int(key["d_model"]),
        group=tuple((name, _plain(key[name])) for name in groups),
        log2_head_dim=np.log2(head_dims.astype(np.float64)),
        loss=means,
        runs=runs if given is None else np.ones(len(runs)),
        residuals=residuals if degrees > 0 else np.empty(0),
        degrees=degrees,
        loss_sd=given,
    )


def _averages(loss: Array, column: npt.NDArray[np.intp], seed: Any) -> tuple[Array, Array, Array, int]:
    """Means by head_dim, how many runs each is worth, what is left, and its degrees of freedom.

    A recurring seed's own level is taken out; where seeds do not meet every head_dim, a mean is worth fewer runs than
    went into it. A run without a seed has one of its own.
    """
    import pandas as pd

    size = int(column.max()) + 1
    indicator = np.eye(size)[column]
    if seed is not None:
        block = pd.factorize(seed)[0]  # -1 where missing
        missing = block < 0
        block[missing] = block.max() + 1 + np.arange(missing.sum())
        n_blocks = int(block.max()) + 1
        if 1 < n_blocks < len(loss):
            effects = np.eye(n_blocks)[block]
            design = np.column_stack([indicator, effects - effects.mean(axis=0)])
            found, _, rank, _ = np.linalg.lstsq(design, loss, rcond=None)
            joined = rank == size + n_blocks - 1
            if joined:  # else some head_dims share no seed with the rest, and levels cannot be told from them
                worth = 1.0 / np.diag(np.linalg.pinv(design.T @ design))[:size]
                return found[:size], worth, loss - design @ found, len(loss) - rank
    runs = np.bincount(column).astype(np.float64)
    means = np.bincount(column, weights=loss) / runs
    return means, runs, loss - means[column], len(loss) - size


def _best_values(rows: "pd.DataFrame", best_over: list[str]) -> "pd.DataFrame":
    """For each head_dim the rows with the values of ``best_over`` that have the lowest mean loss."""
    mean = rows.groupby(["head_dim", *best_over], dropna=False, sort=True)["loss"].mean().reset_index()
    best = mean.loc[mean.groupby("head_dim")["loss"].idxmin(), ["head_dim", *best_over]]
    return rows.merge(best, on=["head_dim", *best_over], how="inner")


def _why_no_cell(tidy: "pd.DataFrame", groups: list[str]) -> str:
    distinct = {name: tidy[name].nunique(dropna=False) for name in groups}
    worst = max(distinct, key=lambda name: distinct[name], default=None)
    if worst is not None and distinct[worst] > 1:
        return (
            f"no cell has {FEWEST_HEAD_DIMS} head_dims: every column besides those of a run makes groups, and "
            f"{worst!r} has {distinct[worst]:,} values; ignore it, or take the best over it"
        )
    return f"no cell has {FEWEST_HEAD_DIMS} head_dims: each n_samples and d_model was tried with one only"


def _numbers(column: "pd.Series[Any]") -> Array:
    import pandas as pd

    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        text = column.astype(str).str.strip()
        grouped = text.str.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?")  # 1,000 for a thousand
        column = text.where(~grouped, text.str.replace(",", ""))
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _plain(value: Any) -> object:
    """As JSON can hold it."""
    import pandas as pd

    if pd.isna(value):
        return None
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _listed(words: Sequence[str], most: int) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
