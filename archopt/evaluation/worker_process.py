"""What a worker does: told a data set and a recipe, it trains one trial after another until its input closes, or until
it is told another data set.

Run as ``python -m archopt.evaluation.worker_process`` by :class:`archopt.evaluation.workers.WorkerPool`.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, cast

from archopt.data.dataset import Dataset
from archopt.errors import TrialFailed
from archopt.evaluation.messages import (
    Answer,
    Failed,
    Finished,
    Ready,
    RungReached,
    Setup,
    Train,
    read_frame,
    write_frame,
)
from archopt.evaluation.trial import Recipe, RungReport, TrialOutcome, TrialSpec

MAX_REASON_LENGTH = 300


def main() -> None:
    """Serve until the controlling process closes the channel, or is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    requests, replies = _take_over_streams()
    setup = cast(Setup, read_frame(requests))
    inbox: SimpleQueue[object] = SimpleQueue()
    Thread(target=_receive, args=(requests, inbox), daemon=True).start()

    import torch

    torch.set_num_threads(setup.n_threads)  # before any work: torch sizes its thread pool once
    from archopt.evaluation.training import train  # here, not above: torch reads its environment as it loads

    write_frame(replies, Ready())
    while True:
        job = inbox.get()
        if isinstance(job, Setup):
            setup = job
        elif isinstance(job, Train):
            write_frame(replies, _result(train, setup, job, inbox, replies))


def _result(
    train: Callable[[Dataset, TrialSpec, Recipe, Callable[[RungReport], bool]], TrialOutcome],
    setup: Setup,
    job: Train,
    inbox: "SimpleQueue[object]",
    replies: BinaryIO,
) -> Finished | Failed:
    def on_rung(report: RungReport) -> bool:
        write_frame(replies, RungReached(job.job_id, report))
        while True:
            message = inbox.get()
            if isinstance(message, Answer) and message.job_id == job.job_id:
                return message.stop

    try:
        return Finished(job.job_id, train(setup.dataset, job.spec, setup.recipe, on_rung))
    except TrialFailed as error:
        return Failed(job.job_id, one_line(str(error)), "failed")
    except Exception as error:  # a fault of the code: reported with its traceback, and the worker goes on
        reason = one_line(f"{type(error).__name__}: {error}")
        return Failed(job.job_id, reason, "error", traceback.format_exc())


def one_line(text: str) -> str:
    """The text without line breaks, cut to what an error message may have."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON_LENGTH else f"{line[: MAX_REASON_LENGTH - 3]}..."


def _take_over_streams() -> tuple[BinaryIO, BinaryIO]:
    """The channel's two ends, out of reach of ``print`` and of native code that writes to descriptor 1."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return requests, replies


def _receive(requests: BinaryIO, inbox: "SimpleQueue[object]") -> None:
    while True:
        try:
            inbox.put(read_frame(requests))
        except EOFError:
            os._exit(0)  # the controller is gone: stop at once, also in the middle of a training step


if __name__ == "__main__":
    main()
