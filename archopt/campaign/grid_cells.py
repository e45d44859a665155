"""The cells of a grid over (n, D): prepared, or left out with the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypedDict

from archopt.allocation import allocation_of
from archopt.campaign.cell import Cell, CellData, prepare_cell, read_data
from archopt.campaign.cells_table import cell_name
from archopt.campaign.settings import RESULTS_FOLDER, Settings, command_line
from archopt.errors import AllocationError, ArchoptError, OptionError

FEWEST_SPLITS = 3  # between two ends an optimum can be looked for; of two splits there is no between
MAX_NAME = 75  # what a cell adds to it is 21 characters at most
MAX_REASON = 140  # characters of each, where several stand in one line


class SearchOptions(TypedDict, total=False):
    """What `archopt.search` takes beside the data, their sizes and ``quiet``; documented there."""

    target: str | None
    task: Literal["auto", "regression", "classification"]
    n_trials: int | None
    timeout_seconds: float | None
    n_steps: int | None
    min_head_dim: int
    max_head_dim: int | None
    head_dim_multiple_of: int
    n_heads_multiple_of: int
    max_seconds_per_step: float | None
    weighting: Sequence[str] | str
    learning_rate: Sequence[float] | float | str | None
    weight_decay: Sequence[float] | float | str | None
    warmup: Sequence[float] | float | str | None
    metric: str | None
    valid: str | None
    group: str | None
    time: str | None
    seed: int
    replicates: int
    n_workers: int | None
    storage: str | None
    name: str | None
    device: str
    attention: str
    precision: str
    out: Any  # str or os.PathLike
    confidence: float


@dataclass(frozen=True)
class GridPlan:
    """A campaign over several sizes, before anything is written.

    Attributes:
        base: of the whole campaign: its budget, name, place; n and D are those of the first cell.
        cells: settings and cell by (n, D), in order of n and D.
        left_out: reasons by (n, D) as asked for; n is None where it was left to the data.
        command: that repeats the campaign.
        asked: widths and numbers of samples as they were asked for.
    """

    base: Settings
    cells: Mapping[tuple[int, int], tuple[Settings, Cell]]
    left_out: Mapping[tuple[int | None, int], str]
    command: str
    asked: tuple[tuple[int, ...], tuple[int, ...]]

    def left_out_by_reason(self) -> list[tuple[str, str]]:
        """Which cells, in words, and why."""
        return _by_reason(self.left_out)


def plan_grid(data: str, d_models: Sequence[int], n_samples: Sequence[int], options: Mapping[str, Any]) -> GridPlan:
    """Read the data at every n, and decide how each cell is trained; writes nothing.

    Args:
        d_models, n_samples: sizes; repeated ones count once. Without any n it is what `archopt.search` would take.

    Raises:
        OptionError, AllocationError, DataError: an option is outside what is allowed, or no cell is left.
    """
    sizes: list[int | None] = list(_distinct("n_samples", n_samples)) or [None]
    widths = _distinct("d_models", d_models)
    if not widths:
        raise OptionError("d_models must hold at least one width but got none")
    for width in widths:
        allocation_of(width, 1)  # what is no width is a mistake, not a cell to be left out
    cells: dict[tuple[int, int], tuple[Settings, Cell]] = {}
    left_out: dict[tuple[int | None, int], str] = {}
    errors: list[ArchoptError] = []

    def leave_out(n: int | None, width: int, error: ArchoptError) -> None:
        left_out[n, width] = str(error)
        errors.append(error)

    for n in sizes:
        read: CellData | ArchoptError | None = None  # once for all widths
        for width in widths:
            try:
                settings = Settings(**{**options, "data": data, "d_model": width, "n_samples": n})
            except AllocationError as error:
                leave_out(n, width, error)
                continue
            try:
                _refuse_few_splits(settings)
                if read is None:
                    read = _read(settings)
                if not isinstance(read, CellData):
                    raise read
                settings = replace(settings, n_samples=read.dataset.n_samples)
                cells[read.dataset.n_samples, width] = settings, prepare_cell(settings, read)
            except ArchoptError as error:
                leave_out(n, width, error)
    if not cells:
        raise _nothing_left(left_out, errors)
    first = next(iter(cells.values()))[0]
    command = command_line(replace(first, n_samples=None), widths, [n for n in sizes if n is not None])
    base = _base(first)
    placed = {(n, width): (_placed(settings, base), cell) for (n, width), (settings, cell) in sorted(cells.items())}
    return GridPlan(base, placed, left_out, command, (tuple(widths), tuple(n for n in sizes if n is not None)))


def _distinct(name: str, sizes: Sequence[int]) -> list[int]:
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, Integral):
            raise OptionError(f"{name} must be whole numbers but got {str(size)[:40]!r}")
    return sorted({int(size) for size in sizes})


def _read(settings: Settings) -> CellData | ArchoptError:
    try:
        return read_data(settings)
    except ArchoptError as error:
        return error


def _refuse_few_splits(settings: Settings) -> None:
    splits = settings.allocations()
    if len(splits) < FEWEST_SPLITS:
        raise OptionError(
            f"d_model = {settings.d_model} has no more than {len(splits)} allowed splits "
            f"({', '.join(map(str, splits))}), and between fewer than {FEWEST_SPLITS} there is no optimum to look for"
        )


def _base(first: Settings) -> Settings:
    """The campaign's own settings, with its name, folder and storage settled."""
    name = first.data_name() if first.name is None else first.name
    if len(name) > MAX_NAME:
        raise OptionError(
            f"the name of a campaign over several sizes is at most {MAX_NAME} characters but got {len(name)}"
        )
    named = replace(first, name=name)
    folder = Path(RESULTS_FOLDER) / name if first.out is None else Path(first.out)
    storage = first.storage or f"sqlite:///{(folder / 'study.db').absolute()}"
    return replace(named, out=str(folder), storage=storage)


