"""Whole searches on small budgets: result, resume, reproducibility, faults, interruption, a full disk."""

import csv
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import archopt
from archopt.campaign import stale
from archopt.campaign.reporting import report
from archopt.campaign.storage import STOPPED_KEY
from archopt.cli import run
from archopt.errors import CampaignFailed, OptionError, StorageError
from archopt.search_space import ATTRIBUTES

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]

STUDY_COLUMNS = ("params", "values", "state", "intermediate_values")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "prices.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["area", "age", "town", "price"])
        for _ in range(120):
            area, age, town = rng.uniform(20, 200), rng.uniform(0, 80), rng.choice(["north", "south", ""])
            writer.writerow([f"{area:.1f}", f"{age:.0f}", town, f"{area * 30 - age * 10 + rng.normal(0, 50):.1f}"])
    return path


def _search(table: Path, out: Path, **options: Any) -> archopt.Recommendation:
    defaults: dict[str, Any] = {"target": "price", "n_trials": 10, "n_steps": 20, "n_workers": 1, "quiet": True}
    return archopt.search(table, 8, out=out, **{**defaults, **options})


def _trials(out: Path, name: str = "prices-d8") -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=name, storage=f"sqlite:///{out / 'study.db'}").trials


def test_result_files_resume_and_reproducibility(table: Path, tmp_path: Path) -> None:
    first = _search(table, tmp_path / "a")
    assert first.allocation in archopt.feasible_allocations(8)
    stored = json.loads((tmp_path / "a" / "recommendation.json").read_text())
    assert stored["allocation"] == {"n_heads": first.allocation.n_heads, "head_dim": first.allocation.head_dim}
    assert stored["search"]["stopped_because"] == "the budget of 10 trials is spent"
    assert stored["search"]["complete"] + stored["search"]["pruned"] == 10
    assert {row["label"].split(",")[0] for row in stored["comparison"]} >= {"recommended"}
    assert all(row["n"] == 3 for row in stored["comparison"])
    assert any("small proxy" in caveat for caveat in stored["caveats"])
    with open(tmp_path / "a" / "trials.csv", encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) == 10
    assert (tmp_path / "a" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "a" / "figures" / "loss-head-dim.png").stat().st_size > 10_000

    # the storage alone gives the same report: everything but where it lies
    url = f"sqlite:///{tmp_path / 'a' / 'study.db'}"
    written = report("prices-d8", storage=url, out=tmp_path / "elsewhere", pictures=False)
    assert {**written.answer, "search": None} == {**stored, "search": None}
    del stored["search"]["folder"]
    assert written.answer["search"] == stored["search"]
    assert written.files[0].read_text() == (tmp_path / "a" / "report.html").read_text()

    # the same call again: nothing is trained, the same answer comes back
    again = _search(table, tmp_path / "a")
    assert len(_trials(tmp_path / "a")) == 10
    assert (again.allocation, again.p_best) == (first.allocation, first.p_best)
    assert again.details["comparison"] == first.details["comparison"]

    # a larger budget goes on from there
    _search(table, tmp_path / "a", n_trials=13)
    assert len(_trials(tmp_path / "a")) == 13

    # one worker and a trial budget: bit for bit the same search, also when it was done in two goes
    _search(table, tmp_path / "b", n_trials=13)
    for one, other in zip(_trials(tmp_path / "a"), _trials(tmp_path / "b"), strict=True):
        assert all(getattr(one, column) == getattr(other, column) for column in STUDY_COLUMNS)

    # what was resolved by default counts as given: it is the same campaign, and had come to its end
    assert _search(table, tmp_path / "b", n_trials=13, metric="rmse", device="cpu").details["metric"] == "rmse"
    study = optuna.load_study(study_name="prices-d8", storage=f"sqlite:///{tmp_path / 'b' / 'study.db'}")
    assert len(study.trials) == 13
    assert study.user_attrs[STOPPED_KEY]["limits"] == [13, None, 0.9, 1]

    # other settings under the same name are refused, by name
    with pytest.raises(StorageError, match=r"exists with other settings \(seed was 0, now 1\)"):
        _search(table, tmp_path / "a", seed=1)


