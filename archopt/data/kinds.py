"""What a column holds - numbers, truth values, dates or categories - and its values as such."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Kind = Literal["number", "boolean", "date", "category", "nested"]

# A text column of which this share reads as numbers (or dates) holds numbers (or dates), and the rest is missing.
MOSTLY = 0.95
# Beyond this a float64 variance overflows; such values are placeholders for infinity.
LARGEST = 1e100
_DATE_FORMATS = (
    "ISO8601", "%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S",
    "%m/%d/%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%d-%m-%Y",
    "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y",
)  # fmt: skip
_TRUTH = {"true": 1.0, "false": 0.0}
_PROBE_ROWS = 50


@dataclass(frozen=True)
class ColumnType:
    """How a column is read.

    Args:
        kind: what it holds.
        date_format: how a text column writes its dates ("ISO8601" or a strptime format), else None.
        decimal_comma: a text column writes 1,5 for one and a half.
    """

    kind: Kind
    date_format: str | None = None
    decimal_comma: bool = False


def plain_values(column: Any) -> tuple[ColumnType, NDArray[Any]]:
    """An Arrow column as NumPy values, with the type that its storage declares.

    Returns:
        "number" and "boolean": float64, NaN where missing; "date": datetime64[us] in UTC, NaT where missing;
        "category" (text): object array of str, None where missing; "nested" (lists, structs, bytes): object array
        of None.
    """
    import pyarrow as pa
    from pyarrow import compute

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return plain_values(column.dictionary_decode())
    if types.is_null(kind):
        return ColumnType("number"), np.full(len(column), np.nan)
    if types.is_boolean(kind):
        return ColumnType("boolean"), column.cast(pa.int8()).to_numpy(zero_copy_only=False).astype(float)
    if types.is_decimal(kind) or types.is_integer(kind) or types.is_floating(kind):
        return ColumnType("number"), _floats(compute.cast(column, pa.float64(), safe=False))
    if types.is_duration(kind) or types.is_time(kind):
        ticks = compute.cast(column, pa.int32() if types.is_time32(kind) else pa.int64())
        per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        return ColumnType("number"), _floats(compute.cast(ticks, pa.float64(), safe=False)) / per_second
    if types.is_timestamp(kind) or types.is_date(kind):
        stamps = compute.cast(column, pa.timestamp("us"), safe=False)
        return ColumnType("date"), np.asarray(stamps.to_numpy(zero_copy_only=False), dtype="datetime64[us]")
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        values = np.asarray(column.cast(pa.large_string()).to_numpy(zero_copy_only=False), dtype=object)
        return ColumnType("category"), values
    return ColumnType("nested"), np.full(len(column), None, dtype=object)


def _floats(column: Any) -> NDArray[np.float64]:
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def recognise(declared: ColumnType, values: NDArray[Any]) -> ColumnType:
    """What a column holds, judged by ``values`` (those of the training rows)."""
    if declared.kind != "category":
        return declared
    present = pd.Series(values, dtype=object).dropna().astype(str).str.strip()
    if present.empty:
        return ColumnType("category")
    if present.str.lower().isin(list(_TRUTH)).all():
        return ColumnType("boolean")
    for decimal_comma in (False, True):
        numeric = _parse_numbers(present, decimal_comma).notna().to_numpy()
        if numeric.mean() >= MOSTLY:
            return ColumnType("number", decimal_comma=decimal_comma)
    for date_format in _DATE_FORMATS:
        probed = _parse_dates(present.iloc[:_PROBE_ROWS], date_format)
        if probed.notna().any() and _parse_dates(present, date_format).notna().mean() >= MOSTLY:
            return ColumnType("date", date_format=date_format)
    return ColumnType("category")


def convert(declared: ColumnType, values: NDArray[Any], wanted: ColumnType) -> NDArray[Any]:
    """``values`` as the kind ``wanted``; what does not fit is missing.

    Returns:
        As ``plain_values`` for the kind wanted; numbers that are infinite, or as good as, are NaN.
    """
    if wanted.kind == "category":
        return values if declared.kind in ("category", "nested") else labels_of(values)
    if declared.kind == "category":
        text = pd.Series(values, dtype=object)
        text = text.where(text.isna(), text.astype(str).str.strip())
        if wanted.kind == "date":
            parsed = _parse_dates(text, wanted.date_format or "ISO8601")
            return np.asarray(parsed.dt.tz_localize(None).to_numpy(), dtype="datetime64[us]")
        if wanted.kind == "boolean":
            return np.array([_TRUTH.get(str(value).lower(), np.nan) for value in text], dtype=np.float64)
        return finite(np.asarray(_parse_numbers(text, wanted.decimal_comma), dtype=np.float64))
    if (wanted.kind == "date") != (declared.kind == "date") or declared.kind == "nested":
        missing: Any = np.datetime64("NaT") if wanted.kind == "date" else np.nan
        return np.full(len(values), missing, dtype="datetime64[us]" if wanted.kind == "date" else np.float64)
    return values if wanted.kind == "date" else finite(values)


def finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``values`` with infinite ones, and those beyond 1e100, as NaN."""
    return np.where(np.abs(values) <= LARGEST, values, np.nan)


def labels_of(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers, dates or text as labels (object array of str): whole numbers without a point, None where missing."""
    series = pd.Series(values)
    missing = series.isna().to_numpy()
    if series.dtype.kind == "f":
        texts = [
            str(int(v)) if np.isfinite(v) and v == int(v) else repr(float(v)) for v in np.where(missing, 0, values)
        ]
    else:
        texts = [str(value).strip() for value in values]
    labels = np.array(texts, dtype=object)
    labels[missing] = None
    return labels


def _parse_numbers(text: "pd.Series[Any]", decimal_comma: bool) -> "pd.Series[float]":
    if decimal_comma:
        # Only "1,5" and the like: "1,000" would be a thousand to some and one to others.
        text = text.where(~text.astype(str).str.fullmatch(r"[+-]?\d+,(\d{1,2}|\d{4,})"), text.str.replace(",", "."))
    return pd.to_numeric(text, errors="coerce").astype(float)


def _parse_dates(text: "pd.Series[Any]", date_format: str) -> "pd.Series[Any]":
    return pd.to_datetime(text, format=date_format, errors="coerce", utc=True)
