"""Who trains for a campaign: every process leaves a sign of life in the storage, beside its heartbeats."""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archopt.campaign.joining import SILENT_SECONDS
from archopt.report.search_state import Worker

if TYPE_CHECKING:
    import optuna

PRESENCE_KEY = "archopt:worker:"  # and then host and process


@dataclass
class Presence:
    """This process's part in a campaign.

    Attributes:
        n_processes: that train here.
        studies: of the campaign; each sign of life is left beside the one that is being trained for.
        n_ended: trials that this process brought to an end.
    """

    n_processes: int
    studies: "Sequence[optuna.Study]"
    n_ended: int = 0
    _last: "optuna.Study | None" = None

    def show(self, study: "optuna.Study", n_running: int) -> None:
        """Leave a sign of life."""
        self._last = study
        self._write(study, self.n_processes, n_running)

    def leave(self) -> None:
        """Take it back: this process trains no more."""
        if self._last is not None:
            self._write(self._last, 0, 0)

    def workers(self) -> tuple[Worker, ...]:
        """Everyone who has shown himself lately."""
        return workers_of([study.user_attrs for study in self.studies])

    def _write(self, study: "optuna.Study", n_processes: int, n_running: int) -> None:
        host, pid = _here()
        study.set_user_attr(
            f"{PRESENCE_KEY}{host}:{pid}",
            {
                "host": host,
                "pid": pid,
                "n_processes": n_processes,
                "n_running": n_running,
                "n_ended": self.n_ended,
                "seen": time.time(),
            },
        )


@contextmanager
def present(n_processes: int, studies: "Sequence[optuna.Study]") -> Iterator[Presence]:
    """Within, this process may show that it trains; afterwards it is seen no more."""
    import optuna

    presence = Presence(n_processes, studies)
    try:
        yield presence
    finally:
        with suppress(optuna.exceptions.StorageInternalError):  # others then find out by its silence
            presence.leave()


def workers_of(attributes: Sequence[dict[str, Any]], now: float | None = None) -> tuple[Worker, ...]:
    """Those that have shown themselves in the last 90 s, by their own clocks, in order of host and process.

    Args:
        attributes: user attributes of the campaign's studies.
        now: seconds since the epoch.
    """
    moment = time.time() if now is None else now
    last: dict[str, dict[str, Any]] = {}
    for known in attributes:
        for key, sign in known.items():
            if key.startswith(PRESENCE_KEY) and sign["seen"] >= last.get(key, sign)["seen"]:
                last[key] = sign
    here = _here()
    workers = (
        Worker(
            host=sign["host"],
            pid=sign["pid"],
            n_processes=sign["n_processes"],
            n_running=sign["n_running"],
            n_ended=sign["n_ended"],
            silent_seconds=max(0.0, moment - sign["seen"]),
            here=(sign["host"], sign["pid"]) == here,
        )
        for sign in last.values()
        if sign["n_processes"] and moment - sign["seen"] < SILENT_SECONDS
    )
    return tuple(sorted(workers, key=lambda worker: (worker.host, worker.pid)))


def _here() -> tuple[str, int]:
    return socket.gethostname()[:60], os.getpid()
