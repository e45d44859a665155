"""Results on disk: written beside the old file, then put in its place, so that no reader ever sees half of one."""

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path, PurePath
from uuid import uuid4

from archopt.errors import StorageError
from archopt.report.wording import TrialRow

TRIAL_COLUMNS = (
    "number",
    "state",
    "n_heads",
    "head_dim",
    "weighting",
    "decorrelation",
    "learning_rate",
    "weight_decay",
    "warmup",
    "replicate",
    "value",
    "seconds_per_step",
    "train_seconds",
    "reason",
    "curve",
    "diversity",
)
RUNG_COLUMNS = ("number", "step", "value", "hdi", "hdi_excess", "output_correlation", "train_seconds", "n_seen")


def write_json(path: str | PurePath, obj: object) -> None:
    """Write ``obj`` as strict JSON, UTF-8, indented; NaN and infinities become null.

    Args:
        path: replaced if it exists; its folder must exist.
        obj: dicts, lists, tuples, texts, numbers (NumPy's too), paths, None.

    Raises:
        StorageError: the file system refuses; an existing file is left as it was.
        TypeError: ``obj`` holds something else.
    """
    _replace(path, json.dumps(json_ready(obj), indent=2, allow_nan=False) + "\n")


def write_csv(path: str | PurePath, rows: Iterable[TrialRow], columns: Sequence[str]) -> None:
    """One line a row; lists as JSON texts, missing or not finite numbers as empty cells.

    Args:
        path: replaced if it exists; its folder must exist.
        rows: keys beyond ``columns`` become further columns, in order of appearance.
        columns: `TRIAL_COLUMNS` or `RUNG_COLUMNS`; there also where no row is.

    Raises:
        StorageError: the file system refuses; an existing file is left as it was.
    """
    rows = list(rows)
    every = list(dict.fromkeys([*columns, *(key for row in rows for key in row)]))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(every)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in every])
    _replace(path, text.getvalue())


def write_html(path: str | PurePath, html: str) -> None:
    """Write a finished page, UTF-8.

    Raises:
        StorageError: the file system refuses; an existing file is left as it was.
    """
    _replace(path, html)


def write_bytes(path: str | PurePath, content: bytes) -> None:
    """Write a finished picture; its folder is made where it is missing.

    Raises:
        StorageError: the file system refuses; an existing file is left as it was.
    """
    _replace(path, content)


def json_ready(obj: object) -> object:
    """``obj`` in JSON's own types, with NaN and infinities as None.

    Raises:
        TypeError: it holds something that has no JSON form.
    """
    if obj is None or isinstance(obj, bool | str | int):
        return obj
    if isinstance(obj, float):
        return float(obj) if isfinite(obj) else None
    if isinstance(obj, Mapping):
        return {str(key): json_ready(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple | set | frozenset):
        return [json_ready(value) for value in (sorted(obj) if isinstance(obj, set | frozenset) else obj)]
    if isinstance(obj, PurePath):
        return str(obj)
    if hasattr(obj, "tolist"):  # NumPy scalars and arrays
        return json_ready(obj.tolist())
    raise TypeError(f"cannot write a {type(obj).__name__} as JSON")


def _cell(value: object) -> object:
    ready = json_ready(value)
    return json.dumps(ready) if isinstance(ready, list | dict) else "" if ready is None else ready


def _replace(path: str | PurePath, content: str | bytes) -> None:
    target = Path(path)
    # Text from outside may hold halves of characters (file names do): escaped rather than refused.
    plain = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    beside = target.with_name(f".{target.name[:100]}.{uuid4().hex}.tmp")
    try:
        try:
            if isinstance(content, bytes):
                target.parent.mkdir(exist_ok=True)
            with open(beside, "xb") as stream:
                stream.write(plain)
                stream.flush()
                os.fsync(stream.fileno())  # a full disk shows here, while the old file still stands
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        shown = str(target) if len(str(target)) <= 160 else f"...{str(target)[-157:]}"
        raise StorageError(
            f"cannot write {shown!r}: {error.strerror or error}; give a folder that exists and can be written"
        ) from error
