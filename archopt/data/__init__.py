"""A file on disk, or a bundled set, to training, validation and test splits, and its summary for the theory."""

from archopt.data.dataset import Dataset, TableDataset, TableSplit, TextDataset
from archopt.data.loading import load_dataset
from archopt.data.sources import BUNDLED_TABLES, BUNDLED_TEXTS
from archopt.data.summary import DatasetSummary, summarise
from archopt.data.tasks import Task

__all__ = [
    "BUNDLED_TABLES",
    "BUNDLED_TEXTS",
    "Dataset",
    "DatasetSummary",
    "TableDataset",
    "TableSplit",
    "Task",
    "TextDataset",
    "load_dataset",
    "summarise",
]
