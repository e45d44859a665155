"""Data sets and models that other packages add, by entry points in the group ``archopt.tasks``."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np

from archopt.data.dataset import Dataset, TableDataset, TableSplit, TextDataset
from archopt.data.wording import did_you_mean, shown
from archopt.entry_points import TASKS, load, registered
from archopt.errors import ArchoptError, DataError, PluginError

_BUILT_IN = ("sklearn", "text", "http", "https", "s3", "gs", "hf")


@dataclass(frozen=True)
class Task:
    """What a package offers as ``NAME:ARGUMENT`` wherever archopt takes a data set; NAME is its entry point's.

    Args:
        load: (argument, n_samples, seed) to a data set of ``n_samples`` training rows or bytes, of which a smaller is a
            prefix of a larger one; ``n_samples`` is None where the caller leaves it open. None: the argument is any
            source that archopt reads, with its options.
        learner: (data set, `archopt.evaluation.TrialSpec`, `archopt.evaluation.Recipe`) to an
            `archopt.evaluation.learner.Learner`: a fresh model on the recipe's device, with heads as in
            ``spec.allocation``, bound to that data set. Called in a worker process, once a trial. None: archopt's own
            model.

    Example:
        .. code-block:: toml

            [project.entry-points."archopt.tasks"]
            sensors = "my_package:SENSORS"    # SENSORS = archopt.Task(load=...), for: archopt search sensors:2024
    """

    load: Callable[[str, int | None, int], Dataset] | None = None
    learner: Callable[[Dataset, Any, Any], Any] | None = None


def find_task(source: object) -> tuple[str, str, Task] | None:
    """Name, argument and task of a source ``NAME:ARGUMENT``; None where it is no task's.

    Raises:
        DataError: it looks like a task's, but no installed package adds that name and there is no such file.
        PluginError: the package's entry point cannot be loaded, or is no `Task`.
    """
    form = re.fullmatch(r"(\w[\w.-]+):(.*)", source, re.DOTALL) if isinstance(source, str) else None
    if form is None or form[1] in _BUILT_IN:
        return None
    name, argument = form.groups()
    known = registered(TASKS)
    if name in known:
        return name, argument, _task(known[name])
    if os.path.exists(form[0]):
        return None
    raise DataError(
        f"no file {shown(source)}, and no installed package adds a task {shown(name)}: "
        f"there are {', '.join(sorted([*known, 'sklearn', 'text']))}{did_you_mean(name, known)}"
    )


def installed_task(name: str) -> Task:
    """The task of that name.

    Raises:
        PluginError: none is installed, or it cannot be loaded.
    """
    known = registered(TASKS)
    if name not in known:
        raise PluginError(f"no installed package adds the task {shown(name)}: install the one that did")
    return _task(known[name])


def load_task(
    name: str, argument: str, read: Callable[[str, int | None, int], Dataset], n_samples: int | None, seed: int
) -> Dataset:
    """Call a package's ``load`` and check what it gives.

    Raises:
        DataError: it failed, or gave something that no model can be trained on.
        ArchoptError: as it raised.
    """
    source = f"{name}:{argument}"
    try:
        dataset = read(argument, n_samples, seed)
    except ArchoptError:
        raise
    except Exception as error:  # a stranger's code
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise DataError(f"{shown(source)} could not be loaded by its package ({cause})") from error
    wrong = _what_is_wrong(dataset, n_samples)
    if wrong:
        raise DataError(f"{shown(source)}: its package gave {wrong}")
    return dataset


def _task(entry: EntryPoint) -> Task:
    found = load(entry)
    if not isinstance(found, Task):
        raise PluginError(
            f"entry point {entry.name!r} = {entry.value} in {TASKS} must be an archopt.Task but is {shown(found)}"
        )
    return found


def _what_is_wrong(dataset: object, n_samples: int | None) -> str | None:
    if not isinstance(dataset, TableDataset | TextDataset):
        return f"{shown(type(dataset).__name__)} where archopt.data.TableDataset or TextDataset is needed"
    if n_samples is not None and dataset.n_samples != n_samples:
        return f"{dataset.n_samples:,} training rows or bytes where {n_samples:,} were asked for"
    for name in ("train", "valid", "test"):
        split = getattr(dataset, name)
        wrong = _text_fault(split) if isinstance(dataset, TextDataset) else _table_fault(dataset, split)
        if wrong:
            return f"a {name} split {wrong}"
    return None


def _text_fault(split: object) -> str | None:
    if not isinstance(split, np.ndarray) or split.dtype != np.uint8 or split.ndim != 1 or not len(split):
        return "that is not a non-empty vector of uint8"
    return None


def _table_fault(dataset: TableDataset, split: TableSplit) -> str | None:
    inputs, targets = split.inputs, split.targets
    if inputs.ndim != 2 or targets.shape != inputs.shape[:1] or not len(targets):
        return f"of inputs {inputs.shape} and targets {targets.shape}, where (n, p) and (n,), n > 0, are needed"
    if inputs.shape[1] != dataset.n_features or inputs.dtype != np.float32 or not np.isfinite(inputs).all():
        return f"whose inputs are not {dataset.n_features} finite columns of float32"
    if dataset.task == "classification":
        if targets.dtype != np.int64 or targets.min() < 0 or targets.max() >= dataset.n_outputs:
            return f"whose targets are not int64 class indices below {dataset.n_outputs}"
    elif targets.dtype != np.float32 or not np.isfinite(targets).all():
        return "whose targets are not finite float32"
    return None
