"""Small tables whose target depends on two of four columns."""

import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture
def inputs() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(loc=5.0, scale=[1.0, 30.0, 0.01, 2.0], size=(120, 4))


@pytest.fixture
def numbers(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    return 300.0 + 20.0 * np.sin(inputs[:, 0]) + inputs[:, 1]


@pytest.fixture
def labels(inputs: NDArray[np.float64]) -> NDArray[np.str_]:
    return np.where(inputs[:, 0] > 5.5, "high", np.where(inputs[:, 1] > 5.0, "middle", "low"))