def _placed(settings: Settings, base: Settings) -> Settings:
    """A cell's settings, with its own name and folder within the campaign's."""
    n = settings.n_samples or 0  # it was read from the data where it was not given
    return replace(
        settings,
        name=cell_name(base.campaign_name(), n, settings.d_model),
        out=str(base.folder() / f"n{n}-d{settings.d_model}"),
        storage=base.storage,
    )


def _nothing_left(left_out: Mapping[tuple[int | None, int], str], errors: Sequence[ArchoptError]) -> ArchoptError:
    """The one error that all have in common, or one that names each."""
    reasons = _by_reason(left_out)
    if len(reasons) == 1:
        return errors[0]
    parts = [f"{where}: {reason[:MAX_REASON]}" for where, reason in reasons]
    return OptionError(f"no cell can be searched: {'; '.join(parts)}")


def _by_reason(left_out: Mapping[tuple[int | None, int], str]) -> list[tuple[str, str]]:
    cells: dict[str, list[tuple[int | None, int]]] = {}
    for cell, reason in left_out.items():
        cells.setdefault(reason, []).append(cell)
    return [(_cells_in_words(where), reason) for reason, where in cells.items()]


def _cells_in_words(cells: Sequence[tuple[int | None, int]]) -> str:
    """What they have in common once: "D = 7 at n = 300, 1,000"."""
    ns, widths = (list(dict.fromkeys(size)) for size in zip(*cells, strict=True))
    listed = {"n": ", ".join(f"{n:,}" for n in ns if n is not None), "D": ", ".join(map(str, widths))}
    if None in ns:
        return f"D = {listed['D']}"
    if len(ns) * len(widths) != len(cells):
        return "; ".join(cell_in_words(n, width) for n, width in cells)
    return f"D = {listed['D']} at n = {listed['n']}" if len(widths) == 1 else f"n = {listed['n']} at D = {listed['D']}"


def cell_in_words(n: int | None, d_model: int) -> str:
    """A cell as people read it: "n = 3,000, D = 48"."""
    return f"D = {d_model}" if n is None else f"n = {n:,}, D = {d_model}"
