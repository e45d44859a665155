import numpy as np
import pyarrow as pa
import pytest

from archopt.data.encoding import MAX_LEVELS, MAX_ONE_HOT, fit_encoder
from archopt.data.features import choose_features
from archopt.errors import DataError

RNG = np.random.default_rng(0)


def encode(columns, other=None, **options):
    table = pa.table(columns)
    features, notes = choose_features(table, list(columns), time_column=options.get("time_column"))
    encoder = fit_encoder(table, features)
    return encoder, encoder(pa.table(other) if other else table)[0], [*notes, *encoder.notes]


def test_numbers_are_imputed_by_the_median_and_scaled():
    encoder, matrix, _ = encode({"x": [1.0, 2.0, 9.0, None]})
    assert encoder.names == ("x", "x is missing")
    filled = np.array([1.0, 2.0, 9.0, 2.0])  # median of 1, 2, 9
    assert matrix[:, 0] == pytest.approx((filled - 3.5) / filled.std(), abs=1e-6)


def test_rare_levels_are_grouped_and_unknown_ones_join_them():
    levels = ["a"] * 50 + ["b"] * 40 + [f"r{j}" for j in range(10)]
    encoder, matrix, notes = encode({"c": levels}, {"c": ["a", "b", "r3", "never seen", None]})
    assert encoder.names == ("c=a", "c=b", "c=(other)")
    assert matrix.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]]
    assert any("10 levels" in note for note in notes)


def test_categories_never_take_more_than_their_columns():
    encoder, *_ = encode({"c": [f"l{j % 60}" for j in range(600)]})
    assert len(encoder.names) == MAX_LEVELS
    wide, *_ = encode({f"c{k}": [f"l{j % 40}" for j in range(400)] for k in range(40)})
    assert len(wide.names) <= MAX_ONE_HOT


def test_a_category_without_a_frequent_level_is_dropped_and_said():
    encoder, _, notes = encode({"c": [f"l{j // 2}" for j in range(1_000)], "x": RNG.normal(size=1_000)})
    assert encoder.names == ("x",)
    assert any("no category is in enough training rows): 'c'" in note for note in notes)


def test_dates_turn_on_circles():
    days = np.arange("2024-01-01", "2025-01-01", dtype="datetime64[D]")
    encoder, matrix, _ = encode({"d": pa.array(days)})
    assert encoder.names == ("d: days", *(f"d: {c} ({w})" for c in ("month", "weekday") for w in ("sin", "cos")))
    circle = dict(zip(encoder.names, matrix.T, strict=True))
    assert circle["d: month (sin)"] ** 2 + circle["d: month (cos)"] ** 2 == pytest.approx(np.ones(366), abs=1e-5)
    assert circle["d: weekday (sin)"][:7] == pytest.approx(circle["d: weekday (sin)"][7:14], abs=1e-6)
    april = int(np.flatnonzero(days == np.datetime64("2024-04-15"))[0])
    assert circle["d: month (sin)"][april] == pytest.approx(1.0, abs=1e-6)  # a quarter of the year


def test_missing_dates_and_truth_values_are_filled():
    columns = {
        "d": pa.array([None, *np.arange("2024-01-01", "2024-02-10", dtype="datetime64[D]").tolist()]),
        "b": pa.array([None, *[True] * 30, *[False] * 10]),
    }
    encoder, matrix, notes = encode(columns)
    assert np.isfinite(matrix).all()
    assert matrix[0, encoder.names.index("b")] == 1.0
    assert matrix[0, encoder.names.index("b is missing")] == 1.0
    assert any("training mean" in note for note in notes)


def test_far_values_are_clipped():
    _, matrix, _ = encode({"x": RNG.normal(size=100)}, {"x": [1e30, -1e30, 0.0]})
    assert matrix[:2, 0].tolist() == [10.0, -10.0]


def test_too_many_columns_are_refused():
    with pytest.raises(DataError, match="5,000 input columns; at most 4,096"):
        encode({f"x{j}": [0.0, 1.0 + j] for j in range(5_000)})


def test_columns_that_tell_nothing_apart_are_refused():
    with pytest.raises(DataError, match="no column is left"):
        encode({"x": [1.0, 1.0], "n": pa.array([None, None]), "l": [[1], [2]]})
    with pytest.raises(DataError, match="no column varies"):
        encode({"c": [f"l{j // 2}" for j in range(1_000)]})
