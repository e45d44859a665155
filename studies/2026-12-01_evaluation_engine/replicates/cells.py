"""What is trained: four data sets at the width their trials have, and the streams of their batches."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from sklearn.datasets import make_friedman1

from archopt.allocation import HeadAllocation
from archopt.data import load_dataset
from archopt.data.dataset import TextDataset
from archopt.evaluation.learner import random_stream
from archopt.evaluation.recipe import default_recipe
from archopt.evaluation.table_learner import RowBatches, table_learner
from archopt.evaluation.text_learner import text_learner
from archopt.evaluation.trial import TrialSpec

D_MODEL = {"digits": 48, "diabetes": 48, "friedman": 48, "topics": 64}
LEARNING_RATE = {"digits": 0.01, "diabetes": 0.01, "friedman": 0.01, "topics": 0.003}


@dataclass(frozen=True)
class Shape:
    """One configuration: a data set (a key of ``D_MODEL``), H, and the factor of the decorrelation penalty."""

    data: str
    n_heads: int
    decorrelation: float = 0.0

    def __str__(self) -> str:
        penalty = f"+{self.decorrelation:g}" if self.decorrelation else ""
        return f"{self.data}-{self.n_heads}{penalty}"

    @property
    def allocation(self) -> HeadAllocation:
        return HeadAllocation(n_heads=self.n_heads, head_dim=D_MODEL[self.data] // self.n_heads)

    def spec(self, replicate: int) -> TrialSpec:
        return TrialSpec(
            allocation=self.allocation,
            weighting="uniform",
            decorrelation=self.decorrelation,
            learning_rate=LEARNING_RATE[self.data],
            replicate=replicate,
        )


SHAPES = tuple(
    Shape(*key)
    for key in [(data, h) for data in ("digits", "diabetes", "friedman") for h in (1, 4, 16, 48)]
    + [("topics", h) for h in (1, 4, 16)]
    + [("digits", 4, 0.1), ("digits", 16, 0.1), ("topics", 4, 0.1)]
)


@cache
def dataset_and_recipe(data):
    """The data set with archopt's splits, and the default recipe: friedman is a file of 5,000 rows, 10 features."""
    if data == "friedman":
        with TemporaryDirectory() as folder:
            inputs, target = make_friedman1(5000, noise=1.0, random_state=0)
            path = Path(folder) / "friedman.csv"
            names = ",".join([*(f"x{i}" for i in range(10)), "y"])
            np.savetxt(path, np.column_stack([inputs, target]), delimiter=",", header=names, comments="", fmt="%.6g")
            dataset = load_dataset(str(path), target="y")
    else:
        source = {"digits": "sklearn:digits", "diabetes": "sklearn:diabetes", "topics": "text:python-topics"}[data]
        dataset = load_dataset(source)
    return dataset, default_recipe(dataset, d_model=D_MODEL[data])


def learner_of(shape, replicate):
    """archopt's own learner."""
    dataset, recipe = dataset_and_recipe(shape.data)
    make = text_learner if isinstance(dataset, TextDataset) else table_learner
    return make(dataset, shape.spec(replicate), recipe)


class Batches:
    """The batches that archopt's learners of some replicates draw, stacked: every tensor has R first.

    Tables: query rows (R, m, p), context rows (R, n, p), context targets (R, n), query targets (R, m). Texts: bytes
    (R, batch, length) and the bytes that follow.
    """

    def __init__(self, shape, replicates, dtype=torch.float32):
        dataset, recipe = dataset_and_recipe(shape.data)
        self.streams = [random_stream(recipe.seed, replicate, "batches") for replicate in replicates]
        self.text = isinstance(dataset, TextDataset)
        if self.text:
            self.train, self.batch_size = dataset.train, recipe.batch_size
            self.length = min(recipe.context_length, *(len(split) - 1 for split in (dataset.train, dataset.valid)))
            return
        self.inputs = torch.tensor(np.asarray(dataset.train.inputs), dtype=dtype)
        targets = torch.tensor(np.asarray(dataset.train.targets))
        self.targets = targets.to(dtype) if targets.is_floating_point() else targets
        self.n_queries = min(recipe.batch_size, max(1, len(targets) // 2))
        n_context = min(recipe.context_rows, len(targets) - self.n_queries)
        self.rows = [RowBatches(len(targets), self.n_queries, n_context, stream) for stream in self.streams]

    def next(self):
        return self._windows() if self.text else self._table()

    def _windows(self):
        starts = torch.stack(
            [torch.randint(len(self.train) - self.length, (self.batch_size,), generator=each) for each in self.streams]
        )
        window = torch.from_numpy(self.train[starts.numpy()[..., None] + np.arange(self.length + 1)]).long()
        return window[..., :-1], window[..., 1:]

    def _table(self):
        rows = torch.stack([torch.cat(each.next_rows()) for each in self.rows])
        inputs, targets, m = self.inputs[rows], self.targets[rows], self.n_queries
        return inputs[:, :m], inputs[:, m:], targets[:, m:], targets[:, :m]
