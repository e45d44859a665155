"""Features to a matrix with scikit-learn's transformers, fitted on the training rows alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from archopt.data.features import Feature
from archopt.data.wording import counted, listed, shown
from archopt.errors import DataError

MAX_FEATURES = 4_096
MAX_LEVELS = 32  # columns that one category may take
MAX_ONE_HOT = 256  # columns that all categories together may take
MIN_LEVEL_SHARE = 0.01  # a level in fewer training rows than this joins the rare ones
CLIP = 10.0  # training standard deviations; a row beyond has the leverage of a typing error

_MISSING = "(missing)"
_OTHER = "(other)"


@dataclass(frozen=True, eq=False)
class Encoder:
    """A fitted encoder.

    Args:
        features: what it reads.
        transformer: the fitted ColumnTransformer.
        names: one per output column.
        kept: which of the transformer's output columns vary over the training rows.
        notes: what the transformers do, one line each.
    """

    features: tuple[Feature, ...]
    transformer: Any
    names: tuple[str, ...]
    kept: NDArray[np.bool_]
    notes: tuple[str, ...]

    def __call__(self, table: Any) -> tuple[NDArray[np.float32], int]:
        """Encode rows.

        Args:
            table: pyarrow.Table with the columns that the features read.

        Returns:
            float32, shape (rows, len(names)), finite; and how many values were clipped.
        """
        matrix = self.transformer.transform(_frame(table, self.features))[:, self.kept]
        n_clipped = int((np.abs(matrix) > CLIP).sum())
        return np.clip(matrix, -CLIP, CLIP).astype(np.float32), n_clipped


def fit_encoder(table: Any, features: Sequence[Feature]) -> Encoder:
    """Fit imputation, scaling and one-hot encoding.

    Numbers: median, a 0/1 column that marks what was missing, zero mean and unit standard deviation. Truth values:
    the most frequent one; cyclic parts of dates: their mean. Categories: missing is a level of its own, levels in fewer
    than 1 % of the rows (at least two rows) are grouped, at most 32 levels a column and 256 in all.

    Args:
        table: pyarrow.Table of the training rows.

    Raises:
        DataError: more than 4,096 columns would come out, or none.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = _frame(table, features)
    at: dict[str, list[int]] = {"number": [], "truth": [], "cycle": [], "category": []}
    for j, feature in enumerate(features):
        at[feature.role if feature.role != "unit" else "cycle" if feature.part else "truth"].append(j)
    max_levels = min(MAX_LEVELS, max(2, MAX_ONE_HOT // max(1, len(at["category"]))))
    min_rows = max(2, int(np.ceil(MIN_LEVEL_SHARE * len(frame))))
    one_hot = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=min_rows,
        max_categories=max_levels,
        sparse_output=False,
        feature_name_combiner=lambda name, level: f"{name}={_OTHER if level == 'infrequent_sklearn' else level}",
    )
    transformer = ColumnTransformer(
        [
            (
                "number",
                make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()),
                at["number"],
            ),
            ("truth", SimpleImputer(strategy="most_frequent", add_indicator=True), at["truth"]),
            ("cycle", SimpleImputer(strategy="mean"), at["cycle"]),
            ("category", one_hot, at["category"]),
        ],
        sparse_threshold=0.0,
    )
    matrix = transformer.fit_transform(frame)
    kept = np.ptp(matrix, axis=0) > 0
    names, used = _output_names(transformer, features, kept)
    if not kept.any():
        raise DataError(f"no column varies over the {len(frame):,} training rows once rare categories are grouped")
    if len(names) > MAX_FEATURES:
        raise DataError(f"the table has {len(names):,} input columns; at most {MAX_FEATURES:,} are handled: drop some")
    unused = [feature.name for j, feature in enumerate(features) if j not in used]
    notes = _notes(
        frame, features, at, transformer.named_transformers_["category"] if at["category"] else None, min_rows
    )
    if unused:
        notes.append(
            f"dropped {counted(len(unused), 'column')} (no category is in enough training rows): {listed(unused, 8)}"
        )
    return Encoder(tuple(features), transformer, names, kept, tuple(notes))


def _frame(table: Any, features: Sequence[Feature]) -> pd.DataFrame:
    """Features as a frame whose columns are numbered, as names may repeat once dates are split."""
    columns: dict[str, NDArray[Any]] = {}
    for j, feature in enumerate(features):
        values = feature.values(table.column(feature.column))
        if feature.role == "category":
            values = np.array([_MISSING if value is None else value for value in values], dtype=object)
        columns[str(j)] = values
    return pd.DataFrame(
        {name: pd.Series(v, dtype=object if v.dtype == object else None) for name, v in columns.items()}
    )


def _output_names(
    transformer: Any, features: Sequence[Feature], kept: NDArray[np.bool_]
) -> tuple[tuple[str, ...], set[int]]:
    """Readable names ("price", "price is missing", "city=Rome"), and which features they come from."""
    names, used = [], set()
    for output in transformer.get_feature_names_out()[kept]:
        inside = str(output).partition("__")[2]
        missing = inside.startswith("missingindicator_")
        number, equals, level = inside.removeprefix("missingindicator_").partition("=")
        used.add(int(number))
        names.append(features[int(number)].name + equals + level + (" is missing" if missing else ""))
    return tuple(names), used


def _notes(
    frame: pd.DataFrame, features: Sequence[Feature], at: dict[str, list[int]], one_hot: Any, min_rows: int
) -> list[str]:
    notes = []
    for group, how in (("number", "median"), ("truth", "most frequent value"), ("cycle", "mean")):
        filled = [features[j].name for j in at[group] if frame.iloc[:, j].isna().any()]
        if filled:
            mark = "" if group == "cycle" else ", marked by a 0/1 column"
            notes.append(f"missing values filled with the training {how}{mark}: {listed(filled, 8)}")
    if at["number"]:
        notes.append(
            f"{counted(len(at['number']), 'numeric column')} scaled to zero mean and unit sd over the training rows"
        )
    if one_hot is None:
        return notes
    names = [features[j].name for j in at["category"]]
    notes.append(f"{counted(len(names), 'text column')} one-hot encoded: {listed(names, 8)}")
    for name, rare in zip(names, one_hot.infrequent_categories_, strict=True):
        if rare is not None:
            why = f"in under {min_rows} training rows, or beyond the cap on columns"
            notes.append(f"{shown(name)}: {counted(len(rare), 'level')} ({why}) grouped as {_OTHER}")
    absent = [features[j].name for j in at["category"] if (frame.iloc[:, j] == _MISSING).any()]
    if absent:
        notes.append(f"missing text is a level of its own, {_MISSING}: {listed(absent, 8)}")
    return notes
