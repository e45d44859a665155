"""What a source string names: a table file, a text file, or a set that comes with the installed packages."""

import hashlib
import os
import stat
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from archopt.data.wording import did_you_mean, shown
from archopt.errors import DataError, OptionError

BUNDLED_TABLES = ("digits", "diabetes", "iris", "wine", "breast_cancer", "linnerud")
BUNDLED_TEXTS = ("python-topics",)

_TABLE_SUFFIXES: dict[str, Literal["csv", "tsv", "parquet"]] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "tsv",
    ".tsv.gz": "tsv",
    ".parquet": "parquet",
}
# Read as bytes these would train a language model on a container format, which nobody means.
_OTHER_TABLE_SUFFIXES = (
    ".xlsx",
    ".xls",
    ".ods",
    ".feather",
    ".arrow",
    ".npy",
    ".npz",
    ".pkl",
    ".pickle",
    ".db",
    ".sqlite",
)
_MAX_FOLDER_ENTRIES = 10_000


@dataclass(frozen=True)
class Source:
    """Where the data are and how they are to be read.

    Args:
        name: what reports call it.
        form: "csv", "tsv", "parquet" (files that hold a table), "text" (a file read as bytes), "sklearn" and
            "topics" (bundled).
        path: the file; for "sklearn" the set's own name; empty for "topics".
    """

    name: str
    form: Literal["csv", "tsv", "parquet", "text", "sklearn", "topics"]
    path: str

    @property
    def is_table(self) -> bool:
        return self.form not in ("text", "topics")


def resolve_source(source: str | os.PathLike[str], *, has_target: bool) -> Source:
    """Decide what ``source`` names, by its prefix ("sklearn:", "text:") or its file name's extension.

    Args:
        source: "sklearn:NAME", "text:NAME" or a path.
        has_target: a target column was named, so that an unknown extension is read as CSV rather than as text.

    Raises:
        DataError: nothing there, not a readable regular file, empty, or of a form that archopt does not read.
        OptionError: ``source`` is no path at all.
    """
    if not isinstance(source, str | os.PathLike):
        raise OptionError(f"source must be a path or a name such as sklearn:digits but got {shown(source)}")
    text = os.fspath(source)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise OptionError(f"source must be a path or a name such as sklearn:digits but got {shown(text)}")
    if text.startswith("sklearn:"):
        return Source(text, "sklearn", _bundled_name(text, BUNDLED_TABLES))
    if text.startswith("text:"):
        _bundled_name(text, BUNDLED_TEXTS)
        return Source(text, "topics", "")
    if text.startswith(("http://", "https://", "s3://", "gs://", "hf://")):
        raise DataError(f"{shown(text)} is an address: archopt downloads nothing, so save the file and give its path")
    path = os.path.expanduser(text)
    _check_file(path)
    name = os.path.basename(path)
    lowered = name.lower()
    for suffix in _OTHER_TABLE_SUFFIXES:
        if lowered.endswith(suffix):
            raise DataError(f"{shown(name)}: {suffix} files are not read: save the table as .csv or .parquet")
    for suffix, form in _TABLE_SUFFIXES.items():
        if lowered.endswith(suffix):
            return Source(name, form, path)
    return Source(name, "csv" if has_target else "text", path)


def file_digest(path: str) -> str:
    """sha256 (hex) of a file's bytes, read as a stream.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be read: {error.strerror}") from error


def _bundled_name(source: str, names: tuple[str, ...]) -> str:
    prefix, _, name = source.partition(":")
    if name not in names:
        known = [f"{prefix}:{known}" for known in names]
        raise DataError(f"no bundled set {shown(source)}: there are {', '.join(known)}{did_you_mean(source, known)}")
    return name


def _check_file(path: str) -> None:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(_missing(path)) from None
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be opened: {error.strerror}") from error
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{shown(path)} is a folder: give one file in it (.csv, .parquet or a text)")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{shown(path)} is not a regular file (a pipe or a device): save the data to a file first")
    if status.st_size == 0:
        raise DataError(f"{shown(path)} is empty (0 bytes)")
    if not os.access(path, os.R_OK):
        raise DataError(f"{shown(path)} cannot be opened: permission denied")


def _missing(path: str) -> str:
    folder, name = Path(path).parent, Path(path).name
    if os.path.islink(path):
        return f"{shown(path)} is a link to a file that does not exist"
    if not folder.is_dir():
        return f"no file {shown(path)}: the folder {shown(folder)} does not exist"
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, _MAX_FOLDER_ENTRIES)]
    if name in BUNDLED_TABLES:
        return f"no file {shown(path)}; did you mean sklearn:{name}?"
    return f"no file {shown(path)} (bundled sets are written sklearn:NAME or text:NAME){did_you_mean(name, names)}"
