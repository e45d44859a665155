"""The table of cells: what each allocation came to, from studies of any making."""

import optuna
import pytest

from archopt.campaign import cells_frame
from archopt.campaign.cells_table import CELL_COLUMNS, cells_of
from archopt.errors import OptionError

HEADS = optuna.distributions.CategoricalDistribution([1, 2, 4, 8])


def _study(values: dict[int, list[float]], direction: str = "minimize") -> optuna.Study:
    study = optuna.create_study(direction=direction)
    for n_heads, results in values.items():
        for value in results:
            study.add_trial(
                optuna.create_trial(params={"n_heads": n_heads}, distributions={"n_heads": HEADS}, value=value)
            )
    return study


VALUES = {1: [0.50, 0.52, 0.51], 2: [0.30, 0.31, 0.29], 8: [0.60, 0.58, 0.59]}


def test_a_row_for_each_allocation_that_was_tried() -> None:
    frame = cells_frame([_study(VALUES), _study(VALUES)], n_samples=[100, 1_000], d_models=[8, 16])
    assert tuple(frame.columns) == CELL_COLUMNS
    assert list(frame.n_samples) == [100] * 3 + [1_000] * 3
    assert list(frame.head_dim) == [1, 4, 8, 2, 8, 16]
    assert (frame.n_heads * frame.head_dim == frame.d_model).all()
    assert list(frame.n_trials) == [3] * 6
    for _, row in frame[frame.n_samples == 100].iterrows():
        # three runs that agree to 0.02 leave little to be shrunk
        assert row.loss == pytest.approx(sum(VALUES[row.n_heads]) / 3, abs=0.03)
        assert 0.0 < row.loss_sd < 0.05


def test_what_is_maximised_is_negated() -> None:
    negated = {n_heads: [-value for value in values] for n_heads, values in VALUES.items()}
    low, high = _study(VALUES), _study(negated, "maximize")
    frames = [cells_frame([study], n_samples=[100], d_models=[8]) for study in (low, high)]
    assert list(frames[0].loss) == pytest.approx(list(frames[1].loss))


def test_a_study_without_a_finished_trial_has_no_row() -> None:
    frame = cells_frame([_study({}), _study(VALUES)], n_samples=[100, 1_000], d_models=[8, 8])
    assert set(frame.n_samples) == {1_000}
    assert cells_frame([]).empty


def test_what_is_neither_given_nor_recorded_is_asked_for() -> None:
    with pytest.raises(OptionError, match="does not say its n_samples: give one for each study"):
        cells_frame([_study(VALUES)], d_models=[8])
    with pytest.raises(OptionError, match="n_samples must be one for each of the 2 studies but got 1"):
        cells_frame([_study(VALUES)] * 2, n_samples=[100], d_models=[8, 8])
    with pytest.raises(OptionError, match="d_model"):
        cells_frame([_study(VALUES)], n_samples=[100])


def test_cells_are_known_by_their_names() -> None:
    names = ["a-n1000-d8", "a-n30-d8", "a-n30-d16", "a-n30-d8-copy", "b-n30-d8", "a", "a-n30-n40-d8"]
    assert cells_of("a", names) == {"a-n30-d8": (30, 8), "a-n30-d16": (30, 16), "a-n1000-d8": (1_000, 8)}
    assert cells_of("a-n30", names) == {"a-n30-n40-d8": (40, 8)}
