"""A table file, or a bundled table, as an Arrow table: names checked, nothing interpreted yet."""

import csv
import gzip
import hashlib
import io
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from archopt.data.sources import Source, file_digest
from archopt.data.wording import listed, shown
from archopt.errors import DataError

_HEAD_BYTES = 1 << 20
_BLOCK_BYTES = 16 << 20  # a quoted field must fit in one block
_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# What pandas reads as missing, and the question mark of many UCI tables.
_MISSING_WORDS = (
    "", " ", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "NaT",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table as it was found.

    Args:
        name: what reports call it.
        columns: pyarrow.Table; every column of a CSV is text, so that what a column holds is decided from
            training rows alone.
        digest: sha256 (hex) of the source's bytes.
        default_target: the target of a bundled set, else None.
        other_targets: further targets of a bundled set, which are not features.
        notes: one line for each thing found while reading.
    """

    name: str
    columns: Any
    digest: str
    default_target: str | None = None
    other_targets: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def n_rows(self) -> int:
        return int(self.columns.num_rows)

    @property
    def names(self) -> list[str]:
        return list(self.columns.column_names)


def read_table(source: Source) -> RawTable:
    """Read a table.

    Raises:
        DataError: the file is corrupt, ragged, not UTF-8, has no rows, or repeats a column name.
    """
    if source.form == "sklearn":
        return _read_bundled(source)
    raw = _read_parquet(source) if source.form == "parquet" else _read_csv(source)
    if raw.n_rows == 0:
        raise DataError(f"{shown(source.name)} has columns ({listed(raw.names, 3)}) but no rows")
    return raw


def column_names(source: Source) -> list[str]:
    """The column names of a table file, without reading its rows.

    Raises:
        DataError: the file is no such table.
    """
    if source.form == "parquet":
        return [str(name) for name in _open_parquet(source).schema_arrow.names]
    return _csv_header(source)[0]


def _read_csv(source: Source) -> RawTable:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names, delimiter = _csv_header(source)
    notes = []
    if delimiter != ("\t" if source.form == "tsv" else ","):
        notes.append(f"columns are separated by {_DELIMITER_NAMES[delimiter]}")
    try:
        columns = arrow_csv.read_csv(
            source.path,
            read_options=arrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=list(_MISSING_WORDS),
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(_csv_failure(source, error)) from error
    return RawTable(source.name, columns, file_digest(source.path), notes=tuple(notes))


def _csv_failure(source: Source, error: Exception) -> str:
    said = " ".join(str(error).split())
    if "UTF8" in said or "utf-8" in said:
        return _not_utf8(source)
    if "Expected" in said and "columns" in said:
        return f"{shown(source.name)} is ragged, every row needs as many fields as the header: {shown(said, 120)}"
    if "straddling" in said:
        return f"{shown(source.name)} holds a field of over {_BLOCK_BYTES:,} bytes, or a quote that is never closed"
    return f"{shown(source.name)} cannot be read as CSV: {shown(said, 160)}"


def _not_utf8(source: Source) -> str:
    return (
        f"{shown(source.name)} is not UTF-8, the only encoding tried: convert it first, "
        "for example with iconv -f latin1 -t utf-8"
    )


def _csv_header(source: Source) -> tuple[list[str], str]:
    """Column names and delimiter from the first bytes."""
    opened = gzip.open if source.path.lower().endswith(".gz") else open
    try:
        with opened(source.path, "rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{shown(source.name)} cannot be read: {shown(error, 120)}") from error
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(_not_utf8(source))
    if b"\0" in head:
        raise DataError(f"{shown(source.name)} holds zero bytes, so it is no CSV text")
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").lstrip()
    if not text:
        raise DataError(f"{shown(source.name)} holds nothing but blank lines")
    names: list[str] = []
    delimiter = ","
    for candidate in "\t" if source.form == "tsv" else ",;\t|":
        try:
            fields = next(csv.reader(io.StringIO(text, newline=""), delimiter=candidate))
        except csv.Error as error:
            raise DataError(f"{shown(source.name)} cannot be read as CSV: {shown(error, 120)}") from error
        if len(fields) > 1 or not names:
            names, delimiter = fields, candidate
        # A comma that splits the header settles it: the other marks are then part of names.
        if len(names) > 1:
            break
    if any("\ufffd" in name for name in names):
        raise DataError(_not_utf8(source))
    _check_names(source, names)
    return names, delimiter


def _open_parquet(source: Source) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(source.path, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        said = " ".join(str(error).split())
        raise DataError(f"{shown(source.name)} cannot be read as Parquet: {shown(said, 160)}") from error


def _read_parquet(source: Source) -> RawTable:
    import pyarrow as pa

    opened = _open_parquet(source)
    _check_names(source, [str(name) for name in opened.schema_arrow.names])
    try:
        columns = opened.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        said = " ".join(str(error).split())
        raise DataError(f"{shown(source.name)} cannot be read as Parquet: {shown(said, 160)}") from error
    # The row labels of a data frame: they number rows and describe nothing.
    labels = [name for name in columns.column_names if str(name).startswith("__index_level_")]
    notes = (f"row labels left out: {listed(labels)}",) if labels else ()
    return RawTable(source.name, columns.drop_columns(labels), file_digest(source.path), notes=notes)


def _check_names(source: Source, names: list[str]) -> None:
    if not names:
        raise DataError(f"{shown(source.name)} has no columns")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"{shown(source.name)} repeats column names: {listed(repeated)}; every name must occur once")


def _read_bundled(source: Source) -> RawTable:
    import pyarrow as pa
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{source.path}")()
    columns = {str(name): bunch.data[:, j] for j, name in enumerate(bunch.feature_names)}
    others: tuple[str, ...] = ()
    if source.path == "linnerud":
        columns |= {str(name): bunch.target[:, j] for j, name in enumerate(bunch.target_names)}
        default, *rest = (str(name) for name in bunch.target_names)
        others = (default, *rest)
    else:
        default = "target"
        named = source.path in ("iris", "wine", "breast_cancer")
        columns[default] = bunch.target_names[bunch.target] if named else bunch.target
    digest = hashlib.sha256(source.path.encode() + bunch.data.tobytes() + bunch.target.tobytes()).hexdigest()
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    return RawTable(source.name, table, digest, default_target=default, other_targets=others)
