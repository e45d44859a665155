"""A campaign is watched through its storage alone."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution

import archopt
from archopt.campaign import watch
from archopt.campaign.joining import CAMPAIGN_KEY
from archopt.campaign.presence import PRESENCE_KEY, Presence, workers_of
from archopt.campaign.storage import SETTINGS_KEY, SPENT_KEY, STOPPED_KEY
from archopt.campaign.watch import CampaignView, watch_campaign
from archopt.cli import run
from archopt.errors import CampaignFailed, StorageError

DISTRIBUTIONS = {
    "n_heads": CategoricalDistribution([1, 2, 4, 8]),
    "learning_rate": CategoricalDistribution([0.01, 0.03]),
}
SETTINGS = {"data": "t.csv", "d_model": 8, "n_trials": 40, "timeout_seconds": None, "confidence": 0.9, "replicates": 1}
ENDED = {"limits": [40, None, 0.9, 1], "because": "the budget of 40 trials is spent"}


def a_trial(n_heads: int, value: float | None, **more):
    state = optuna.trial.TrialState.COMPLETE if value is not None else optuna.trial.TrialState.FAIL
    return optuna.create_trial(
        params={"n_heads": n_heads, "learning_rate": 0.01},
        distributions=DISTRIBUTIONS,
        value=value,
        state=more.pop("state", state),
        user_attrs=more,
    )


def a_study(url: str, name: str, campaign: str, d_models=(), n_samples=()) -> optuna.Study:
    study = optuna.create_study(study_name=name, storage=url)
    study.set_user_attr(SETTINGS_KEY, {"d_model": 8})
    recorded = {"campaign": campaign, "settings": SETTINGS, "d_models": list(d_models), "n_samples": list(n_samples)}
    study.set_user_attr(CAMPAIGN_KEY, recorded)
    study.set_user_attr(SPENT_KEY, 12.5)
    return study


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'study.db'}"


@pytest.fixture
def study(url: str) -> optuna.Study:
    return a_study(url, "t", "t")


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "REFRESH_SECONDS", 0.02)
    monkeypatch.setattr("archopt.campaign.joining.LOOK_SECONDS", 0.0)


def test_one_look_says_what_a_search_would_and_writes_nothing(url, study, tmp_path, capfd):
    for n_heads, value in [(1, 0.30), (2, 0.20), (4, 0.21), (2, 0.19), (8, 0.5), (1, 0.31)]:
        study.add_trial(a_trial(n_heads, value))
    study.add_trial(a_trial(8, None, **{"archopt:fault": "diverged"}))
    study.add_trial(a_trial(8, None, **{"archopt:fault": "interrupted"}))
    before = (tmp_path / "study.db").read_bytes()
    assert run(["watch", "t", "--storage", url, "--once", "--json"]) == 0
    said = capfd.readouterr()
    found = json.loads(said.out)
    assert said.err == ""
    assert (found["schema"], found["campaign"], found["over"]) == ("archopt.watch/1", "t", False)
    assert (found["n_finished"], found["n_pruned"], found["n_failed"], found["n_running"]) == (6, 0, 1, 0)
    best = archopt.recommend(study, d_model=8)
    assert found["allocation"] == {"n_heads": best.allocation.n_heads, "head_dim": best.allocation.head_dim}
    assert found["p_best"] == best.p_best
    assert found["elapsed_seconds"] == 12.5
    assert found["seconds_left"] == pytest.approx((40 - 7) * 12.5 / 7)
    assert [trial["state"] for trial in found["latest"]] == [
        "interrupted",
        "failed",
        "finished",
        "finished",
        "finished",
    ]
    assert (tmp_path / "study.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]


def test_a_look_is_readable(url, study, capfd):
    study.add_trial(a_trial(2, 0.2))
    assert run(["watch", "t", "--storage", url, "--once"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] == ["campaign t", "1 of 40 trials"]
    assert lines[2].startswith("current best 2 heads x 4, best with ")
    assert lines[4:] == ["no process trains for it at the moment", "trial 0: 2 heads x 4, 0.2 in 0 s"]


def test_it_waits_where_no_trial_exists_yet_and_ends_with_the_campaign(url, study, fast, capfd, monkeypatch):
    looks = iter(
        [
            lambda: None,
            lambda: study.add_trial(a_trial(2, 0.2)),
            lambda: study.add_trial(a_trial(4, 0.1)),
            lambda: study.set_user_attr(STOPPED_KEY, ENDED),
        ]
    )
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: next(looks)())
    assert run(["watch", "t", "--storage", url]) == 0
    said = capfd.readouterr()
    assert said.out == "Campaign t: the campaign is over: the budget of 40 trials is spent\n"
    assert "archopt watch t: 0 of 40 trials; no trial has finished yet" in said.err
    assert "no process trains for this campaign at the moment" in said.err
    assert "2 of 40 trials" in said.err.splitlines()[-1]


def test_quiet_says_nothing_and_json_is_one_object(url, study, fast, capfd):
    study.set_user_attr(STOPPED_KEY, ENDED)
    assert run(["watch", "t", "--storage", url, "--quiet", "--json"]) == 0
    said = capfd.readouterr()
    assert (json.loads(said.out)["because"], said.err) == ("the campaign is over: the budget of 40 trials is spent", "")


def test_an_end_with_other_limits_is_none(url, study, fast, monkeypatch):
    study.set_user_attr(STOPPED_KEY, {**ENDED, "limits": [20, None, 0.9, 1]})
    monkeypatch.setattr("archopt.campaign.joining.SILENT_SECONDS", 0.1)
    with pytest.raises(CampaignFailed, match="no search has run this campaign"):
        watch_campaign(url, "t", quiet=True)


def test_several_sizes_are_one_campaign(url):
    for n in (100, 300):
        a_study(url, f"g-n{n}-d8", "g", [8], [100, 300])
    small, large = (optuna.load_study(study_name=f"g-n{n}-d8", storage=url) for n in (100, 300))
    small.add_trial(a_trial(2, 0.2))
    small.add_trial(a_trial(4, 0.3))
    seen = watch_campaign(url, "g", once=True)
    assert (seen.state.n_cells, seen.state.n_cells_answered, seen.state.n_ended) == (2, 1, 2)
    assert seen.state.elapsed_seconds == 25.0
    large.add_trial(a_trial(8, 0.1))
    found = watch_campaign(url, "g", once=True).to_dict()
    assert [(cell["n_samples"], cell["d_model"], cell["n_finished"]) for cell in found["cells"]] == [
        (100, 8, 2),
        (300, 8, 1),
    ]
    assert all(cell["p_best"] is not None for cell in found["cells"])
    assert found["latest"][0]["cell"] == "n = 300, D = 8"


def test_cells_that_come_later_are_found(url):
    a_study(url, "g-n100-d8", "g", [8], [100, 300])
    view = CampaignView.of(watch.open_to_read(url), "g", url)
    assert view.read().n_cells == 1
    a_study(url, "g-n300-d8", "g", [8], [100, 300])
    assert view.read().n_cells == 2


def test_only_what_is_new_is_read(url, study, monkeypatch):
    for _ in range(30):
        study.add_trial(a_trial(2, 0.2))
    view = CampaignView.of(watch.open_to_read(url), "t", url)
    view.read()
    read = []
    backend = type(view.storage)
    plain = backend._get_trials

    def counted(self, *arguments, **options):
        trials = plain(self, *arguments, **options)
        read.append(len(trials))
        return trials

    monkeypatch.setattr(backend, "_get_trials", counted)
    view.read()
    study.add_trial(a_trial(4, 0.1))
    state = view.read()
    assert (sum(read), state.n_ended) == (1, 31)


def test_a_file_that_is_taken_away_is_not_made_anew(url, study, tmp_path):
    view = CampaignView.of(watch.open_to_read(url), "t", url)
    view.read()
    (tmp_path / "study.db").unlink()
    with pytest.raises(StorageError, match="does not exist"):
        view.read()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["t"], "there is no campaign 't' in archopt-results here: give its --storage"),
        (["t", "--storage", "sqlite:///none.db"], "does not exist"),
        (["t", "--storage", "postgresql+psycopg://me:geheim@127.0.0.1:1/x"], "me:***@127.0.0.1:1/x"),
        (["[red]x\x1b[2J", "--storage", "sqlite:///none.db"], "does not exist"),
    ],
)
def test_what_is_not_there_is_said_in_one_line_and_not_made(arguments, said, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run(["watch", *arguments]) == 2
    line = capfd.readouterr().err
    assert said in line
    assert line.count("\n") == 1
    assert "geheim" not in line
    assert list(tmp_path.iterdir()) == []


def test_another_name_is_refused_with_those_that_are_there(url, study, capfd):
    assert run(["watch", "other", "--storage", url]) == 2
    assert "holds no campaign 'other'; its studies: 't'" in capfd.readouterr().err


def test_signs_of_life_of_all_machines_are_read(url, study):
    now = time.time()
    signs = {
        "node7:1": {"n_processes": 16, "seen": now - 20},
        "node8:1": {"n_processes": 16, "seen": now - 200},  # it died
        "node9:1": {"n_processes": 0, "seen": now},  # it left
    }
    for key, sign in signs.items():
        host, pid = key.split(":")
        study.set_user_attr(
            f"{PRESENCE_KEY}{key}", {"host": host, "pid": int(pid), "n_running": 3, "n_ended": 5, **sign}
        )
    presence = Presence(2, [study])
    presence.show(study, n_running=1)
    workers = presence.workers()
    assert {(worker.n_processes, worker.here) for worker in workers} == {(16, False), (2, True)}
    presence.leave()
    assert [worker.host for worker in presence.workers()] == ["node7"]


def test_of_two_studies_the_later_sign_counts():
    key, sign = f"{PRESENCE_KEY}a:1", {"host": "a", "pid": 1, "n_running": 0, "n_ended": 0, "seen": 100.0}
    before, after = {key: {**sign, "n_processes": 2}}, {key: {**sign, "n_processes": 0, "seen": 101.0}}
    assert len(workers_of([before], now=102.0)) == 1
    assert workers_of([before, after], now=102.0) == workers_of([after, before], now=102.0) == ()


COMMAND = [sys.executable, "-m", "archopt", "watch", "t"]


def heed_ctrl_c() -> None:
    """In a new process: as from a terminal, also where the tests themselves run in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_with_130_and_one_line(url, study):
    watching = subprocess.Popen(
        [*COMMAND, "--storage", url],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c,
    )  # fmt: skip
    seen = ""
    while "waiting for one" not in seen:
        seen += watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    out, rest = watching.communicate(timeout=60)
    assert (watching.returncode, out) == (130, "")
    assert rest.splitlines()[-1] == "archopt: interrupted"
    assert "Traceback" not in rest


