import numpy as np
import pyarrow as pa
import pytest

from archopt.data.targets import convert_target, read_target, sorted_classes
from archopt.errors import DataError

RNG = np.random.default_rng(0)


def target(values, task="auto"):
    return read_target(pa.chunked_array([pa.array(values)]), "y", task)


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (RNG.normal(size=100), "regression"),
        ([str(x) for x in RNG.normal(size=100)], "regression"),
        (np.arange(100) % 21, "regression"),
        (np.arange(100) % 20, "classification"),
        (np.arange(50) % 20, "regression"),  # fewer than five rows a value
        ((np.arange(100) % 3).astype(float), "classification"),
        (np.arange(100) % 2 - 0.5, "classification"),
        (np.arange(100) % 3 + 0.5, "regression"),
        (["a", "b"] * 50, "classification"),
        (["true", "false"] * 50, "classification"),
        ([True, False] * 50, "classification"),
    ],
)
def test_the_task_is_told_from_the_values_and_said(values, task):
    read = target(values)
    assert read.task == task
    assert f"task: {task}" in read.notes[-1]


def test_the_task_can_be_overridden():
    assert target(np.arange(100) % 5, "regression").task == "regression"
    assert target(np.arange(100) % 5 + 0.5, "classification").values[0] == "0.5"
    assert target([True, False] * 20, "regression").values[:2].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("values", "task", "said"),
    [
        ([1.0] * 30, "auto", "constant"),
        (["a"] * 30, "auto", "constant"),
        ([None] * 30, "auto", "no usable value"),
        ([np.nan] * 30, "auto", "no usable value"),
        ([np.inf] * 30, "auto", "no usable value"),
        (["a", "b"] * 30, "regression", "needs numbers"),
        ([f"n{j}" for j in range(60)], "auto", "60 classes in 60 rows; at most 12"),
        (np.arange(6_000), "classification", "6,000 classes in 6,000 rows; at most 1,000"),
        (["2024-01-01", "2024-01-02"] * 30, "auto", "dates"),
        ([[1]] * 30, "auto", "lists"),
    ],
)
def test_targets_that_cannot_be_learned(values, task, said):
    with pytest.raises(DataError, match=said):
        target(values, task)


def test_numbers_that_are_none_are_missing_and_said():
    read = target([*RNG.normal(size=50), np.inf, np.nan])
    assert np.isnan(read.values[-2:]).all()
    assert "1 value, no finite number" in read.notes[0]


def test_a_second_file_is_read_like_the_first():
    first = target(np.arange(100) % 3)
    assert convert_target(pa.chunked_array([pa.array(["2", "x", None])]), first).tolist() == ["2", None, None]


def test_classes_sort_by_value_where_they_are_numbers():
    assert sorted_classes(np.array(["10", "9", "9"], dtype=object)) == ("9", "10")
    assert sorted_classes(np.array(["b", "a", "10"], dtype=object)) == ("10", "a", "b")
