"""A regressor and a classifier that predict by kernel-weighted means of the training targets, head by head.

Training is a search's own: the recipe, batches and loss of one of its trials, on all rows that are given. What the
search does to the columns of a file that are numbers is done here too: zero mean, unit standard deviation, clipped.
"""

from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from archopt.allocation import allocation_of
from archopt.data.dataset import TableDataset, TableSplit
from archopt.data.encoding import CLIP
from archopt.data.kinds import LARGEST
from archopt.data.targets import mean_and_scale
from archopt.errors import DataError
from archopt.evaluation import TrialSpec, default_recipe
from archopt.evaluation.table_learner import table_learner
from archopt.evaluation.training import training_losses
from archopt.models.nadaraya_watson import NadarayaWatson, log_probabilities


class _MultiHeadNW(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share: parameters, training, and the estimate mixed from all heads."""

    def __init__(
        self,
        *,
        d_model: int = 48,
        n_heads: int = 8,
        weighting: str = "uniform",
        decorrelation: float = 0.0,
        learning_rate: float = 0.003,
        weight_decay: float = 1.0,
        warmup: float = 0.05,
        n_steps: int = 300,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.d_model = d_model
        self.n_heads = n_heads
        self.weighting = weighting
        self.decorrelation = decorrelation
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.warmup = warmup
        self.n_steps = n_steps
        self.random_state = random_state

    def _train(self, inputs: NDArray[np.float64], targets: NDArray[Any], class_names: tuple[str, ...]) -> Self:
        """Fit to rows (n, p) and their targets (n,): numbers, or class indices where there are class names."""
        self.allocation_ = allocation_of(self.d_model, self.n_heads)
        spec = TrialSpec(self.allocation_, self.weighting, self.decorrelation, self.learning_rate, replicate=0)
        for name, values in (("X", inputs), ("y", targets)):
            if np.abs(values).max() > LARGEST:
                raise DataError(
                    f"{name} holds {values.flat[np.abs(values).argmax()]:.3g}: at most {LARGEST:g} is handled"
                )
        if not np.ptp(inputs, axis=0).any():
            raise DataError(f"no column of X varies over its {len(inputs):,} rows: there is nothing to learn from")
        clip = FunctionTransformer(np.clip, kw_args={"a_min": -CLIP, "a_max": CLIP})
        self._standardise = make_pipeline(VarianceThreshold(), StandardScaler(), clip).fit(inputs)
        rows = self._standardise.transform(inputs)
        dataset = _as_table(rows, targets, class_names)
        recipe = default_recipe(
            dataset,
            d_model=self.allocation_.d_model,
            n_steps=self.n_steps,
            weight_decay=self.weight_decay,
            warmup=self.warmup,
            seed=_seed(self.random_state),
        )
        learner = table_learner(dataset, spec, recipe)
        self.loss_curve_ = list(training_losses(learner, spec, recipe))
        # In float64, so that a row's prediction is the same whichever rows are predicted with it.
        model = learner.model.requires_grad_(False).double()
        assert isinstance(model, NadarayaWatson)
        model.zero_grad(set_to_none=True)
        self.model_ = model
        self.keys_, self.values_ = model.keys(torch.from_numpy(rows)), model.values(torch.from_numpy(targets))
        return self

    def _mixed(self, X: ArrayLike) -> torch.Tensor:
        """Rows (m, p) to the weighted mean of all heads: numbers (m, 1), or class probabilities (m, C)."""
        check_is_fitted(self, "model_")  # the number of columns is kept before a fit that fails
        inputs = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        rows = torch.from_numpy(self._standardise.transform(inputs))
        by_chunk = self.model_.head_outputs_in_chunks(rows, self.keys_, self.values_)
        mixed = torch.cat([self.model_.mix(outputs) for outputs in by_chunk])
        total: torch.Tensor = self.model_.weighting().sum()  # fixed weights were rounded to float32, and sum to 1 there
        return mixed / total


class MultiHeadNWRegressor(RegressorMixin, _MultiHeadNW):  # type: ignore[misc]
    """Multi-head Nadaraya-Watson regression.

    ``predict`` is sum_h alpha_h sum_i w_hi(x) y_i over the training rows i, with w_hi the normalised Gaussian kernel
    between the keys of x and of row i under head h; embedding, key projections, temperatures and (for "learned")
    head weights are trained. All training rows are kept, and every prediction attends over them.

    Args:
        d_model: D, the width that the heads share.
        n_heads: H, a divisor of D; each head has width D / H.
        weighting: of the heads: "uniform", "geometric", "fibonacci" or "learned".
        decorrelation: factor of the penalty on overlapping key subspaces, at least 0.
        learning_rate: AdamW's peak, above 0.
        weight_decay: AdamW's, on matrices only, at least 0.
        warmup: share of the steps with a rising learning rate, from 0 to 1.
        n_steps: optimiser steps, of 64 rows each.
        random_state: seed of initialisation and batches. With a whole number a fit is the same bit for bit, given the
            number of threads.

    Attributes:
        allocation_: the `archopt.HeadAllocation` of d_model.
        loss_curve_: mean squared error of every step's batch before the step, in variances of y.
        model_: the trained torch module, in float64.
        keys_, values_: tensors (H, n, d_k) and (n, 1): what a prediction attends over, and averages.
        n_features_in_, feature_names_in_: as in any estimator.

    Raises:
        AllocationError: (fit) n_heads does not divide d_model; the message lists the divisors.
        OptionError: (fit) another parameter outside what is allowed.
        DataError: (fit) no column of X varies, or a number is beyond 1e100.
        TrialFailed: (fit) the loss became NaN or exploded, as with a learning rate that is far too high.

    Example:
        .. code-block:: python

            from archopt.sklearn import MultiHeadNWRegressor
            from sklearn.datasets import load_diabetes
            from sklearn.model_selection import cross_val_score

            X, y = load_diabetes(return_X_y=True)
            print(cross_val_score(MultiHeadNWRegressor(n_heads=12, random_state=0), X, y))
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on rows X (n, p), n at least 2, finite, and numbers y (n,)."""
        inputs, targets = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True, ensure_min_samples=2)
        return self._train(inputs, targets.astype(np.float64), ())

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Rows (m, p) to estimates (m,), within the range of the training targets."""
        return self._mixed(X)[:, 0].numpy()


class MultiHeadNWClassifier(ClassifierMixin, _MultiHeadNW):  # type: ignore[misc]
    """Multi-head Nadaraya-Watson classification: as `MultiHeadNWRegressor`, with one-hot classes as the targets.

    Args: as for `MultiHeadNWRegressor`.

    Attributes:
        classes_: the labels, sorted.
        loss_curve_: negative log-likelihood of every step's batch before the step, in nats a row.
        values_: tensor (n, C), the training rows' classes as one-hot; the others as for `MultiHeadNWRegressor`.

    Raises:
        DataError: (fit) y holds one class only; further as `MultiHeadNWRegressor`.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on rows X (n, p), n at least 2, finite, and labels y (n,) of two or more classes."""
        inputs, labels = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, indices = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y holds one class only ({self.classes_[0]!s:.60}): at least 2 are needed")
        return self._train(inputs, indices.astype(np.int64), tuple(map(str, self.classes_)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Rows (m, p) to their most probable labels (m,)."""
        most_probable = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[most_probable]
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Rows (m, p) to probabilities (m, C) in the order of ``classes_``.

        A thousandth of the uniform distribution is mixed in, as in training: a class without rows near x would have
        probability 0, and an infinite log-loss.
        """
        return log_probabilities(self._mixed(X)).exp().numpy()


def _as_table(rows: NDArray[np.float64], targets: NDArray[Any], class_names: tuple[str, ...]) -> TableDataset:
    """Standardised rows as the table that a trial trains on; there are no others to validate on."""
    mean, scale = (0.0, 1.0) if class_names else mean_and_scale(targets)
    standardised = targets if class_names else ((targets - mean) / (scale or 1.0)).astype(np.float32)
    split = TableSplit(rows.astype(np.float32), standardised)
    return TableDataset(
        name="X and y",
        content_hash="",
        task="classification" if class_names else "regression",
        train=split,
        valid=split,
        test=split,
        feature_names=tuple(f"x{j}" for j in range(rows.shape[1])),
        class_names=class_names,
        target_name="y",
        target_mean=mean,
        target_scale=scale,
        n_available=len(rows),
        notes=(),
    )


def _seed(random_state: int | RandomState | None) -> int:
    """A whole number is the seed that a search with it has; anything else draws one."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