def on_a_terminal(command: list[str], *, columns: int, until: str, **environment: str) -> tuple[str, int]:
    """What a command draws on a terminal of that width, until it has drawn a text and is interrupted; its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.pop("CI", None)
        os.environ.update({"COLUMNS": str(columns), "LINES": "20", "TERM": "xterm", **environment})
        heed_ctrl_c()
        os.execv(command[0], command)
    drawn, patience = b"", time.monotonic() + 90
    interrupted = False
    while time.monotonic() < patience:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                drawn += os.read(terminal, 65536)
            except OSError:  # how Linux says that the other side has closed
                break
        if until in drawn.decode(errors="replace") and not interrupted:
            os.kill(pid, signal.SIGINT)
            interrupted = True
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return drawn.decode(), os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(("columns", "no_color"), [(40, ""), (100, "1")])
def test_a_terminal_gets_a_live_view_that_fits(url, study, columns, no_color):
    for n_heads in (1, 2, 4):
        study.add_trial(a_trial(n_heads, n_heads / 10))
    colors = {"NO_COLOR": no_color} if no_color else {}
    drawn, code = on_a_terminal([*COMMAND, "--storage", url], columns=columns, until="trial 2: 4 heads", **colors)
    assert code == 130
    assert "\x1b[?25h" in drawn  # the cursor is back
    assert "3 of 40 trials" in drawn
    assert bool(re.search(r"\x1b\[(\d+;)*[39]\d[m;]", drawn)) is not bool(no_color)
    view = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn[: drawn.index("\x1b[?25h")])
    assert max(len(line.rstrip()) for line in re.split(r"[\r\n]+", view)) <= columns


def test_a_dumb_terminal_gets_plain_lines(url, study):
    drawn, code = on_a_terminal([*COMMAND, "--storage", url], columns=80, until="waiting for one", TERM="dumb")
    assert (code, "\x1b" in drawn) == (130, False)
    assert "archopt watch t: 0 of 40 trials; no trial has finished yet" in drawn
