"""Processes that train, while this one decides: no torch here, and no study there.

Workers are fresh interpreters that talk over their standard streams, so that they need no importable ``__main__``
(notebooks, scripts without a guard) and share no state with the process that controls them.
"""

import os
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from types import TracebackType
from typing import IO, BinaryIO, cast

from archopt.data.dataset import Dataset
from archopt.errors import CampaignFailed, OptionError
from archopt.evaluation.messages import (
    Answer,
    Event,
    Failed,
    Finished,
    Ready,
    RungReached,
    Setup,
    Train,
    read_frame,
    write_frame,
)
from archopt.evaluation.trial import Recipe, TrialSpec

__all__ = ["Event", "Failed", "Finished", "RungReached", "WorkerPool", "WorkerStartError"]

MAX_KILLED_STARTS = 3  # workers killed in a row before one was ready: the machine cannot hold one
_STDERR_TAIL_BYTES = 8192
_COMMAND = ("-P", "-m", "archopt.evaluation.worker_process")  # -P: a random.py in the user's folder is not ours


class WorkerStartError(CampaignFailed):
    """A worker process cannot start on this machine; another try would end the same way."""

    exit_code = 1


class WorkerPool:
    """Workers that train trials of one data set; a context manager, used from one thread.

    A worker that dies, or whose trial is cancelled, is replaced when its place is next needed.

    Args:
        dataset: what all trials train on.
        recipe: how all trials are trained.
        n_workers: processes, started at once and in parallel.
        n_threads: of each worker; more than its share of the cores can slow fused attention a hundredfold.
        gpus: as CUDA_VISIBLE_DEVICES names them: each worker sees one, in turn; empty: what this process sees.

    Raises:
        OptionError: n_workers or n_threads below 1.
        WorkerStartError: the system refuses to start a process.
    """

    def __init__(
        self, dataset: Dataset, recipe: Recipe, *, n_workers: int, n_threads: int, gpus: Sequence[str] = ()
    ) -> None:
        for name, number in (("n_workers", n_workers), ("n_threads", n_threads)):
            if number < 1:
                raise OptionError(f"{name} must be at least 1 but got {number}")
        self._setup = Setup(dataset, recipe, n_threads)
        self._gpus = tuple(gpus)
        self._reports: SimpleQueue[tuple[_Worker, Event | Ready | None]] = SimpleQueue()
        self._places: list[_Worker | None] = [None] * n_workers
        self._n_killed_starts = 0
        self._closed = False
        try:
            started = []
            for place in range(n_workers):
                started.append(self._new_worker(place))
                self._places[place] = started[-1]
            for worker in started:  # only now: writing to the first would hold up the start of the second
                worker.begin(self._setup, self._reports)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def n_workers(self) -> int:
        """How many trials can be in training at the same time."""
        return len(self._places)

    @property
    def n_idle(self) -> int:
        """How many more trials can be submitted now."""
        return 0 if self._closed else sum(worker is None or worker.job_id is None for worker in self._places)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers that were started and not yet seen to end."""
        return tuple(worker.process.pid for worker in self._places if worker is not None)

    def turn_to(self, dataset: Dataset, recipe: Recipe) -> None:
        """Train on something else from now on; the processes, which take seconds to start, stay.

        Raises:
            OptionError: a trial is in training.
        """
        if any(worker is not None and worker.job_id is not None for worker in self._places):
            raise OptionError("a trial is in training: wait for its end, or cancel it, before turning to other data")
        self._setup = Setup(dataset, recipe, self._setup.n_threads)
        for worker in self._places:
            if worker is not None:
                worker.send(self._setup)

    def submit(self, job_id: int, spec: TrialSpec) -> None:
        """Give a trial to an idle worker; returns at once, also while the worker is still starting.

        Raises:
            OptionError: no worker is idle, the pool is closed, or ``job_id`` is in training.
            WorkerStartError: the system refuses to start a replacement.
        """
        if self._closed:
            raise OptionError("the worker pool is closed: make another one")
        if any(worker is not None and worker.job_id == job_id for worker in self._places):
            raise OptionError(f"job {job_id} is in training: give every job its own number")
        idle = [place for place, worker in enumerate(self._places) if worker is None or worker.job_id is None]
        if not idle:
            raise OptionError(f"all {len(self._places)} workers are busy: wait for a trial to end before the next")
        # A worker that runs is used before one that would have to start.
        place = min(idle, key=lambda place: (worker := self._places[place]) is None or not worker.ready)
        worker = self._places[place]
        if worker is None:
            worker = self._places[place] = self._new_worker(place)
            worker.begin(self._setup, self._reports)
        worker.job_id = job_id
        worker.send(Train(job_id, spec))

    def next_event(self, timeout_seconds: float | None = None) -> Event | None:
        """Wait for what happens next in any trial.

        Args:
            timeout_seconds: the longest wait; None waits for ever.

        Returns:
            None when nothing happened in that time. After RungReached the trial waits for :meth:`answer`.

        Raises:
            WorkerStartError: a worker ended before it could train; the pool is closed.
        """
        until = None if timeout_seconds is None else monotonic() + timeout_seconds
        while True:
            try:
                left = None if until is None else max(0.0, until - monotonic())
                worker, report = self._reports.get(timeout=left)
            except Empty:
                return None
            if worker not in self._places:
                continue  # cancelled: whatever it still said is of no interest
            if report is None:
                event = self._ended(worker)
                if event is not None:
                    return event
            elif isinstance(report, Ready):
                worker.ready, self._n_killed_starts = True, 0
            else:
                if not isinstance(report, RungReached):
                    worker.job_id = None
                return report

    def answer(self, job_id: int, stop: bool) -> None:
        """Let a trial that reached a rung go on, or stop it there (it then reports Finished).

        Raises:
            OptionError: no such job is in training.
        """
        self._training(job_id).send(Answer(job_id, stop))

    def cancel(self, job_id: int) -> None:
        """Kill the worker that trains this trial; nothing more is reported of it, and its place is idle.

        Raises:
            OptionError: no such job is in training.
        """
        worker = self._training(job_id)
        self._places[self._places.index(worker)] = None
        worker.end()

    def close(self) -> None:
        """Kill all workers and wait until they are gone; trials in training are lost. Safe to call again."""
        self._closed = True
        workers = [worker for worker in self._places if worker is not None]
        self._places = [None] * len(self._places)
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.end()

    def _new_worker(self, place: int) -> "_Worker":
        return _Worker(self._setup.n_threads, self._gpus[place % len(self._gpus)] if self._gpus else None)

    def _training(self, job_id: int) -> "_Worker":
        for worker in self._places:
            if worker is not None and worker.job_id == job_id:
                return worker
        raise OptionError(f"job {job_id} is not in training")

    def _ended(self, worker: "_Worker") -> Failed | None:
        self._places[self._places.index(worker)] = None
        cause = worker.end(patience_seconds=5.0)
        if not worker.ready:
            self._n_killed_starts += 1
            if not worker.was_killed or self._n_killed_starts >= MAX_KILLED_STARTS:
                self.close()
                raise WorkerStartError(f"a worker process could not start: {cause}")
        return None if worker.job_id is None else Failed(worker.job_id, f"the worker process {cause}", "killed")


class _Worker:
    """One process, the thread that listens to it, and what it is doing."""

    def __init__(self, n_threads: int, gpu: str | None) -> None:
        self.job_id: int | None = None
        self.ready = False
        self.was_killed = False
        self._listener: Thread | None = None
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        try:
            self.process = subprocess.Popen(
                [sys.executable, *_COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=_environment(n_threads, gpu),
                start_new_session=True,  # a Ctrl-C in the terminal reaches the controller only
            )
        except OSError as error:
            self._stderr.close()
            raise WorkerStartError(f"a worker process could not start: {error.strerror or error}") from error

    def begin(self, setup: Setup, reports: "SimpleQueue[tuple[_Worker, Event | Ready | None]]") -> None:
        self._listener = Thread(target=self._listen, args=(reports,), daemon=True)
        self._listener.start()
        self.send(setup)

    def send(self, message: object) -> None:
        # A pipe without a reader means that the process is gone; the listener reports that, with its cause.
        with suppress(OSError):
            write_frame(cast(BinaryIO, self.process.stdin), message)

    def end(self, patience_seconds: float = 0.0) -> str:
        """Kill the process if it still runs after that time, and release all it held; says how it ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience_seconds)
        self.process.kill()
        code = self.process.wait()
        if self._listener is not None:
            self._listener.join()
        with suppress(OSError):  # bytes that nobody will read
            cast(BinaryIO, self.process.stdin).close()
        cast(BinaryIO, self.process.stdout).close()
        with self._stderr:
            said = _last_line(self._stderr)
        self.was_killed = code < 0
        if self.was_killed:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            memory = " (the system does that when memory runs out)" if name == "SIGKILL" else ""
            return f"was killed by {name}{memory}"
        return f"ended with exit code {code}" + (f": {said}" if said else "")

    def _listen(self, reports: "SimpleQueue[tuple[_Worker, Event | Ready | None]]") -> None:
        stream = cast(BinaryIO, self.process.stdout)
        try:
            while True:
                reports.put((self, cast("Event | Ready", read_frame(stream))))
        except EOFError:
            pass
        finally:  # also if what came could not be read: whoever waits for this trial must hear of its end
            reports.put((self, None))


def _environment(n_threads: int, gpu: str | None) -> dict[str, str]:
    """This process's environment, with what libraries read when they load, and archopt in reach."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(n_threads))
    devices = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
    environment = {**os.environ, **threads, **devices}
    root = str(Path(__file__).resolve().parents[2])
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}
    if root not in {str(Path(folder).resolve()) for folder in installed}:
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{root}{os.pathsep}{before}" if before else root
    return environment


def _last_line(stderr: IO[bytes]) -> str:
    """The last line that the process wrote to standard error: of a traceback, the one that names the exception."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _STDERR_TAIL_BYTES))
    lines = stderr.read().decode("utf-8", "replace").split("\n")
    # warnings that the interpreter prints as it ends stand behind the traceback, and are not the reason
    said = [" ".join(line.split()) for line in lines if line.strip() and "Warning: " not in line]
    return said[-1][:200] if said else ""
