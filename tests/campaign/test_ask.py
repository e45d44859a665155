"""Studies that are asked for configurations, by one process or by many."""

import json
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import optuna
import pytest

from archopt.allocation import HeadAllocation
from archopt.campaign.ask import ASKED_KEY, ask
from archopt.campaign.storage import SETTINGS_KEY
from archopt.campaign.tell import News, tell
from archopt.errors import AllocationError, OptionError, StorageError

N_PROCESSES, N_EACH = 4, 2


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'study.db'}"


def _load(url: str, name: str = "mine") -> optuna.Study:
    return optuna.load_study(study_name=name, storage=url)


def test_the_first_ask_makes_the_study_and_later_ones_need_only_its_name(url: str) -> None:
    options = {"d_model": 24, "samples": 1e4, "heads_multiple_of": 2, "param": ("dropout=0,0.1", "rate=1e-4:1e-2:log")}
    first = ask(url, "mine", direction="maximize", **options)
    second = ask(url, "mine")
    assert (first.trial, second.trial) == (0, 1)
    for asked in (first, second):
        assert list(asked.params) == ["n_heads", "dropout", "rate"]
        assert asked.allocation == HeadAllocation(asked.params["n_heads"], 24 // asked.params["n_heads"])
        assert asked.allocation.n_heads % 2 == 0
        assert json.loads(json.dumps(asked.to_dict()))["params"] == asked.params
    study = _load(url)
    assert study.direction.name == "MAXIMIZE"
    assert study.trials[1].distributions["rate"] == optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True)
    assert ask(url, "mine", **options).trial == 2  # the same again is no conflict


def test_draws_depend_on_seed_and_trial_number(tmp_path: Path) -> None:
    def drawn(file: str, seed: int) -> list[object]:
        url = f"sqlite:///{tmp_path / file}"
        return [ask(url, "mine", d_model=24, seed=seed, param=("rate=0:1",)).params["rate"] for _ in range(2)]

    assert drawn("one.db", 1) == drawn("same.db", 1)
    assert drawn("one.db", 1) != drawn("other.db", 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"d_model": 48}, r"started with --d-model 24, not --d-model 48: leave --d-model out"),
        ({"samples": 1e5}, r"--samples 10000, not --samples 100000"),
        ({"family": "text"}, r"no --family, not --family text"),
        ({"seed": 1}, r"--seed 0, not --seed 1"),
        ({"direction": "maximize"}, r"direction minimize, not maximize"),
        ({"param": ("dropout=0,0.2",)}, r"--param dropout=0,0.1, not --param dropout=0,0.2"),
        ({"head_dim_multiple_of": 2}, r"--head-dim-multiple-of 1, not"),
    ],
)
def test_other_options_are_refused_with_what_differs(url: str, options: dict[str, object], said: str) -> None:
    ask(url, "mine", d_model=24, samples=1e4, param=("dropout=0,0.1",))
    with pytest.raises(OptionError, match=said):
        ask(url, "mine", **options)
    assert ask(url, "mine", param=("dropout=0,0.10",)).trial == 1  # spelled otherwise, and nothing was asked above


def test_a_mistake_makes_no_file(tmp_path: Path, url: str) -> None:
    for options, error in (
        ({}, OptionError),
        ({"d_model": 60, "head_dim_min": 8, "head_dim_max": 9}, AllocationError),
        ({"d_model": 24, "param": ("a=1", "a=2")}, OptionError),
        ({"d_model": 24, "direction": "up"}, OptionError),
        ({"d_model": 24, "family": "image"}, OptionError),
    ):
        with pytest.raises(error):
            ask(url, "mine", **options)
    with pytest.raises(OptionError, match="1 to 200 characters"):
        ask(url, "", d_model=24)
    with pytest.raises(OptionError, match="gone when ask ends"):
        ask("sqlite://", "mine", d_model=24)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("recorded", [3, "x", [], {}, {"param": [], "d_model": "x"}, {"param": [], "width": 8}])
def test_what_another_version_asked_for_says_so(url: str, recorded: object) -> None:
    study = optuna.create_study(study_name="mine", storage=url)
    study.set_user_attr(ASKED_KEY, recorded)
    for options in ({}, {"d_model": 24}):
        with pytest.raises(StorageError, match=r"study 'mine' was begun by another version .*'archopt:asked'"):
            ask(url, "mine", **options)


def test_studies_that_others_run_are_refused(url: str) -> None:
    campaign = optuna.create_study(study_name="campaign", storage=url)
    campaign.set_user_attr(SETTINGS_KEY, {})
    theirs = optuna.create_study(study_name="theirs", storage=url)
    theirs.optimize(lambda trial: trial.suggest_int("n_heads", 1, 8), n_trials=1)
    optuna.create_study(study_name="two", storage=url, directions=["minimize", "minimize"])
    optuna.create_study(study_name="empty", storage=url, direction="maximize")
    for name, said in (
        ("campaign", "a campaign of `archopt search`"),
        ("theirs", "trials that were not asked for here"),
        ("two", "several objectives"),
    ):
        with pytest.raises(OptionError, match=said):
            ask(url, name, d_model=24)
    with pytest.raises(OptionError, match="it has campaign, theirs, two, empty; the first ask makes the study"):
        ask(url, "thiers")
    with pytest.raises(OptionError, match="not asked before: give --d-model"):
        ask(url, "empty")
    ask(url, "empty", d_model=24)  # it keeps its direction
    assert _load(url, "empty").direction.name == "MAXIMIZE"


