"""What a controlling process and its workers say to each other: frozen records, pickled, each behind its length.

Kept apart from ``worker_process``, which runs as ``__main__``: records defined there could not be unpickled here.
"""

import pickle
import struct
from dataclasses import dataclass
from typing import BinaryIO, Literal

from archopt.data.dataset import Dataset
from archopt.evaluation.trial import Recipe, RungReport, TrialOutcome, TrialSpec

Fault = Literal["failed", "killed", "error"]

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True)
class Setup:
    """The first thing a worker is told: what to train on, how, and with how many threads; again where data change."""

    dataset: Dataset
    recipe: Recipe
    n_threads: int


@dataclass(frozen=True)
class Train:
    """Train this configuration."""

    job_id: int
    spec: TrialSpec


@dataclass(frozen=True)
class Answer:
    """Whether a trial that reached a rung stops there."""

    job_id: int
    stop: bool


@dataclass(frozen=True)
class Ready:
    """A worker has loaded what it needs."""


@dataclass(frozen=True)
class RungReached:
    """A trial was scored and waits for an answer."""

    job_id: int
    report: RungReport


@dataclass(frozen=True)
class Finished:
    """A trial ended, at its last step or because it was told to stop."""

    job_id: int
    outcome: TrialOutcome


@dataclass(frozen=True)
class Failed:
    """A trial has no outcome.

    Attributes:
        job_id: as submitted.
        reason: one line.
        fault: "failed" if the configuration could not be trained (diverged, out of memory), "killed" if the worker
            process died under it, "error" if the code did something that nobody expected.
        traceback: of an "error", for a bug report; else empty.
    """

    job_id: int
    reason: str
    fault: Fault
    traceback: str = ""


Event = RungReached | Finished | Failed


def write_frame(stream: BinaryIO, message: object) -> None:
    """Send one message.

    Raises:
        OSError: nobody reads the other end any more.
    """
    payload = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(payload)))
    stream.write(payload)
    stream.flush()


def read_frame(stream: BinaryIO) -> object:
    """Receive one message; waits for it.

    Raises:
        EOFError: the other end is closed, perhaps in the middle of a message.
    """
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return pickle.loads(_exactly(stream, length))


def _exactly(stream: BinaryIO, n_bytes: int) -> bytes:
    received = stream.read(n_bytes)
    if len(received) < n_bytes:
        raise EOFError
    return received
