"""What a table of runs must be, and what is said where it is not."""

import numpy as np
import pandas as pd
import pytest

from archopt.errors import DataError, OptionError
from archopt.laws.frame import read_runs

GOOD = pd.DataFrame(
    {
        "n_samples": [100.0] * 4,
        "d_model": [48] * 4,
        "head_dim": [4, 8, 12, 24],
        "loss": [3.0, 1.0, 2.0, 4.0],
    }
)


def changed(**columns) -> pd.DataFrame:
    return GOOD.assign(**columns)


def test_heads_or_head_dim_or_both() -> None:
    one = read_runs(GOOD).cells[0]
    other = read_runs(GOOD.drop(columns="head_dim").assign(n_heads=[12, 6, 4, 2])).cells[0]
    both = read_runs(GOOD.assign(n_heads=[12, np.nan, 4, 2])).cells[0]
    for cell in (one, other, both):
        assert 2.0**cell.log2_head_dim == pytest.approx([4, 8, 12, 24])
        assert cell.loss == pytest.approx([3.0, 1.0, 2.0, 4.0])


def test_contradictory_and_broken_rows_are_listed_and_dropped() -> None:
    rows = pd.DataFrame(
        {
            "n_samples": [100, 100, 100, 100, 100, 100, "many", 100],
            "d_model": [48, 48, 48, 48, 48, 50, 48, 48],
            "n_heads": [12, 6, 4, 3, 2, 12, 1, 1],
            "head_dim": [4, 8, 12, 24, np.nan, np.nan, 48, 48],
            "loss": [3.0, 1.0, 2.0, 4.0, np.inf, 1.0, 1.0, 5.0],
        }
    )
    runs = read_runs(rows)
    notes = "\n".join(runs.notes)
    assert "dropped 1 row where n_heads x head_dim is not d_model: 4" in notes
    assert "dropped 1 row whose loss is missing or not a finite number up to 1e+100: 5" in notes
    assert "dropped 1 row where n_heads does not divide d_model: 6" in notes
    assert "dropped 1 row whose n_samples is missing or not a finite number: 7" in notes
    assert runs.cells[0].loss == pytest.approx([3.0, 1.0, 2.0, 5.0])


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (GOOD.drop(columns="loss"), "no column loss; the columns are 'n_samples', 'd_model', 'head_dim'"),
        (GOOD.drop(columns=["head_dim", "n_samples"]), "no column n_samples and none n_heads or head_dim"),
        (changed(loss="high"), "none of the 4 rows can be used"),
        (changed(head_dim=1e-310), "4 rows where n_heads x head_dim is not d_model"),
        (changed(d_model=2.0**70), "4 rows whose d_model is missing or not a finite number up to 1,048,576"),
        (changed(loss_sd=1e200), "4 rows whose loss_sd is missing or not a finite number up to 1e+100"),
        (changed(head_dim=8), "no cell has 2 head_dims: each n_samples and d_model was tried with one only"),
        (changed(seconds=[0.1, 0.2, 0.3, 0.4]), "'seconds' has 4 values; ignore it, or take the best over it"),
        (GOOD.iloc[:0], "none of the 0 rows can be used: the table is empty"),
        (pd.concat([GOOD, GOOD[["loss"]]], axis=1), "'loss' is there twice"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(frame: pd.DataFrame, told: str) -> None:
    with pytest.raises(DataError) as caught:
        read_runs(frame)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"direction": "up"}, "minimize or maximize but got 'up'"),
        ({"best_over": ["warmup"]}, "best_over names 'warmup'"),
        ({"ignore": ["loss"]}, "ignore names 'loss'"),
    ],
)
def test_bad_options_are_refused(options: dict, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        read_runs(GOOD, **options)


def test_no_frame_is_refused() -> None:
    with pytest.raises(OptionError, match="DataFrame but got list"):
        read_runs([1, 2])  # type: ignore[arg-type]


def test_maximised_metrics_are_turned_round() -> None:
    assert read_runs(GOOD, direction="maximize").cells[0].loss == pytest.approx([-3.0, -1.0, -2.0, -4.0])


def test_the_best_value_of_a_column_counts() -> None:
    both = pd.concat([changed(rate=0.1), changed(rate=0.2, loss=[2.0, 2.0, 2.0, 2.0])])
    assert read_runs(both, best_over=["rate"]).cells[0].loss == pytest.approx([2.0, 1.0, 2.0, 2.0])


def test_further_columns_are_groups() -> None:
    both = pd.concat([changed(n_layers=2.0), changed(n_layers=4.0)])
    assert [cell.group for cell in read_runs(both).cells] == [(("n_layers", 2),), (("n_layers", 4),)]
    assert read_runs(both).cells[0].label == "n = 100, D = 48, n_layers = 2"


def test_a_seeds_own_level_is_taken_out() -> None:
    rng = np.random.default_rng(0)
    effect, level = np.array([3.0, 1.0, 2.0, 4.0]), np.array([0.0, 10.0, -5.0])
    noise = 0.1 * rng.standard_normal((4, 3))
    values = effect[:, None] + level + noise
    frame = pd.DataFrame(
        [(100, 48, d, s, values[i, s]) for i, d in enumerate((4, 8, 12, 24)) for s in range(3)],
        columns=["n_samples", "d_model", "head_dim", "seed", "loss"],
    )
    cell = read_runs(frame).cells[0]
    assert cell.loss == pytest.approx(values.mean(axis=1))
    left = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    assert cell.degrees == 6  # (4 - 1) (3 - 1)
    assert (cell.residuals**2).mean() == pytest.approx((left**2).sum() / 6)
    # a missing run does not hand its seed's level to the head_dim
    missing = read_runs(frame.drop(index=1)).cells[0]
    assert missing.loss - missing.loss[1] == pytest.approx(cell.loss - cell.loss[1], abs=0.3)


def test_standard_errors_may_be_given() -> None:
    cell = read_runs(changed(loss_sd=[0.1, 0.2, 0.3, 0.4])).cells[0]
    assert cell.loss_sd == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert "whose loss_sd is below 0: 2" in read_runs(changed(loss_sd=[0.1, -0.2, 0.3, 0.4])).notes[0]


def test_thin_cells_are_left_out() -> None:
    runs = read_runs(pd.concat([GOOD, GOOD.iloc[:1].assign(n_samples=200.0)]))
    assert len(runs.cells) == 1
    assert "left out 1 cell with one head_dim: n = 200, D = 48" in runs.notes


def test_seeds_that_do_not_meet_every_head_dim_make_means_worth_less() -> None:
    # a chain: each head_dim shares one seed with the next, so that the ends are compared over three noisy steps
    dims = (4, 8, 12, 24)
    rows = [(100, 48, d, seed, float(i)) for i, d in enumerate(dims) for seed in (i, i + 1)]
    chain = read_runs(pd.DataFrame(rows, columns=["n_samples", "d_model", "head_dim", "seed", "loss"])).cells[0]
    assert (chain.runs < 2.0).all()
    whole = [(100, 48, d, seed, float(i)) for i, d in enumerate(dims) for seed in range(2)]
    full = read_runs(pd.DataFrame(whole, columns=["n_samples", "d_model", "head_dim", "seed", "loss"])).cells[0]
    assert full.runs == pytest.approx(2.0)


def test_runs_without_a_seed_share_no_level() -> None:
    frame = pd.concat([changed(seed=None), changed(seed=None)])
    assert read_runs(frame).cells[0].degrees == 4


def test_what_is_ignored_is_as_if_it_were_not_there() -> None:
    frame = pd.concat([changed(seed=0), changed(seed=1, loss=[3.1, 1.2, 2.0, 4.4])])
    assert read_runs(frame).cells[0].degrees == 3
    assert read_runs(frame, ignore="seed").cells[0].degrees == 4
    assert read_runs(changed(loss_sd=0.1), ignore=["loss_sd"]).cells[0].loss_sd is None


def test_thousands_may_be_grouped() -> None:
    assert read_runs(changed(n_samples="1,000")).cells[0].n_samples == 1_000.0


def test_diverged_runs_are_dropped_with_a_note() -> None:
    many = pd.concat([changed(seed=seed, loss=GOOD["loss"] + 0.1 * seed) for seed in range(4)], ignore_index=True)
    many.loc[5, "loss"] = 1e6
    runs = read_runs(many)
    assert runs.cells[0].loss.max() < 10.0
    assert runs.notes[0].startswith("dropped 1 run that diverged")
    assert runs.notes[0].endswith(": 1e+06")


def test_heads_wider_than_any_in_use_are_not_looked_at() -> None:
    runs = read_runs(changed(d_model=32_768, head_dim=[64, 128, 8_192, 16_384]))
    assert runs.cells[0].log2_head_dim.max() == 13.0
    assert "dropped 1 row whose head_dim is above 8,192, which is not looked at: 4" in runs.notes


def test_groups_can_be_missing_and_of_any_kind() -> None:
    both = pd.concat([changed(size=None), changed(size=pd.Timestamp("2026-01-01"))])
    assert {cell.group for cell in read_runs(both).cells} == {(("size", None),), (("size", "2026-01-01 00:00:00"),)}
    with pytest.raises(DataError, match="lists or the like"):
        read_runs(changed(size=[[1]] * 4))
