"""Where the next trials go: expectations from the closed form of a straight line's certainty."""

from dataclasses import replace

import numpy as np
import pytest

from archopt.errors import OptionError
from archopt.laws import GridCellState, next_cell
from archopt.laws.next_cell import SCATTER_OCTAVES, law_design, summed_variance


def _cell(n: float, d_model: int, sd: float = 1.0, n_trials: int = 8, seconds: float = 1.0) -> GridCellState:
    return GridCellState(n, d_model, sd, n_trials, seconds)


def test_equal_cells_sum_to_the_number_of_coefficients() -> None:
    # tr(X (X'X / v)^-1 X') = v p for a design of rank p
    design = law_design([300, 1_000, 3_000] * 2, [48] * 3 + [96] * 3)
    assert design.shape == (6, 3)
    found = summed_variance(design, np.full(6, 0.75))
    assert found == pytest.approx(3 * (0.75 + SCATTER_OCTAVES**2))


def test_what_does_not_vary_is_no_term() -> None:
    assert law_design([300, 300], [48, 96]).shape == (2, 2)
    assert law_design([300, 900], [48, 48]).shape == (2, 2)
    assert law_design([300, 300], [48, 48]).shape == (2, 1)


def test_sizes_that_vary_together_still_say_something() -> None:
    # two cells, three columns of rank two: each cell's law is its own reading
    design = law_design([300, 3_000], [48, 96])
    assert summed_variance(design, np.array([0.3, 0.6])) == pytest.approx(0.9 + 2 * SCATTER_OCTAVES**2)


def test_of_equal_cells_an_extreme_one_is_taken() -> None:
    # d/dw of tr(X (X'WX)^-1 X') is minus the leverage over w^2: largest where n is farthest from the middle
    ns = [300, 1_000, 3_000, 10_000]
    column = np.log2(np.log(ns))
    leverage = 1 / 4 + (column - column.mean()) ** 2 / ((column - column.mean()) ** 2).sum()
    picked = next_cell([_cell(n, 48) for n in ns], 1)
    assert picked == int(leverage.argmax())
    assert picked in (0, 3)


def test_a_much_less_certain_cell_is_taken_where_no_other_says_what_it_does() -> None:
    # as many cells as coefficients: the summed variance is that of the readings, so the gain is sd^2 k / (t + k)
    cells = [_cell(300, 48), _cell(3_000, 48), _cell(300, 96)]
    assert next_cell(cells, 4) == 0  # of equals the first
    for at in range(3):
        uncertain = [replace(cell, sd_octaves=3.0) if k == at else cell for k, cell in enumerate(cells)]
        assert next_cell(uncertain, 4) == at


def test_a_flat_cell_does_not_swallow_the_budget_where_others_say_the_same() -> None:
    # one coefficient: V = C / sum(w), and (t / (t + k)) sd^2 adds most to w where sd is near the scatter
    cells = [_cell(300, 48, sd=3.0), _cell(300, 48, sd=0.5)]
    assert next_cell(cells, 4) == 1


def test_the_gain_is_counted_per_second() -> None:
    # one column: V = C / sum(w), so that the gain of a cell can be written down
    def gain(sd: float, other: float, seconds: float) -> float:
        scatter = SCATTER_OCTAVES**2
        before = 1 / (sd**2 + scatter) + 1 / (other**2 + scatter)
        after = 1 / (sd**2 * 8 / 12 + scatter) + 1 / (other**2 + scatter)
        return (2 / before - 2 / after) / seconds

    ratio = gain(1.2, 1.0, 1.0) / gain(1.0, 1.2, 1.0)
    for seconds, expected in ((0.99 * ratio, 0), (1.01 * ratio, 1)):
        cells = [_cell(300, 48, sd=1.2, seconds=seconds), _cell(300, 48, sd=1.0)]
        assert next_cell(cells, 4) == expected
    assert next_cell([_cell(300, 48, seconds=2.0), _cell(3_000, 48)], 4) == 1  # half the price, all else equal


def test_trials_count_for_less_where_many_are() -> None:
    assert next_cell([_cell(300, 48, n_trials=100), _cell(3_000, 48, n_trials=8)], 4) == 1


def test_bad_arguments_are_one_line() -> None:
    with pytest.raises(OptionError, match="at least one cell"):
        next_cell([], 1)
    with pytest.raises(OptionError, match="n_more must be at least 1 but got 0"):
        next_cell([_cell(300, 48)], 0)
    with pytest.raises(OptionError, match="sd_octaves must be above 0 but got 0"):
        _cell(300, 48, sd=0.0)
    with pytest.raises(OptionError, match="n_samples must be at least 2 but got 1"):
        _cell(1, 48)
    with pytest.raises(OptionError, match="trial_seconds must be above 0 but got nan"):
        _cell(300, 48, seconds=float("nan"))
