"""What a data set is to the rest of archopt: three splits, and how they came about."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TableSplit:
    """Rows of a table, ready for a model.

    Args:
        inputs: float32, shape (n, p), finite.
        targets: shape (n,); float32 in units of the training target's standard deviation (regression), or int64
            class index (classification).
    """

    inputs: NDArray[np.float32]
    targets: NDArray[np.float32] | NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, eq=False)
class TableDataset:
    """A table split into training, validation (selection) and test rows.

    Args:
        name: the file's name, or "sklearn:NAME".
        content_hash: sha256 (hex) of the source's bytes and of what selects target and split; not of the seed
            and not of how many rows are kept.
        train: rows in an order whose prefixes are the smaller training sets of the same seed.
        feature_names: one per column of ``inputs``, after transformation.
        class_names: by class index; empty for regression.
        target_mean, target_scale: target = target_mean + target_scale * standardised; 0 and 1 for classification.
        n_available: training rows before subsampling.
        notes: one line for each thing that was done to the data.
        model_family: the task (`archopt.Task`) whose learner trains on it; empty for archopt's own model.
    """

    name: str
    content_hash: str
    task: Literal["regression", "classification"]
    train: TableSplit
    valid: TableSplit
    test: TableSplit
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    target_name: str
    target_mean: float
    target_scale: float
    n_available: int
    notes: tuple[str, ...]
    model_family: str = ""

    @property
    def kind(self) -> Literal["table"]:
        return "table"

    @property
    def n_samples(self) -> int:
        """Training rows."""
        return len(self.train)

    @property
    def n_features(self) -> int:
        """Columns of ``inputs``."""
        return int(self.train.inputs.shape[1])

    @property
    def n_outputs(self) -> int:
        """1 for regression, else the number of classes."""
        return len(self.class_names) if self.task == "classification" else 1


@dataclass(frozen=True, eq=False)
class TextDataset:
    """A text as bytes, split into contiguous regions.

    Args:
        name: the file's name, or "text:NAME".
        content_hash: sha256 (hex) of the source's bytes.
        train, valid, test: uint8, shape (n,); ``train`` is the prefix of any larger training set.
        n_available: training bytes before subsampling.
        notes: one line for each thing that was done to the data.
        model_family: the task (`archopt.Task`) whose learner trains on it; empty for archopt's own model.
    """

    name: str
    content_hash: str
    train: NDArray[np.uint8]
    valid: NDArray[np.uint8]
    test: NDArray[np.uint8]
    n_available: int
    notes: tuple[str, ...]
    model_family: str = ""

    @property
    def kind(self) -> Literal["text"]:
        return "text"

    @property
    def n_samples(self) -> int:
        """Training bytes."""
        return len(self.train)


Dataset = TableDataset | TextDataset