def test_replicates_count_up_and_an_unanswered_trial_holds_nothing_up(url: str) -> None:
    """D = 2 has two splits; the third ask must repeat one, while nothing has been told."""
    begun = time.monotonic()
    runs = [ask(url, "mine", d_model=2) for _ in range(5)]
    assert time.monotonic() - begun < 4.0  # a claim that is waited for takes 5 s
    assert len({(run.allocation, run.replicate) for run in runs}) == 5
    assert max(run.replicate for run in runs) >= 2


def test_what_is_queued_comes_first_where_it_is_a_choice(url: str) -> None:
    ask(url, "mine", d_model=12)
    study = _load(url)
    study.enqueue_trial({"n_heads": 5})
    study.enqueue_trial({"n_heads": 6})
    with pytest.raises(OptionError, match=r"queued in study 'mine' is no choice here \('5' not in .*\): ask again"):
        ask(url, "mine")
    asked = ask(url, "mine")
    assert (asked.trial, asked.allocation) == (2, HeadAllocation(6, 2))
    unfit = _load(url).trials[1]
    assert (unfit.state.name, unfit.user_attrs["archopt:fault"]) == ("FAIL", "interrupted")  # nobody waits for it


def test_a_queued_trial_goes_to_one_of_those_who_ask_at_once(url: str) -> None:
    """SQLite has no row locks: before each transaction took the file's, two of 24 or so got the same trial."""
    ask(url, "mine", d_model=8)
    study = _load(url)
    for number in range(24):
        study.enqueue_trial({"n_heads": 2 ** (number % 4)})
    with ThreadPoolExecutor(6) as pool:
        asked = list(pool.map(lambda _: ask(url, "mine"), range(24)))
    assert sorted(each.trial for each in asked) == list(range(1, 25))


def test_an_asked_trial_is_never_taken_for_dead(url: str) -> None:
    asked = ask(url, "mine", d_model=24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        storage = optuna.storages.RDBStorage(
            url,
            heartbeat_interval=1,
            grace_period=1,
            heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(),
        )
        study = optuna.load_study(study_name="mine", storage=storage)
        number = storage.create_new_trial(study._study_id)
        storage.record_heartbeat(number)  # of a process that then dies
        time.sleep(2.5)
        study.optimize(lambda trial: trial.suggest_categorical("n_heads", [1, 2, 3, 4, 6, 8, 12, 24]), n_trials=1)
    states = [trial.state.name for trial in study.trials]
    assert states[:2] == ["RUNNING", "FAIL"]
    assert tell(url, "mine", asked.trial, News(value=1.0)).state == "complete"


CODE = f"""
import contextlib, io, json, sys
from archopt.cli import run

def call(command, *options):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run([command, "--storage", sys.argv[1], "--study", "mine", *options]) == 0
    return json.loads(printed.getvalue())

asked = [call("ask", "--d-model", "12", "--param", "rate=0.001,0.01") for _ in range({N_EACH})]
for number in (str(each["trial"]) for each in asked):
    call("tell", "--trial", number, "--at", "10=" + number)
    call("tell", "--trial", number, "--value", number)
print(json.dumps(asked))
"""


def test_processes_that_ask_at_once_get_different_runs_and_all_that_they_tell_is_kept(url: str) -> None:
    """Also the storage and the study are made by all of them at once."""
    processes = [
        subprocess.Popen([sys.executable, "-c", CODE, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(N_PROCESSES)
    ]
    printed = [process.communicate(timeout=120) for process in processes]
    assert [errors for _, errors in printed] == [""] * N_PROCESSES
    assert [process.returncode for process in processes] == [0] * N_PROCESSES
    asked = [each for out, _ in printed for each in json.loads(out)]
    numbers = list(range(N_PROCESSES * N_EACH))
    assert sorted(each["trial"] for each in asked) == numbers
    runs = {(each["params"]["n_heads"], each["params"]["rate"], each["replicate"]) for each in asked}
    assert len(runs) == len(numbers)
    trials = _load(url).trials
    assert [(trial.value, trial.intermediate_values) for trial in trials] == [(n, {10: n}) for n in numbers]
    assert {(t.params["n_heads"], t.params["rate"], t.user_attrs["archopt:replicate"]) for t in trials} == runs


def test_asking_needs_no_torch_and_little_time(url: str) -> None:
    ask(url, "mine", d_model=24)
    code = (
        "import sys, time; from archopt.cli import run\n"
        "code = run(['ask', '--storage', sys.argv[1], '--study', 'mine'])\n"
        "code += run(['tell', '--storage', sys.argv[1], '--study', 'mine', '--trial', '1', '--value', '1'])\n"
        "print(code, [m for m in ('torch', 'pandas', 'sklearn', 'plotly') if m in sys.modules], time.process_time())"
    )
    result = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60, check=True)
    *_, last = result.stdout.splitlines()
    assert last.startswith("0 [] ")
    assert float(last.split()[-1]) < 4.0  # processor seconds: 1.3 where this was written
