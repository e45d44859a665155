"""`fit_scaling_law` and `ScalingLaw`: known laws, published tables, predictions, files."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from archopt import ScalingLaw, fit_scaling_law
from archopt.errors import AllocationError, DataError, OptionError
from archopt.laws.verdict import heads_exponent

PUBLISHED = Path(__file__).parents[2] / "studies" / "published_tables"


def power(n: float, width: float) -> float:
    return 3.5 + 0.25 * np.log2(n / 1e3) + 0.0 * width


@pytest.fixture(scope="module")
def law(campaign) -> ScalingLaw:
    return fit_scaling_law(campaign(power), plan=False, source="made up")


def test_a_known_power_law_is_found(law: ScalingLaw) -> None:
    fit = next(fit for fit in law.fits if fit.name == "power")
    value, low, high = fit.interval("exponent_n")
    assert low <= 0.25 <= high
    assert value == pytest.approx(0.25, abs=0.08)
    assert not fit.rejected
    rejected = {fit.name for fit in law.fits if fit.rejected}
    assert {"constant", "width"} <= rejected
    assert fit.weight == pytest.approx(math.exp(-fit.delta / 2) * law.fits[0].weight)
    assert sum(each.weight for each in law.fits) == pytest.approx(1.0)


def test_a_prediction_between_and_beyond_the_cells(law: ScalingLaw) -> None:
    between, beyond, far = (law.predict(n, 240) for n in (3e3, 1e5, 1e9))
    assert between.interval[0] < 2 ** power(3e3, 240) < between.interval[1]
    assert between.sd < beyond.sd < far.sd
    assert not between.warnings
    assert "n_samples = 1e+09 lies a factor of 1e+05 outside the cells' 300 to 10,000" in far.warnings[0]
    assert all(between.interval[0] <= split.head_dim <= between.interval[1] for split in between.allocations)
    assert all(split.d_model == 240 for split in between.allocations)
    wider = law.predict(3e3, 240, confidence=0.99).interval
    assert wider[0] < between.interval[0] < between.interval[1] < wider[1]


def test_a_prediction_stays_within_the_width(law: ScalingLaw) -> None:
    asked = law.predict(1e9, 8)
    assert asked.head_dim <= 8.0
    assert asked.interval[1] <= 8.0
    assert asked.allocation.d_model == 8


@pytest.mark.parametrize(
    ("size", "error"), [((1, 48), OptionError), ((math.nan, 48), OptionError), ((1e3, 0), AllocationError)]
)
def test_impossible_sizes_are_refused(law: ScalingLaw, size: tuple[float, int], error: type[Exception]) -> None:
    with pytest.raises(error):
        law.predict(*size)


def test_the_same_runs_give_the_same_law(campaign, law: ScalingLaw) -> None:
    again = fit_scaling_law(campaign(power), plan=False)
    assert again.compare().equals(law.compare())


def test_a_saved_law_predicts_the_same(law: ScalingLaw, tmp_path: Path) -> None:
    law.save(tmp_path / "law.json")
    loaded = ScalingLaw.load(tmp_path / "law.json")
    assert loaded.predict(1e6, 96) == law.predict(1e6, 96)
    assert loaded.verdict() == law.verdict()
    assert loaded.to_dict() == law.to_dict()
    assert loaded.provenance["source"] == "made up"
    assert loaded.provenance["archopt"]
    assert [path.name for path in tmp_path.iterdir()] == ["law.json"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read"),
        ("not json", "holds no JSON"),
        ("[1]", "has schema 'None'"),
        ('{"schema": "archopt.scaling_law/9"}', "has schema 'archopt.scaling_law/9'"),
        ('{"schema": "archopt.scaling_law/1"}', "is not as `archopt fit --out` wrote it"),
        ("[" * 100_000, "holds no JSON"),
    ],
)
def test_a_file_that_is_no_law_is_refused(tmp_path: Path, content: str | None, told: str) -> None:
    path = tmp_path / "law.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError) as caught:
        ScalingLaw.load(path)
    assert told in str(caught.value)


def test_a_law_that_was_changed_is_refused(law: ScalingLaw, tmp_path: Path) -> None:
    law.save(tmp_path / "law.json")
    altered = json.loads((tmp_path / "law.json").read_text())
    altered["fits"][0]["weight"] /= 2
    (tmp_path / "law.json").write_text(json.dumps(altered))
    with pytest.raises(DataError, match="is not as `archopt fit --out` wrote it: fit it again"):
        ScalingLaw.load(tmp_path / "law.json")


def test_a_law_that_cannot_be_written_is_refused(law: ScalingLaw, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "no" / "law.json", tmp_path / "folder"):
        with pytest.raises(OptionError, match="cannot be written"):
            law.save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_refits_to_resampled_runs_stand_beside_the_posterior(campaign) -> None:
    law = fit_scaling_law(campaign(power, widths=(24, 48, 96)), plan=False, n_bootstrap=100)
    fit = next(fit for fit in law.fits if fit.name == "power")
    assert fit.bootstrap is not None
    low, high = fit.bootstrap[1]
    assert low < 0.25 + 0.1
    assert high > 0.25 - 0.1
    assert next(fit for fit in law.fits if fit.rejected).bootstrap is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"noise_sd": -1.0}, "noise_sd must be"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"n_bootstrap": -1}, "n_bootstrap must be a whole number from 0"),
        ({"family": "image"}, "family must be"),
        ({"intrinsic_dim": 0.0}, "intrinsic_dim must be"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"confidence": "high"}, "confidence must be"),
    ],
)
def test_bad_options_are_refused(campaign, options: dict, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        fit_scaling_law(campaign(power, samples=(300,), widths=(24,)), **options)


@pytest.mark.parametrize("options", [{"noise_sd": 1e300}, {"intrinsic_dim": 1.7e308}])
def test_numbers_at_the_end_of_the_floats_are_only_large(campaign, options: dict) -> None:
    runs = campaign(power, samples=(300, 3_000), widths=(24, 48))
    law = fit_scaling_law(runs, plan=False, **options)
    same = fit_scaling_law(runs, plan=False, **dict.fromkeys(options, 1e150))
    assert [fit.estimate for fit in law.fits] == [fit.estimate for fit in same.fits]


def test_few_cells_allow_no_law_but_say_what_they_saw(campaign) -> None:
    law = fit_scaling_law(campaign(power, samples=(1_000,), widths=(48, 96)))
    assert law.fits == ()
    assert law.winner is None
    assert "at least 4 cells but there are 2" in law.not_fitted["constant"]
    assert "n does not vary" in law.not_fitted["log"]
    assert "best head_dim about" in law.verdict()
    assert law.compare()["law"].tolist() == []
    carried = law.predict(1e5, 96)
    assert "no law could be fitted" in carried.warnings[0]
    assert carried.sd >= 0.75
    assert law.predict(1_000, 96).sd < 0.5  # the cell itself


def test_estimates_lie_among_their_own_draws(campaign) -> None:
    # with one width the bound's floor, where its parameter does nothing, had been taken for the best fit
    frame = campaign(power, samples=(300, 1e3, 3e3, 1e4, 3e4), widths=(48,), scatter=0.2)
    for fit in fit_scaling_law(frame, plan=False).fits:
        for at, value in enumerate(fit.estimate):
            assert fit.draws[:, at].min() <= value <= fit.draws[:, at].max()


def test_a_group_that_is_missing_can_be_saved(campaign, tmp_path: Path) -> None:
    frame = campaign(power, samples=(300, 1e3), widths=(24, 48)).assign(source=None)
    law = fit_scaling_law(frame, plan=False)
    law.save(tmp_path / "law.json")
    assert ScalingLaw.load(tmp_path / "law.json").cells == law.cells


def test_one_width_has_no_exponent_in_d(campaign) -> None:
    law = fit_scaling_law(campaign(power, samples=(100, 300, 1e3, 3e3, 1e4), widths=(96,)), plan=False)
    assert law.not_fitted["power_width"] == law.not_fitted["width"] == "D does not vary"
    assert heads_exponent(law) is None
    assert "How H grows with D cannot be judged: D does not vary" in law.verdict()
    assert any(fit.name == "power" for fit in law.fits)


def test_optima_beyond_what_was_tried_on_one_side_allow_no_law(campaign) -> None:
    frame = campaign(lambda n, width: np.log2(width) + 1.0, curvature=0.3, scatter=0.0)
    law = fit_scaling_law(frame, plan=False)
    assert law.fits == ()
    assert "no cell shows that its best head_dim is not the widest tried, or beyond it" in law.verdict()
    assert all(cell.censored == "above" for cell in law.cells)
    with pytest.raises(OptionError, match="24 or more at n = 300, D = 24"):
        law.predict(1e5, 96)


def test_a_flat_loss_rejects_nothing(campaign) -> None:
    frame = campaign(power, curvature=0.0, noise=0.05)
    law = fit_scaling_law(frame, plan=False)
    assert not any(fit.rejected for fit in law.fits)
    assert law.winner is None


def test_the_plan_says_what_would_tell_laws_apart(campaign) -> None:
    law = fit_scaling_law(campaign(power, widths=(24, 48, 96), curvature=0.01, noise=0.02))
    assert law.plan
    assert all("% of simulations" in line for line in law.plan)
    assert all(line in law.verdict() for line in law.plan)


def test_vaswani_et_al_have_8_and_16_heads_tied() -> None:
    frame = pd.read_csv(PUBLISHED / "vaswani2017_table3.csv").assign(n_samples=4.5e6)
    law = fit_scaling_law(frame.rename(columns={"perplexity": "loss"}), ignore=["row", "bleu"], noise_sd=0.03)
    (cell,) = law.cells
    assert cell.tied == (32, 64)  # H = 16 and 8 of D = 512
    assert 32 <= law.predict(4.5e6, 512).head_dim <= 64


def test_the_public_grid_cannot_tell_and_predicts_wider_models() -> None:
    frame = pd.read_csv(PUBLISHED / "gadre2024_grid.csv").rename(columns={"n_tokens": "n_samples"})
    options = {"best_over": ["warmup"], "ignore": ["lr", "wd"], "noise_sd": 0.0084, "family": "text", "plan": False}
    law = fit_scaling_law(frame, **options)
    assert len(law.cells) == 45
    assert "dropped 17 rows where n_heads does not divide d_model" in law.notes[0]
    assert "cannot tell whether it is nearly linear; linear is not rejected" in law.verdict()
    exponent = heads_exponent(law)
    assert exponent is not None
    assert exponent[2] > 0.45  # above all that an argmin fit, which ignores censoring, allows (0.21 to 0.41)
    assert exponent[1] < 1.0 < exponent[2]
    small = fit_scaling_law(frame[frame["d_model"] <= 640], **options)
    regrets = []
    for _, cell in frame[frame["d_model"] > 640].groupby(["d_model", "n_layers"]):
        best = cell.groupby("n_heads")["loss"].min()
        width = int(cell["d_model"].iloc[0])
        asked = small.predict(float(cell["n_samples"].iloc[0]), width).head_dim
        heads = best.index[np.abs(np.log2(width / best.index.to_numpy()) - np.log2(asked)).argmin()]
        regrets.append(best[heads] - best.min())
    assert len(regrets) == 10
    assert sum(regret <= 0.02 for regret in regrets) >= 9


@pytest.mark.slow
@pytest.mark.parametrize(("name", "exponent"), [("constant", 0.0), ("power", 0.25)])
def test_intervals_hold_the_truth_as_often_as_they_say(campaign, name: str, exponent: float) -> None:
    held, rejected, wrong = 0, 0, 0
    for seed in range(60):
        frame = campaign(lambda n, width: 3.5 + exponent * np.log2(n / 1e3), seed=seed, scatter=0.3, noise=0.02)
        law = fit_scaling_law(frame, plan=False)
        fit = next(fit for fit in law.fits if fit.name == name)
        value = exponent if name == "power" else 3.5
        at = fit.parameters.index("exponent_n") if name == "power" else 0
        held += fit.low[at] <= value <= fit.high[at]
        rejected += fit.rejected
        wrong += law.winner not in (None, name)
    assert held >= 0.85 * 60 - 1.3 * math.sqrt(60 * 0.85 * 0.15)  # chance of fewer at 85 %: one in ten
    assert rejected <= 3
    assert wrong <= 6
