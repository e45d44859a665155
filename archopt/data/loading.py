"""The one way in: a source string and what is wanted of it, to a data set."""

import os
from dataclasses import replace
from numbers import Integral
from typing import Literal

from archopt.data.dataset import Dataset
from archopt.data.sources import Source, resolve_source
from archopt.data.tasks import find_task, load_task
from archopt.data.wording import did_you_mean, listed, shown
from archopt.errors import OptionError

MAX_SAMPLES = 10**15  # no file holds as many; a typing error is then reported without its hundred digits

_TASKS = ("auto", "regression", "classification")


def load_dataset(
    source: str | os.PathLike[str],
    *,
    target: str | None = None,
    task: Literal["auto", "regression", "classification"] = "auto",
    n_samples: int | None = None,
    valid_source: str | os.PathLike[str] | None = None,
    group_column: str | None = None,
    time_column: str | None = None,
    seed: int = 0,
) -> Dataset:
    """Read a file, or a bundled set, and split it; the same content and seed give the same splits.

    A table (.csv, .csv.gz, .tsv, .parquet, sklearn:NAME) is split 60/20/20 into training, validation and test rows:
    at random (stratified by class), by whole groups, or by time. What is imputed, scaled, encoded or dropped is decided
    by the training rows alone. Any other file, and text:NAME, is a text: bytes, cut in file order.

    Args:
        source: path, "sklearn:NAME", "text:NAME", or "TASK:ARGUMENT" of a task that another package adds.
        target: the column to predict; needed for a table file, refused for a text. With it, a file of unknown extension
            is read as CSV.
        task: "auto" tells regression from classification by the target's values.
        n_samples: training rows (or bytes) to keep, at least 10 rows and one per class (1,024 bytes); None keeps at
            most 5,000 rows (2,000,000 bytes). A smaller set is a prefix of a larger one of the same seed.
        valid_source: a second file of the same form, halved into validation and test; the first is then all training.
        group_column: rows that share its value stay in one split; it is not an input.
        time_column: training rows come before validation rows, and those before test rows; of the column itself only
            month, weekday and hour are inputs.
        seed: of the splits and subsamples, 0 or more; texts do not depend on it.

    Returns:
        A TableDataset or a TextDataset; its ``notes`` say what was done.

    Raises:
        DataError: the data cannot be read, or cannot be learned from.
        OptionError: an argument outside what is allowed.
    """
    _check_arguments(target, task, n_samples, group_column, time_column, seed)
    if (found := find_task(source)) is not None:
        name, argument, added = found
        if added.load is None:
            dataset = load_dataset(
                argument,
                target=target,
                task=task,
                n_samples=n_samples,
                valid_source=valid_source,
                group_column=group_column,
                time_column=time_column,
                seed=seed,
            )
        else:
            _refuse_options(
                f"{shown(source)} brings its own data",
                {
                    "target": target,
                    "task": None if task == "auto" else task,
                    "valid": valid_source,
                    "group": group_column,
                    "time": time_column,
                },
            )
            dataset = load_task(name, argument, added.load, n_samples, int(seed))
        return replace(dataset, name=f"{name}:{argument}", model_family=name if added.learner is not None else "")
    resolved = resolve_source(source, has_target=target is not None)
    second = None if valid_source is None else resolve_source(valid_source, has_target=resolved.is_table)
    if second is not None and second.is_table != resolved.is_table:
        this, that = ("a table", "a text") if resolved.is_table else ("a text", "a table")
        raise OptionError(
            f"{shown(second.name)} is {that} but {shown(resolved.name)} is {this}: "
            "the second file must be like the first"
        )
    if not resolved.is_table:
        chosen_task = None if task == "auto" else task
        _refuse_options(
            f"{shown(resolved.name)} is a text, which has no columns",
            {"target": target, "task": chosen_task, "group": group_column, "time": time_column},
        )
        from archopt.data.texts import load_text

        return load_text(resolved, n_samples=n_samples, valid_source=second)
    if target is None and resolved.form != "sklearn":
        raise OptionError(_needs_target(resolved))
    from archopt.data.tables import TableRequest, load_table

    request = TableRequest(target, task, n_samples, group_column, time_column, int(seed))
    return load_table(resolved, request, valid_source=second)


def _refuse_options(why: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"{why}: leave out the {name}")


def _needs_target(source: Source) -> str:
    from archopt.data.reading import column_names

    return f"{shown(source.name)} is a table: name the target column, one of {listed(column_names(source))}"


def _check_arguments(
    target: object, task: object, n_samples: object, group_column: object, time_column: object, seed: object
) -> None:
    for name, value in (("target", target), ("group_column", group_column), ("time_column", time_column)):
        if value is not None and not isinstance(value, str):
            raise OptionError(f"{name} must be a column's name but got {shown(value)}")
    if task not in _TASKS:
        raise OptionError(
            f"task must be one of {', '.join(_TASKS)} but got {shown(task)}{did_you_mean(str(task), _TASKS)}"
        )
    if n_samples is not None and (not _is_whole(n_samples) or int(n_samples) < 1):  # type: ignore[call-overload]
        raise OptionError(f"n_samples must be a whole number of at least 1 but got {shown(n_samples)}")
    if n_samples is not None and int(n_samples) > MAX_SAMPLES:  # type: ignore[call-overload]
        raise OptionError(f"n_samples must be at most {MAX_SAMPLES:,} but got {shown(n_samples)}")
    if not _is_whole(seed) or int(seed) < 0:  # type: ignore[call-overload]
        raise OptionError(f"seed must be a whole number of at least 0 but got {shown(seed)}")
    if group_column is not None and time_column is not None:
        raise OptionError("group and time cannot both rule the split: give one of them")
    for name, value in (("group", group_column), ("time", time_column)):
        if value is not None and value == target:
            raise OptionError(f"{shown(value)} cannot be both the target and the {name} column")


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
