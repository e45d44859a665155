"""Processes that are killed at any moment: no finished trial is lost, and the campaign ends as if nothing had been."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

pytestmark = pytest.mark.torch

SEARCH = ("search", "sklearn:iris", "--d-model", "12", "--steps", "40", "--trials", "60", "--workers", "1", "--json")
LONGEST_LIFE_SECONDS = 3.0  # from its start, or from where it has joined; a trial takes a quarter of a second


@dataclass
class Campaign:
    """A search with two workers, of which one after the other is killed."""

    name: str
    url: str
    start: Callable[..., Any]
    trials_of: Callable[..., list[tuple[int, str, float | None]]]
    complete: dict[int, float | None] = field(default_factory=dict)  # as they were seen, with their values

    def begin_search(self) -> Any:
        return self.start(*SEARCH, "--storage", self.url, "--name", self.name, "--out", self.name)

    def begin_worker(self) -> Any:
        return self.start("worker", "--storage", self.url, "--name", self.name, "--workers", "1")

    def watch(self, search: Any, seconds: float) -> bool:
        """Whether the search still runs after so long. No trial that was ever complete may be another, or none."""
        until = time.monotonic() + seconds
        while search.process.poll() is None and time.monotonic() < until:
            self.look()
            time.sleep(0.1)
        return search.process.poll() is None

    def look(self) -> list[tuple[int, str, float | None]]:
        found = self.trials_of(self.url, self.name)
        now = {number: value for number, state, value in found if state == "COMPLETE"}
        assert self.complete.items() <= now.items()
        self.complete = now
        return found

    def run(self, n_kills: int, chance: random.Random) -> tuple[int, dict[str, Any]]:
        """How many were killed before the campaign came to its end, and what it recommends."""
        search = self.begin_search()
        while not self.look():
            time.sleep(0.1)
        workers = [self.begin_worker(), self.begin_worker()]
        n_killed, search_goes_at = 0, chance.randrange(1, max(2, n_kills))
        while n_killed < n_kills:
            place, at_start = chance.randrange(2), chance.random() < 0.25
            while not (at_start or workers[place].said("joined campaign")):
                if not self.watch(search, 0.1):
                    break
            if not self.watch(search, chance.uniform(0.0, LONGEST_LIFE_SECONDS)):
                break
            kill(workers[place], with_training=chance.random() < 0.5)
            workers[place] = self.begin_worker()
            n_killed += 1
            if n_killed == search_goes_at:
                kill(search, with_training=chance.random() < 0.5)
                search = self.begin_search()
        self.watch(search, seconds=200.0)
        assert search.wait() == 0, search.stderr()
        assert [worker.wait() for worker in workers] == [0, 0], [worker.stderr() for worker in workers]
        states = [state for _, state, _ in self.look()]
        assert "RUNNING" not in states
        return n_killed, json.loads(search.stdout())


def kill(command: Any, *, with_training: bool) -> None:
    """Without a chance to say anything; what it trains with at the same moment, or left to find out."""
    import psutil

    process = psutil.Process(command.process.pid)
    training = process.children(recursive=True) if with_training else []
    process.kill()
    for child in training:
        child.kill()
    command.wait()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import archopt

    folder = tmp_path_factory.mktemp("undisturbed")
    return archopt.search("sklearn:iris", 12, n_steps=40, n_trials=60, n_workers=1, out=folder, quiet=True).to_dict()


@pytest.mark.parametrize("n_kills", [5, pytest.param(50, marks=(pytest.mark.slow, pytest.mark.timeout(1800)))])
def test_killed_workers_cost_no_finished_trial_and_change_no_recommendation(
    n_kills: int, server: Any, start: Any, trials_of: Any, undisturbed: dict[str, Any]
) -> None:
    chance, n_killed, n_campaigns, n_dead = random.Random(0), 0, 0, 0
    means = {row["head_dim"]: row["mean"] for row in undisturbed["allocations"]}
    while n_killed < n_kills:
        campaign = Campaign(f"kills-{n_campaigns}", server.new_database(), start, trials_of)
        n_more, found = campaign.run(n_kills - n_killed, chance)
        n_killed, n_campaigns = n_killed + n_more, n_campaigns + 1
        n_dead += sum(state == "FAIL" for _, state, _ in campaign.look())
        # by the undisturbed campaign's own figures: the noise is that of one trial
        loss = means[found["allocation"]["head_dim"]] - min(means.values())
        assert loss <= undisturbed["noise_sd"], found["reason"]
        print(
            f"{campaign.name}: {n_more} killed, {len(campaign.complete)} complete, "
            f"{loss / undisturbed['noise_sd']:.2f} noise sd worse"
        )
    print(f"{n_killed} killed in {n_campaigns} campaigns, {n_dead} trials found dead")