def test_the_first_trials_tune_what_people_do_today(table: Path, tmp_path: Path) -> None:
    found = _search(table, tmp_path, n_trials=8, weighting="geometric,fibonacci")
    # D = 8: eight heads of 1 and one head of 8 are today's practices; each at four learning rates
    first = {(t.params["n_heads"], t.params["weighting"], t.params["learning_rate"]) for t in _trials(tmp_path)}
    assert len(first) == 8
    assert {(n_heads, weighting) for n_heads, weighting, _ in first} == {(8, "geometric"), (1, "geometric")}
    labels = {row["label"]: row["allocation"] for row in found.details["comparison"]}
    assert any("8 heads" in label and split == {"n_heads": 8, "head_dim": 1} for label, split in labels.items())


def test_weight_decay_and_warm_up_are_searched_where_several_are_given(table: Path, tmp_path: Path) -> None:
    found = _search(table, tmp_path, n_trials=8, weight_decay="0.1,1,3", warmup=[0, 0.2], learning_rate=0.01)
    trials = _trials(tmp_path)
    assert {tuple(t.params) for t in trials} == {
        ("n_heads", "weighting", "decorrelation", "learning_rate", "weight_decay", "warmup")
    }
    # practices open the campaign with the usual values, a decay of 1 and a warm-up of a twentieth, or what is nearest
    assert {(t.params["weight_decay"], t.params["warmup"]) for t in trials[:2]} == {(1.0, 0.0)}
    assert len({(t.params["weight_decay"], t.params["warmup"]) for t in trials}) > 1
    assert {t.params["learning_rate"] for t in trials} == {0.01}
    assert set(found.params) == set(trials[0].params)
    with open(tmp_path / "trials.csv", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["weight_decay"]) for row in rows] == [t.params["weight_decay"] for t in trials]
    with pytest.raises(StorageError, match="exists with other settings \\(tuned was"):
        _search(table, tmp_path, n_trials=8, weight_decay="0.1,1", warmup=[0, 0.2], learning_rate=0.01)


def test_one_weight_decay_for_all_is_no_parameter(table: Path, tmp_path: Path) -> None:
    found = _search(table, tmp_path, n_trials=2, weight_decay=0.3, warmup=0.5, learning_rate="0.01,0.03")
    assert (found.details["settings"]["weight_decay"], found.details["settings"]["warmup_steps"]) == (0.3, 10)
    assert set(_trials(tmp_path)[0].params) == {"n_heads", "weighting", "decorrelation", "learning_rate"}


def test_more_configurations_than_can_be_modelled_are_refused(table: Path, tmp_path: Path) -> None:
    many = [0.1 * k for k in range(1, 10)]
    # 4 splits x 4 weightings x 2 decorrelations x 4 rates x 9 decays
    with pytest.raises(OptionError, match="1,152 configurations are more than the 1,000 that can be modelled"):
        _search(table, tmp_path / "new", weight_decay=many)
    assert not (tmp_path / "new").exists()


