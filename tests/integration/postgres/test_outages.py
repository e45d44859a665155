"""PostgreSQL that goes away in mid-campaign: what trains waits for it, and goes on."""

import json
import signal
import time
from typing import Any

import pytest

pytestmark = pytest.mark.torch

AWAY = "the storage cannot be reached: waiting, for 300 s at most"


def _search(start: Any, url: str, n_trials: int, **constants: Any) -> Any:
    options = ("--d-model", "12", "--steps", "40", "--trials", str(n_trials), "--workers", "1", "--json")
    return start("search", "sklearn:iris", *options, "--storage", url, "--name", "outage", **constants)


def _join(start: Any, url: str, *options: str, **constants: Any) -> Any:
    return start("worker", "--storage", url, "--name", "outage", "--workers", "1", *options, **constants)


def _n_complete(trials_of: Any, url: str) -> int:
    return sum(state == "COMPLETE" for _, state, _ in trials_of(url, "outage"))


@pytest.mark.parametrize("seconds", [5.0, pytest.param(20.0, marks=pytest.mark.slow)])
def test_search_and_worker_wait_reconnect_and_finish(
    seconds: float, server: Any, database: str, start: Any, wait_for: Any, trials_of: Any
) -> None:
    search = _search(start, database, 25)
    wait_for(lambda: _n_complete(trials_of, database) >= 3)
    worker = _join(start, database, "--json")
    wait_for(lambda: worker.said("joined campaign outage"))
    before = {number: value for number, state, value in trials_of(database, "outage") if state == "COMPLETE"}
    server.stop()
    time.sleep(seconds)
    server.start()
    assert (search.wait(), worker.wait()) == (0, 0), search.stderr() + worker.stderr()
    for command in (search, worker):
        assert command.said(AWAY), command.stderr()
        assert command.said("the storage is back"), command.stderr()
        assert command.stderr().count("cannot be reached") == command.stderr().count("is back")
    trials = trials_of(database, "outage")
    assert before.items() <= {number: value for number, _, value in trials}.items()
    assert {state for _, state, _ in trials} <= {"COMPLETE", "PRUNED", "FAIL"}  # the last of what was dropped meanwhile
    assert sum(state in ("COMPLETE", "PRUNED") for _, state, _ in trials) >= 25
    assert json.loads(search.stdout())["search"]["stopped_because"].startswith(("the budget of 25", "certain enough"))
    assert json.loads(worker.stdout())["n_trials"] > 0


def test_an_outage_that_lasts_too_long_is_one_line_and_the_same_command_goes_on(
    server: Any, database: str, start: Any, wait_for: Any, trials_of: Any
) -> None:
    search = _search(start, database, 12, **{"patient_storage:MAX_OUTAGE_SECONDS": 2})
    wait_for(lambda: _n_complete(trials_of, database) >= 2)
    worker = _join(start, database, **{"patient_storage:MAX_OUTAGE_SECONDS": 2})
    wait_for(lambda: worker.said("joined campaign outage"))
    before = trials_of(database, "outage")
    server.stop()
    began = time.monotonic()
    assert (search.wait(), worker.wait()) == (1, 1), search.stderr() + worker.stderr()
    assert time.monotonic() - began < 20.0  # once, not again for what is left to write
    server.start()
    for command in (search, worker):
        (line,) = [line for line in command.stderr().splitlines() if line.startswith("archopt: ")]
        assert "every finished trial is kept" in line
        assert "run the same command again" in line
        assert len(line) < 300
        assert "Traceback" not in command.stderr()
        assert "[SQL" not in command.stderr()
    again = _search(start, database, 12)
    assert again.wait() == 0, again.stderr()
    after = trials_of(database, "outage")
    assert {trial for trial in before if trial[1] == "COMPLETE"} <= set(after)
    assert "RUNNING" not in {state for _, state, _ in after}


def test_a_second_ctrl_c_ends_the_waiting(
    server: Any, database: str, start: Any, wait_for: Any, trials_of: Any
) -> None:
    search = _search(start, database, 40)
    wait_for(lambda: _n_complete(trials_of, database) >= 2)
    server.stop()
    try:
        wait_for(lambda: search.said(AWAY))
        search.process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        search.process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert search.wait() in (1, 130)
        assert time.monotonic() - began < 15.0
        assert "Traceback" not in search.stderr()
    finally:
        server.start()
