from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.data.splits import HALVES, SHARES, group_split, random_split, reorder, stratified_order, time_split

invariant = settings(deadline=None, derandomize=True, max_examples=40)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@invariant
@given(counts=st.lists(st.integers(1, 60), min_size=2, max_size=6), seed=st.integers(0, 99), at=st.floats(0.0, 1.0))
def test_every_prefix_of_a_stratified_order_holds_each_class_at_its_share(counts, seed, at):
    classes = np.repeat(np.arange(len(counts)), counts)
    order = stratified_order(classes, len(classes), rng(seed))
    assert sorted(order) == list(range(len(classes)))
    n = max(len(counts), round(at * len(classes)))
    held = np.bincount(classes[order[:n]], minlength=len(counts))
    assert held.min() >= 1
    # Systematic sampling is within one row of each class's share, the rows brought to the front within one a class.
    assert np.all(np.abs(held - n * np.array(counts) / len(classes)) <= len(counts) + 1)


def test_a_class_of_two_rows_reaches_validation_and_test_alike():
    classes = np.array([0] * 50 + [1] * 2)
    second = [int(np.flatnonzero(classes[stratified_order(classes, 52, rng(s))] == 1)[1]) / 52 for s in range(400)]
    # The second row stands at (1 + u)/2 with u uniform: mean 3/4; se = (1/2)/sqrt(12 * 400) = 0.007.
    assert np.mean(second) == pytest.approx(0.75, abs=0.03)
    assert np.mean(np.array(second) > 0.8) == pytest.approx(0.4, abs=0.08)


@pytest.mark.parametrize(("n_rows", "sizes"), [(100, [60, 20, 20]), (20, [12, 4, 4]), (23, [14, 4, 5])])
def test_random_split_has_the_shares(n_rows, sizes):
    assert [len(part) for part in random_split(np.arange(n_rows), SHARES)] == sizes


@invariant
@given(groups=st.lists(st.integers(0, 12), min_size=3, max_size=120), seed=st.integers(0, 99), halves=st.booleans())
def test_no_group_is_in_two_parts(groups, seed, halves):
    codes = np.unique(groups, return_inverse=True)[1]
    shares = HALVES if halves else SHARES
    parts = group_split(codes, codes % 2, shares, rng(seed))
    if len(np.unique(codes)) < len(shares):
        assert parts is None
        return
    assert sorted(np.concatenate(parts)) == list(range(len(codes)))
    held = [set(codes[part]) for part in parts]
    assert all(held)
    assert sum(len(some) for some in held) == len(set.union(*held))


def test_equal_groups_meet_the_shares_and_one_large_group_trains():
    even = group_split(np.repeat(np.arange(50), 4), None, SHARES, rng(0))
    assert [len(part) for part in even] == [120, 40, 40]
    large = np.concatenate([np.zeros(60, dtype=int), np.arange(1, 41)])
    assert 0 in group_split(large, None, SHARES, rng(1))[0]


@invariant
@given(times=st.lists(st.integers(0, 30), min_size=3, max_size=150), halves=st.booleans())
def test_no_row_of_a_later_part_is_as_early_as_one_of_an_earlier_part(times, halves):
    values = np.array(times, dtype=float)
    shares = HALVES if halves else SHARES
    parts = time_split(values, shares)
    if len(set(times)) < len(shares):
        assert parts is None
        return
    assert sorted(np.concatenate(parts)) == list(range(len(times)))
    for before, after in pairwise(parts):
        assert values[before].max() < values[after].min()


def test_distinct_times_meet_the_shares_exactly():
    parts = time_split(np.arange(100)[::-1].astype(float), SHARES)
    assert [len(part) for part in parts] == [60, 20, 20]
    assert parts[0][0] == 99


def test_reorder_keeps_the_rows():
    rows = np.array([5, 9, 12, 40])
    assert sorted(reorder(rows, np.arange(50) % 2, rng(0))) == rows.tolist()