def test_every_rung_is_a_row(table: Path, tmp_path: Path) -> None:
    _search(table, tmp_path, n_trials=4)
    with open(tmp_path / "rungs.csv", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for trial in _trials(tmp_path):
        own = [row for row in rows if int(row["number"]) == trial.number]
        assert {int(row["step"]): float(row["value"]) for row in own} == trial.intermediate_values
        seconds = [float(row["train_seconds"]) for row in own]
        assert seconds == sorted(seconds)
        # 120 rows: 72 to train on, of which a step takes half as queries
        assert [int(row["n_seen"]) for row in own] == [36 * int(row["step"]) for row in own]
        for row in own:
            if trial.params["n_heads"] == 1:
                assert row["hdi"] == row["hdi_excess"] == row["output_correlation"] == ""
            else:  # a head of width d_k overlaps a random one by d_k / D
                assert float(row["hdi_excess"]) == pytest.approx(float(row["hdi"]) - (1 - 1 / trial.params["n_heads"]))


def test_optuna_s_own_tools_open_the_storage(table: Path, tmp_path: Path) -> None:
    found = _search(table, tmp_path, n_trials=4)
    assert any("not compared, since no trial of it with plain settings" in caveat for caveat in found.caveats)
    study = optuna.load_study(study_name="prices-d8", storage=f"sqlite:///{tmp_path / 'study.db'}")
    frame = study.trials_dataframe()
    assert {"params_n_heads", "params_weighting", "params_decorrelation", "params_learning_rate"} <= set(frame.columns)
    for draw in (optuna.visualization.plot_optimization_history, optuna.visualization.plot_intermediate_values):
        assert draw(study).data
    # and recommend reads it without being told the width
    assert archopt.recommend(study).allocation.d_model == 8


def test_replicates_and_constraints_are_kept(table: Path, tmp_path: Path) -> None:
    found = _search(table, tmp_path, n_trials=16, replicates=3, head_dim_multiple_of=2, weighting="uniform")
    assert all(e.allocation.head_dim % 2 == 0 for e in found.estimates)
    counts: dict[str, list[int]] = {}
    for trial in _trials(tmp_path):
        if trial.state == optuna.trial.TrialState.WAITING:
            continue  # queued, and the budget came first
        counts.setdefault(str(sorted(trial.params.items())), []).append(trial.user_attrs[ATTRIBUTES.replicate])
    assert sorted(len(seen) for seen in counts.values())[-1] >= 3
    assert all(sorted(seen) == list(range(len(seen))) for seen in counts.values())


def test_too_slow_allocations_are_infeasible(table: Path, tmp_path: Path) -> None:
    with pytest.raises(CampaignFailed, match=r"none of the first \d+ trials finished; .* s a step, above the limit"):
        _search(table, tmp_path, n_trials=40, max_seconds_per_step=1e-9)
    faults = {trial.user_attrs[ATTRIBUTES.fault] for trial in _trials(tmp_path)}
    assert faults == {"infeasible"}


def test_a_limit_that_nothing_meets_is_named_in_small_budgets_too(table: Path, tmp_path: Path) -> None:
    with pytest.raises(CampaignFailed, match=r"no trial finished .* a step, above the limit"):
        _search(table, tmp_path, n_trials=4, max_seconds_per_step=1e-9)


def test_a_time_limit_ends_it(table: Path, tmp_path: Path) -> None:
    begun = time.monotonic()
    found = _search(table, tmp_path, n_trials=None, timeout_seconds=6.0)
    assert time.monotonic() - begun < 30  # the limit, and the comparison on a busy machine
    assert (
        found.details["search"]["stopped_because"] == "the time limit of 6 s is reached, with what the comparison takes"
    )


def test_text(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"the quick brown fox jumps over the lazy dog; " * 400)
    found = archopt.search(path, 8, out=tmp_path / "out", n_trials=2, n_steps=10, n_workers=1, quiet=True)
    assert found.details["metric"] == "nats_per_byte"
    assert found.details["data"]["kind"] == "text"


def _command(table: Path, out: Path, *more: str) -> list[str]:
    line = [sys.executable, "-m", "archopt", "search", str(table), "--d-model", "8", "--target", "price"]
    return [*line, "--out", str(out), "--workers", "1", "--steps", "20", *more]


def _wait_for_trials(out: Path, count: int, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (out / "study.db").exists():
            with closing(sqlite3.connect(f"file:{out / 'study.db'}?mode=ro", uri=True)) as database:
                try:
                    (finished,) = database.execute("select count(*) from trials where state = 'COMPLETE'").fetchone()
                except sqlite3.OperationalError:
                    finished = 0  # the tables are being made
            if finished >= count:
                return
        time.sleep(0.2)
    raise AssertionError("the search did not get going")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_finished_and_prints_what_is_known(
    table: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        _command(table, tmp_path, "--trials", "500", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for_trials(tmp_path, 3)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    plain = json.loads(out)
    assert plain["search"]["interrupted"] is True
    finished = [trial for trial in _trials(tmp_path) if trial.state == optuna.trial.TrialState.COMPLETE]
    assert plain["search"]["complete"] == len(finished) >= 3
    assert not [trial for trial in _trials(tmp_path) if trial.state == optuna.trial.TrialState.RUNNING]
    # what was in training is no failure, and waits to be run again
    cut = [trial for trial in _trials(tmp_path) if trial.state == optuna.trial.TrialState.FAIL]
    assert (plain["search"]["failed"], plain["search"]["n_interrupted"]) == (0, len(cut))
    queued = [t.system_attrs["fixed_params"] for t in _trials(tmp_path) if t.state == optuna.trial.TrialState.WAITING]
    assert all(trial.params in queued for trial in cut)


def test_kill_9_loses_no_finished_trial_and_the_same_command_goes_on(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = subprocess.Popen(
        _command(table, tmp_path, "--trials", "500", "--quiet"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _wait_for_trials(tmp_path, 3)
    process.kill()
    process.wait()
    before = {t.number: t.values for t in _trials(tmp_path) if t.state == optuna.trial.TrialState.COMPLETE}
    monkeypatch.setattr(
        stale, "HEARTBEAT_SECONDS", 1
    )  # what was in training is waited for until it is known to be dead
    monkeypatch.setattr(stale, "GRACE_SECONDS", 4)
    found = _search(table, tmp_path, n_trials=len(before) + 2)
    after = {t.number: t.values for t in _trials(tmp_path) if t.state == optuna.trial.TrialState.COMPLETE}
    assert optuna.trial.TrialState.RUNNING not in {t.state for t in _trials(tmp_path)}
    assert {number: after[number] for number in before} == before
    assert found.details["search"]["complete"] >= len(before)


def test_a_full_disk_is_one_line_and_loses_no_finished_trial(table: Path, tmp_path: Path) -> None:
    def limit() -> None:
        # files may grow no further than this: what a full disk does to SQLite, without needing one
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    result = subprocess.run(
        _command(table, tmp_path, "--trials", "500", "--quiet"),
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert "every finished trial is kept" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert sum(trial.state == optuna.trial.TrialState.COMPLETE for trial in _trials(tmp_path)) >= 1


def test_a_trial_that_another_process_took_for_dead_does_not_end_the_search(table: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    failed = threading.Event()

    def fail_one() -> None:
        while not failed.wait(0.02):
            if not (tmp_path / "study.db").exists():
                continue
            try:
                storage = optuna.storages.RDBStorage(url)
                trials = optuna.load_study(study_name="prices-d8", storage=storage).trials
            except Exception:
                continue  # the tables are being made
            for trial in trials:
                if trial.state == optuna.trial.TrialState.RUNNING:
                    try:
                        storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
                    except optuna.exceptions.UpdateFinishedTrialError:
                        continue  # it finished since it was read: another one then
                    failed.set()
                    return

    other = threading.Thread(target=fail_one, daemon=True)
    other.start()
    found = _search(table, tmp_path, n_trials=4, n_steps=200)
    failed.set()
    other.join()
    assert found.details["search"]["complete"] + found.details["search"]["pruned"] == 4
    assert (found.details["search"]["failed"], found.details["search"]["n_interrupted"]) == (0, 1)


def test_a_trial_that_is_taken_for_dead_as_it_starts_does_not_end_the_search(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[int] = []

    def replicate_of_a_dead_trial(trial: optuna.Trial) -> int:
        if not failed:
            failed.append(trial.number)
            trial.storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
        return archopt.replicate(trial)

    monkeypatch.setattr("archopt.campaign.trials.replicate", replicate_of_a_dead_trial)
    found = _search(table, tmp_path, n_trials=4)
    assert failed == [0]
    assert found.details["search"]["complete"] + found.details["search"]["pruned"] == 4
    assert (found.details["search"]["failed"], found.details["search"]["n_interrupted"]) == (0, 1)


def test_results_that_cannot_be_written_are_returned_all_the_same(
    table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.html").mkdir()  # nothing can be put in its place
    (tmp_path / "report.html" / "file").write_text("")
    code = run(_command(table, tmp_path, "--trials", "2", "--quiet")[3:])
    out, err = capfd.readouterr()
    assert code == 1
    assert "Use " in out
    assert "Written to" not in out
    assert err.startswith("archopt: cannot write")
    assert len(err.strip().splitlines()) == 1


def test_two_searches_share_one_storage(table: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    lines = [
        [*_command(table, tmp_path / name, "--trials", "14", "--quiet", "--json"), "--storage", url, "--name", "shared"]
        for name in ("one", "two")
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) for line in lines
    ]
    results = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], results
    trials = [t for t in optuna.load_study(study_name="shared", storage=url).trials if t.state.is_finished()]
    keys = [(str(sorted(t.params.items())), t.user_attrs[ATTRIBUTES.replicate]) for t in trials]
    assert len(set(keys)) == len(keys)  # no replicate of a configuration was trained twice
