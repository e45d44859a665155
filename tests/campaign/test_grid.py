"""Campaigns over several n and D on small budgets: what is shared, where the budget goes, resume, what is left out."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest

import archopt
from archopt.campaign import SearchOptions, Settings, load_campaign_cells
from archopt.campaign.grid_cells import plan_grid
from archopt.campaign.grid_opening import open_grid
from archopt.campaign.joining import recorded_campaign
from archopt.campaign.reporting import report
from archopt.campaign.stopping import count_trials
from archopt.campaign.storage import open_storage
from archopt.cli import run
from archopt.data import load_dataset
from archopt.errors import AllocationError, CampaignFailed, OptionError, StorageError
from archopt.report.progress import SearchProgress
from archopt.search_space import recorded_optimum
from archopt.study_model import closed_form_prior
from archopt.surrogate import OptimumPrior

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]

N_TRIALS = 38
OPTIONS: dict[str, Any] = {"target": "price", "n_trials": N_TRIALS, "n_steps": 10, "n_workers": 2, "quiet": True}
CELLS = [(30, 8), (30, 12), (60, 8), (60, 12)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "prices.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["area", "age", "price"])
        for _ in range(120):
            area, age = rng.uniform(20, 200), rng.uniform(0, 80)
            writer.writerow([f"{area:.1f}", f"{age:.0f}", f"{area * 30 - age * 10 + rng.normal(0, 50):.1f}"])
    return path


@pytest.fixture(scope="module")
def campaign(table: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, archopt.GridResult]:
    """Two n and two D, with an n and a width that cannot be searched."""
    out = tmp_path_factory.mktemp("grid") / "prices"
    return out, archopt.search_grid(table, [12, 8, 7, 8], [60, 30, 5_000, 30], out=out, **OPTIONS)


def _studies(out: Path) -> dict[str, optuna.Study]:
    url = f"sqlite:///{out / 'study.db'}"
    return {name: optuna.load_study(study_name=name, storage=url) for name in optuna.get_all_study_names(url)}


def _n_trials(out: Path) -> dict[str, int]:
    done = optuna.trial.TrialState
    return {
        name: sum(trial.state in (done.COMPLETE, done.PRUNED, done.FAIL) for trial in study.trials)
        for name, study in _studies(out).items()
    }


def test_every_cell_gets_its_opening_and_the_budget_is_the_whole_campaign_s(
    campaign: tuple[Path, archopt.GridResult],
) -> None:
    out, found = campaign
    counts = _n_trials(out)
    assert set(counts) == {f"prices-n{n}-d{d_model}" for n, d_model in CELLS}
    assert sum(counts.values()) == N_TRIALS == found.search["n_trials"]
    assert min(counts.values()) >= 8
    assert [(cell.n_samples, cell.d_model) for cell in found.cells[:4]] == CELLS
    assert [cell.n_trials for cell in found.cells[:4]] == [counts[f"prices-n{n}-d{d}"] for n, d in CELLS]
    assert found.search["stopped_because"] == f"the budget of {N_TRIALS} trials is spent"
    for cell in found.cells[:4]:
        assert cell.recommendation is not None
        assert cell.recommendation.allocation.d_model == cell.d_model
        assert cell.recommendation.details["data"]["n_samples"] == cell.n_samples
    # the first trials show 8 heads (6 is nearest), one of 16 (12 is) and both ends at one rate before the next rate
    first = [trial.params for trial in _studies(out)["prices-n30-d12"].trials[:8]]
    n_splits = len({params["n_heads"] for params in first})
    assert {params["n_heads"] for params in first} >= {1, 6, 12}
    assert len({params["learning_rate"] for params in first[:n_splits]}) == 1


def test_what_cannot_be_searched_is_left_out_with_its_reason(campaign: tuple[Path, archopt.GridResult]) -> None:
    _, found = campaign
    left_out = {(cell.n_samples, cell.d_model): cell.reason for cell in found.cells if cell.recommendation is None}
    assert set(left_out) == {(5_000, 8), (5_000, 12), (30, 7), (60, 7), (5_000, 7)}
    assert "5,000 training rows wanted but there are 72" in str(left_out[5_000, 8])
    assert "d_model = 7 has no more than 2 allowed splits" in str(left_out[30, 7])
    assert [line.split(":")[0] for line in found.search["left_out"]] == [
        "D = 7 at n = 30, 60, 5,000",
        "n = 5,000 at D = 8, 12",
    ]


def test_cells_know_what_the_others_found(campaign: tuple[Path, archopt.GridResult]) -> None:
    out, _ = campaign
    alone = closed_form_prior(12, family="table").sd_octaves
    recorded = [prior for study in _studies(out).values() if (prior := recorded_optimum(study)) is not None]
    assert recorded
    assert any(OptimumPrior(*prior).sd_octaves < alone for prior in recorded)


def test_files(campaign: tuple[Path, archopt.GridResult]) -> None:
    out, found = campaign
    assert found.folder == out
    assert {path.name for path in out.iterdir()} == {
        "study.db",
        "cells.csv",
        "law.json",
        "figures",
        "report.html",
        *(f"n{n}-d{d}" for n, d in CELLS),
    }
    files = {"recommendation.json", "report.html", "rungs.csv", "trials.csv"}
    assert all({path.name for path in (out / f"n{n}-d{d}").iterdir()} == files for n, d in CELLS)
    report = (out / "n30-d8" / "report.html").read_text()
    assert f"--d-model 7,8,12 --target price --samples 30,60,5000 --trials {N_TRIALS} --steps 10 --workers 2" in report
    assert "--storage" not in report
    written = pd.read_csv(out / "cells.csv")
    pd.testing.assert_frame_equal(written, found.frame, check_exact=False, rtol=1e-12)
    assert (written.n_heads * written.head_dim == written.d_model).all()
    by_cell = written.groupby(["n_samples", "d_model"]).n_trials.sum()
    assert list(by_cell.index) == CELLS
    assert by_cell.sum() <= N_TRIALS
    frame, family = load_campaign_cells(f"sqlite:///{out / 'study.db'}", "prices")
    pd.testing.assert_frame_equal(frame, found.frame)
    assert family == "table"


def test_the_storage_alone_gives_the_campaign_s_report(
    campaign: tuple[Path, archopt.GridResult], tmp_path: Path
) -> None:
    out, found = campaign
    written = report("prices", storage=f"sqlite:///{out / 'study.db'}", out=tmp_path, pictures=False)
    assert [path.relative_to(tmp_path).as_posix() for path in written.files] == [
        "report.html",
        *(f"n{n}-d{d}/report.html" for n, d in CELLS),
    ]
    page = written.files[0].read_text()
    for cell in found.cells[: len(CELLS)]:
        assert cell.recommendation is not None
        split = cell.recommendation.allocation
        assert f"{split.n_heads} x {split.head_dim}" in page
    assert "Left out D = 7 at n = 30, 60, 5,000" in page
    answers = [cell["recommendation"]["allocation"] for cell in written.answer["cells"]]
    assert answers == [cell["recommendation"]["allocation"] for cell in found.to_dict()["cells"][: len(CELLS)]]
    assert written.answer["frame"] == found.to_dict()["frame"]
    for n, d in CELLS:  # a cell by itself, too, with what the others had told it
        assert (tmp_path / f"n{n}-d{d}" / "report.html").read_text() == (out / f"n{n}-d{d}" / "report.html").read_text()


def test_the_campaign_s_law_is_fitted_printed_and_can_be_used(
    campaign: tuple[Path, archopt.GridResult], capsys: pytest.CaptureFixture[str]
) -> None:
    out, found = campaign
    assert found.law is not None
    assert len(found.law.cells) == len(CELLS)
    assert found.to_dict()["verdict"] == found.law.verdict().split("\n")
    assert archopt.ScalingLaw.load(out / "law.json").verdict() == found.law.verdict()
    url = f"sqlite:///{out / 'study.db'}"
    named = [f"prices-n{n}-d{d}={n}" for n, d in CELLS]
    sources = [["--name", "prices"], [word for name in named for word in ("--study", name)]]
    for source in sources:
        assert run(["fit", *source, "--storage", url, "--json"]) == 0
        cells = json.loads(capsys.readouterr().out)["cells"]
        assert [(cell["n_samples"], cell["d_model"]) for cell in cells] == sorted(CELLS, key=lambda cell: cell[::-1])
    recommend = ["recommend", "--d-model", "24", "--samples", "500", "--json", "--basis"]
    if found.law.fits or any(not cell.censored for cell in found.law.cells):
        assert run([*recommend, "law", "--name", "prices", "--storage", url]) == 0
        assert json.loads(capsys.readouterr().out)["sources"][0]["name"] == "law"
    for bad, told in (
        (["--study", "prices-n30-d8=30"], "--study needs --storage"),
        (["--study", "none=30", "--storage", url], "the storage holds no study 'none'"),
        (["--study", "prices-n30-d8=many", "--storage", url], "--study must be NAME=N or NAME=N,D"),
    ):
        assert run(["fit", *bad]) == 2
        assert told in capsys.readouterr().err


def test_the_same_call_again_trains_nothing_and_says_the_same(
    campaign: tuple[Path, archopt.GridResult], table: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, found = campaign
    counts = _n_trials(out)
    line = f"search {table} --target price --d-model 8,12 --samples 30,6e1 --steps 10 --workers 2 --trials {N_TRIALS}"
    assert run([*line.split(), "--out", str(out), "--quiet", "--json"]) == 0
    printed, complaints = capfd.readouterr()
    plain = json.loads(printed)
    assert complaints == ""
    assert plain["schema"] == "archopt.grid/1"
    assert plain["frame"] == json.loads(json.dumps(found.to_dict()["frame"]))
    assert [cell["recommendation"]["allocation"] for cell in plain["cells"]] == [
        cell["recommendation"]["allocation"] for cell in found.to_dict()["cells"][:4]
    ]
    assert _n_trials(out) == counts

    # settings other than n and D must be those that it began with, whichever cells are asked for
    for sizes in ("30", "40,50"):
        code = run([*line.replace("30,6e1", sizes).split(), "--out", str(out), "--seed", "1"])
        assert code == 2
        complaint = capfd.readouterr().err.strip().splitlines()[-1]
        assert "exists with other settings (seed was 0, now 1)" in complaint
    assert set(_n_trials(out)) == set(counts)


def test_a_table_that_cannot_be_written_is_said_after_the_answer(
    campaign: tuple[Path, archopt.GridResult], table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(campaign[0], tmp_path / "copy")
    (tmp_path / "copy" / "cells.csv").unlink()
    (tmp_path / "copy" / "cells.csv").mkdir()  # nothing can be put in its place
    (tmp_path / "copy" / "cells.csv" / "file").write_text("")
    line = f"search {table} --target price --d-model 8,12 --samples 30,60 --steps 10 --trials {N_TRIALS} --quiet"
    assert run([*line.split(), "--out", str(tmp_path / "copy")]) == 1
    out, err = capfd.readouterr()
    assert "P(best)" in out
    assert f"Stopped: the budget of {N_TRIALS} trials is spent." in out
    assert "Written to" not in out
    assert err.startswith("archopt: cannot write")
    assert len(err.strip().splitlines()) == 1


def test_other_sizes_reuse_the_cells_that_exist_and_comparisons_are_made_as_far_as_the_budget_reaches(
    campaign: tuple[Path, archopt.GridResult], table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, first = campaign
    assert all(cell.recommendation.details["comparison"] == [] for cell in first.cells if cell.recommendation)
    before = _n_trials(out)
    kept = before["prices-n30-d8"]
    monkeypatch.setattr("archopt.campaign.grid.COMPARISON_SHARE", 0.7)  # of so few trials, to pay for one of two cells
    found = archopt.search_grid(table, [8], [30, 45], out=out, **{**OPTIONS, "n_trials": kept + 4})
    after = _n_trials(out)
    assert {name: after[name] for name in before} == before
    assert after["prices-n45-d8"] == 4
    assert [cell.n_trials for cell in found.cells] == [kept, 4]
    compared = [len(cell.recommendation.details["comparison"]) for cell in found.cells if cell.recommendation]
    assert sum(n > 0 for n in compared) == 1
    (without,) = (
        cell.recommendation
        for cell in found.cells
        if cell.recommendation and not cell.recommendation.details["comparison"]
    )
    assert any("to keep within the campaign's budget" in caveat for caveat in without.caveats)

    # the table of the campaign is of all its cells
    every, _ = load_campaign_cells(f"sqlite:///{out / 'study.db'}", "prices")
    assert set(zip(every.n_samples, every.d_model, strict=True)) == {*CELLS, (45, 8)}


def test_an_interrupt_keeps_what_finished(table: Path, tmp_path: Path) -> None:
    line = (
        f"-m archopt search {table} --target price --d-model 8,12 --samples 30,60 --steps 10 --workers 1 --trials 300"
    )
    process = subprocess.Popen(
        [sys.executable, *line.split(), "--out", str(tmp_path), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60.0
    while time.monotonic() < end and not _finished(tmp_path, 1):
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    plain = json.loads(out)
    assert plain["search"]["interrupted"] is True
    assert plain["search"]["stopped_because"] == "it was interrupted; the same command goes on"
    assert plain["search"]["n_trials"] >= 1
    assert plain["frame"]
    reasons = [cell["reason"] for cell in plain["cells"] if cell["recommendation"] is None]
    assert all("it was interrupted" in reason for reason in reasons)
    trials = [trial for study in _studies(tmp_path).values() for trial in study.trials]
    assert not [trial for trial in trials if trial.state == optuna.trial.TrialState.RUNNING]


def _finished(out: Path, n: int) -> bool:
    try:
        states = [trial.state for study in _studies(out).values() for trial in study.trials]
    except Exception:
        return False  # the tables are being made
    return states.count(optuna.trial.TrialState.COMPLETE) >= n


def test_who_joins_finds_the_sizes_of_the_last_run_not_of_an_earlier_one(table: Path, tmp_path: Path) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "quiet"}
    for widths in ([8], [12, 16]):
        plan = plan_grid(str(table), widths, [30], {**options, "out": str(tmp_path)})
        runs = open_grid(plan, SearchProgress(quiet=True), time.monotonic())
        storage = runs[0].storage
        assert recorded_campaign(storage, "prices", storage.url)["d_models"] == widths
        assert recorded_campaign(storage, "prices-n30-d8", storage.url)["d_models"] == widths
        storage.remove_session()
        storage.engine.dispose()


@pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed to be used with")
def test_what_another_machine_trains_holds_up_no_turn_and_is_waited_for_at_the_end(table: Path, tmp_path: Path) -> None:
    options = {**OPTIONS, "n_trials": 8, "out": str(tmp_path)}
    plan = plan_grid(str(table), [8, 12], [30], {name: value for name, value in options.items() if name != "quiet"})
    runs = open_grid(plan, SearchProgress(quiet=True), time.monotonic())
    url, elsewhere = runs[0].storage.url, runs[0].study.ask(dict(runs[0].cell.distributions))
    names = [each.study.study_name for each in runs]

    def end_it_when_all_others_have_ended() -> None:
        storage = open_storage(url, locks=True)
        studies = [optuna.load_study(study_name=name, storage=storage) for name in names]
        while sum(count_trials(study).n_ended for study in studies) < 7:
            storage.record_heartbeat(elsewhere._trial_id)
            time.sleep(0.2)
        studies[0].tell(elsewhere.number, 500.0)
        storage.remove_session()
        storage.engine.dispose()

    other = threading.Thread(target=end_it_when_all_others_have_ended, daemon=True)
    other.start()
    found = archopt.search_grid(table, [8, 12], [30], **options)
    other.join()
    runs[0].storage.remove_session()
    runs[0].storage.engine.dispose()
    assert found.search["stopped_because"] == "the budget of 8 trials is spent"
    assert [cell.n_trials for cell in found.cells] == [4, 4]


def test_a_time_limit_is_the_whole_campaign_s(table: Path, tmp_path: Path) -> None:
    options = {**OPTIONS, "n_trials": None, "timeout_seconds": 5.0}
    begun = time.monotonic()
    found = archopt.search_grid(table, [8, 12], [30], out=tmp_path, **options)
    assert time.monotonic() - begun < 20  # the limit, and the reports on a busy machine
    assert found.search["stopped_because"] == "the time limit of 5 s is reached, with what comparisons may take"
    assert found.cells[0].recommendation is not None


def test_a_limit_that_nothing_meets_is_named(table: Path, tmp_path: Path) -> None:
    with pytest.raises(CampaignFailed, match=r"none of the first \d+ trials finished; .* s a step, above the limit"):
        archopt.search_grid(table, [8], [30], out=tmp_path, max_seconds_per_step=1e-9, **OPTIONS)


@pytest.mark.parametrize(
    ("d_models", "n_samples", "options", "error", "match"),
    [
        ([8], [900, 800], {}, OptionError, r"no cell can be searched: D = 8 at n = 800: 800 training rows .*; .* 900"),
        ([7, 11], [30], {}, OptionError, "no cell can be searched: .* d_model = 7 .*; .* d_model = 11"),
        ([8, 12], [30], {"target": "prize"}, archopt.ArchoptError, "'prize'"),
        ([9, 12], [30], {"head_dim_multiple_of": 5}, OptionError, "no cell can be searched: .* = 9 .*; .* = 12 "),
        ([24, 0], [30, 60], {}, AllocationError, "d_model must be a whole number of at least 1 but got 0"),
        ([9], [30, 60], {"head_dim_multiple_of": 5}, AllocationError, "^no split of d_model = 9 has head_dim"),
        ([], [30], {}, OptionError, "at least one width"),
        ([8], [30, -3], {}, OptionError, "n_samples must be a whole number from 1 to .* but got -3"),
        ([8], [30, 2.5], {}, OptionError, "n_samples must be whole numbers but got '2.5'"),
        ([8, 12], [30], {"name": "n" * 80}, OptionError, "at most 75 characters but got 80"),
    ],
)
def test_bad_grids_are_one_line_and_nothing_is_written(
    table: Path,
    tmp_path: Path,
    d_models: list[int],
    n_samples: list[Any],
    options: dict[str, Any],
    error: type[Exception],
    match: str,
) -> None:
    with pytest.raises(error, match=match) as caught:
        archopt.search_grid(table, d_models, n_samples, out=tmp_path / "new", **{**OPTIONS, **options})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_options_are_those_of_a_search() -> None:
    assert set(SearchOptions.__annotations__) == {field.name for field in fields(Settings)} - {
        "data",
        "d_model",
        "n_samples",
    }


def test_a_smaller_n_is_part_of_a_larger_one(table: Path, tmp_path: Path) -> None:
    small, large = (load_dataset(table, target="price", n_samples=n, seed=3) for n in (30, 60))
    # each n scales its inputs by its own rows, so that the targets say which rows these are
    unscaled = [data.train.targets * data.target_scale + data.target_mean for data in (small, large)]
    np.testing.assert_allclose(unscaled[0], unscaled[1][:30], rtol=1e-4)
    np.testing.assert_allclose(
        *(data.valid.targets * data.target_scale + data.target_mean for data in (small, large)), rtol=1e-4
    )

    path = tmp_path / "corpus.txt"
    path.write_bytes(np.random.default_rng(0).integers(97, 123, 100_000, dtype=np.uint8).tobytes())
    few, many = (load_dataset(path, n_samples=n) for n in (20_000, 50_000))
    assert few.train.tobytes() == many.train.tobytes()[:20_000]
    assert few.valid.tobytes() == many.valid.tobytes()


def test_a_campaign_that_no_storage_holds(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'none.db'}"
    with pytest.raises(StorageError, match="does not exist"):
        load_campaign_cells(url, "prices")
    assert not (tmp_path / "none.db").exists()
    optuna.create_study(study_name="other-n10-d4", storage=url)
    optuna.create_study(study_name="unrelated", storage=url)
    with pytest.raises(StorageError, match="has no campaign 'prices' over several sizes; it has 'other'"):
        load_campaign_cells(url, "prices")
    assert load_campaign_cells(url, "other")[0].empty
