import math
import os
import signal
import subprocess
import sys
import threading
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from archopt.allocation import HeadAllocation
from archopt.data.dataset import TableDataset, TableSplit
from archopt.errors import OptionError
from archopt.evaluation import messages
from archopt.evaluation.trial import Recipe, TrialSpec
from archopt.evaluation.worker_process import one_line
from archopt.evaluation.workers import Failed, Finished, RungReached, WorkerPool, WorkerStartError

pytestmark = pytest.mark.torch

ROOT = Path(messages.__file__).resolve().parents[2]
WAIT_SECONDS = 120.0  # a worker loads torch, on a machine that may be busy; what passes does not wait
ENDLESS_STEPS = 1_000_000
posix = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")


def table(n_train=48):
    rng = np.random.default_rng(0)

    def split(n):
        inputs = rng.standard_normal((n, 3)).astype(np.float32)
        return TableSplit(inputs, np.sin(2 * inputs[:, 0]).astype(np.float32))

    return TableDataset(
        name="sine",
        content_hash="0" * 64,
        task="regression",
        train=split(n_train),
        valid=split(24),
        test=split(24),
        feature_names=("a", "b", "c"),
        class_names=(),
        target_name="y",
        target_mean=0.0,
        target_scale=1.0,
        n_available=n_train,
        notes=(),
    )


def recipe(n_steps=30, rungs=None):
    return Recipe(
        metric="rmse",
        n_steps=n_steps,
        rungs=rungs or (10, 20, 30),
        batch_size=16,
        context_rows=64,
        context_length=8,
        n_layers=1,
        warmup_steps=3,
        weight_decay=0.0,
        kernel="gaussian",
        attention="explicit",
        device="cpu",
        seed=0,
        max_scored=64,
    )


def spec(n_heads=2, **options):
    settings = {"weighting": "uniform", "decorrelation": 0.0, "learning_rate": 0.01, "replicate": 0, **options}
    return TrialSpec(HeadAllocation(n_heads, 8 // n_heads), **settings)


def until_ended(pool, n_jobs, stop_at=None):
    """Events by job until so many have ended; answers every rung."""
    events, n_ended = {}, 0
    while n_ended < n_jobs:
        event = pool.next_event(WAIT_SECONDS)
        assert event is not None, "nothing happened"
        events.setdefault(event.job_id, []).append(event)
        if isinstance(event, RungReached):
            pool.answer(event.job_id, stop=event.report.step == stop_at)
        else:
            n_ended += 1
    return events


def gone(pid):
    """Whether the process has ended; one that only waits to be reaped has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def wait_until(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(table(), recipe(), n_workers=2, n_threads=1) as started:
        yield started


@pytest.fixture(scope="module")
def endless():
    """Workers whose trials report soon and then do not end by themselves."""
    with WorkerPool(table(), recipe(ENDLESS_STEPS, (2, ENDLESS_STEPS)), n_workers=1, n_threads=1) as started:
        yield started


def first_rung(pool, job_id):
    event = pool.next_event(WAIT_SECONDS)
    assert isinstance(event, RungReached)
    assert event.job_id == job_id
    return event


def test_two_workers_train_the_same_trial_to_the_same_numbers(pool):
    assert pool.n_idle == 2
    pool.submit(7, spec())
    pool.submit(8, spec())
    assert pool.n_idle == 0
    events = until_ended(pool, 2)
    assert pool.n_idle == 2
    assert [event.report.step for event in events[7][:-1]] == [10, 20, 30]
    assert isinstance(events[7][-1], Finished)
    outcome, other = events[7][-1].outcome, events[8][-1].outcome
    assert outcome.n_steps == 30
    assert not outcome.stopped
    assert math.isfinite(outcome.value)
    assert outcome.value == other.value
    assert [e.report.value for e in events[7][:-1]] == [e.report.value for e in events[8][:-1]]


def test_a_worker_takes_one_trial_after_another(pool):
    for job_id in range(20, 24):
        pool.submit(job_id, spec(n_heads=job_id % 2 + 1, score_test=True))
        (last,) = [event for event in until_ended(pool, 1)[job_id] if isinstance(event, Finished)]
        assert math.isfinite(last.outcome.test_value)


def test_a_trial_stops_where_it_is_told(pool):
    pool.submit(1, spec())
    events = until_ended(pool, 1, stop_at=20)[1]
    assert [event.report.step for event in events[:-1]] == [10, 20]
    assert events[-1].outcome.stopped
    assert events[-1].outcome.n_steps == 20


def test_a_diverging_trial_fails_with_its_reason_and_the_worker_goes_on(pool):
    pool.submit(1, spec(learning_rate=1e30))
    failed = until_ended(pool, 1)[1][-1]
    assert isinstance(failed, Failed)
    assert failed.fault == "failed"
    assert failed.reason
    assert "\n" not in failed.reason
    pool.submit(2, spec())
    assert isinstance(until_ended(pool, 1)[2][-1], Finished)


def test_waiting_ends_in_time(pool):
    start = time.monotonic()
    assert pool.next_event(0.05) is None
    assert pool.next_event(0.0) is None
    assert 0.04 <= time.monotonic() - start < 5.0


def test_misuse_is_one_line(pool):
    pool.submit(1, spec())
    with pytest.raises(OptionError, match="job 1 is in training"):
        pool.submit(1, spec())
    pool.submit(2, spec())
    with pytest.raises(OptionError, match="all 2 workers are busy"):
        pool.submit(3, spec())
    for call in (lambda: pool.answer(9, stop=True), lambda: pool.cancel(9)):
        with pytest.raises(OptionError, match="job 9 is not in training"):
            call()
    until_ended(pool, 2)
    with pytest.raises(OptionError, match="n_workers must be at least 1 but got 0"):
        WorkerPool(table(), recipe(), n_workers=0, n_threads=1)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads the environment of a process from /proc")
def test_each_worker_sees_one_gpu_in_turn():
    with WorkerPool(table(), recipe(), n_workers=3, n_threads=1, gpus=("4", "GPU-7f")) as pool:
        environments = [Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in pool.pids]
        seen = [entry for entries in environments for entry in entries if entry.startswith(b"CUDA_VISIBLE_DEVICES=")]
    assert seen == [b"CUDA_VISIBLE_DEVICES=4", b"CUDA_VISIBLE_DEVICES=GPU-7f", b"CUDA_VISIBLE_DEVICES=4"]


@posix
def test_a_killed_worker_is_named_and_replaced(endless):
    endless.submit(5, spec())
    first_rung(endless, 5)
    (pid,) = endless.pids
    os.kill(pid, signal.SIGKILL)
    failed = endless.next_event(WAIT_SECONDS)
    assert failed == Failed(
        5, "the worker process was killed by SIGKILL (the system does that when memory runs out)", "killed"
    )
    assert endless.n_idle == 1
    endless.submit(6, spec())
    first_rung(endless, 6)
    assert endless.pids != (pid,)
    endless.answer(6, stop=True)
    assert isinstance(endless.next_event(WAIT_SECONDS), Finished)


@posix
def test_an_interrupt_is_the_controllers_to_handle(endless):
    endless.submit(1, spec())
    first_rung(endless, 1)
    os.kill(endless.pids[0], signal.SIGINT)
    assert endless.next_event(0.3) is None
    endless.answer(1, stop=True)
    assert isinstance(endless.next_event(WAIT_SECONDS), Finished)


def test_a_cancelled_trial_is_heard_of_no_more(endless):
    endless.submit(1, spec())
    first_rung(endless, 1)
    (pid,) = endless.pids
    endless.answer(1, stop=False)  # in the middle of its training
    endless.cancel(1)
    assert gone(pid)
    assert endless.n_idle == 1
    assert endless.next_event(0.2) is None
    endless.submit(1, spec())  # its number is free again
    first_rung(endless, 1)
    endless.answer(1, stop=True)
    assert isinstance(endless.next_event(WAIT_SECONDS), Finished)


def test_an_unexpected_exception_is_reported_with_its_traceback_and_the_worker_goes_on():
    wrong = recipe()
    object.__setattr__(wrong, "batch_size", "sixteen")
    with WorkerPool(table(), wrong, n_workers=1, n_threads=1) as pool:
        for job_id in (1, 2):
            pool.submit(job_id, spec())
            (failed,) = until_ended(pool, 1)[job_id]
            assert isinstance(failed, Failed)
            assert failed.fault == "error"
            assert failed.reason.startswith("TypeError: ")
            assert "\n" not in failed.reason
            assert "training.py" in failed.traceback
            (pid,) = pool.pids
            assert not gone(pid)


def test_closing_in_the_middle_of_training_leaves_nothing_behind():
    n_threads = threading.active_count()
    descriptors = Path("/proc/self/fd")
    n_open = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    pool = WorkerPool(table(), recipe(ENDLESS_STEPS, (2, ENDLESS_STEPS)), n_workers=2, n_threads=1)
    pool.submit(1, spec())
    pool.submit(2, spec())
    first = pool.next_event(WAIT_SECONDS)
    pool.answer(first.job_id, stop=False)
    pids = pool.pids
    assert len(pids) == 2
    pool.close()
    pool.close()
    assert all(map(gone, pids))
    assert pool.pids == ()
    assert pool.n_idle == 0
    assert threading.active_count() == n_threads
    if n_open:
        assert len(list(descriptors.iterdir())) == n_open
    assert pool.next_event(0.0) is None
    with pytest.raises(OptionError, match="closed"):
        pool.submit(3, spec())


def test_a_worker_that_cannot_start_is_one_clear_error(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch is for another machine')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pool = WorkerPool(table(), recipe(), n_workers=2, n_threads=1)
    pool.submit(1, spec())
    with pytest.raises(WorkerStartError, match="libtorch is for another machine") as refusal:
        pool.next_event(WAIT_SECONDS)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300
    assert pool.pids == ()


@posix
def test_workers_killed_as_they_start_are_not_started_for_ever():
    with WorkerPool(table(), recipe(), n_workers=1, n_threads=1) as pool:
        for job_id in range(2):
            pool.submit(job_id, spec())
            os.kill(pool.pids[0], signal.SIGKILL)
            assert pool.next_event(WAIT_SECONDS).fault == "killed"
        pool.submit(2, spec())
        os.kill(pool.pids[0], signal.SIGKILL)
        with pytest.raises(WorkerStartError, match="SIGKILL"):
            pool.next_event(WAIT_SECONDS)


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from test_workers import *
pool = WorkerPool(table(), recipe({recipe}), n_workers=1, n_threads=1)
pool.submit(1, spec())
print(*pool.pids, flush=True)
{rest}
"""


def script(tmp_path, rest, arguments=""):
    """A program without a __main__ guard, in a folder with modules that shadow the standard library's."""
    for name in ("random.py", "queue.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')\n")
    folder = tmp_path / "program"
    folder.mkdir()
    path = folder / "run.py"
    text = SCRIPT.format(tests=str(Path(__file__).parent), recipe=arguments, rest=rest)
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )


def test_a_script_without_a_main_guard(tmp_path):
    rest = "print(type(until_ended(pool, 1)[1][-1]).__name__)\npool.close()\n"
    with script(tmp_path, rest) as process:
        lines = process.communicate(timeout=WAIT_SECONDS)[0].split()
    assert lines[1:] == ["Finished"]
    assert process.returncode == 0
    assert gone(int(lines[0]))


@posix
def test_workers_end_with_a_controller_that_was_killed(tmp_path):
    endless_recipe = f"{ENDLESS_STEPS}, (2, {ENDLESS_STEPS})"
    rest = "first_rung(pool, 1)\npool.answer(1, stop=False)\nprint('training', flush=True)\ntime.sleep(600)\n"
    with script(tmp_path, rest, endless_recipe) as process:
        pid = int(process.stdout.readline())
        assert process.stdout.readline() == "training\n"
        assert not gone(pid)
        process.kill()
    assert wait_until(lambda: gone(pid))


def test_the_controller_loads_no_torch():
    code = (
        "import sys, archopt.evaluation.workers as w\n"
        "heavy = {'torch', 'pandas', 'sklearn', 'optuna'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_nothing_printed_can_enter_the_channel():
    code = (
        "import os\n"
        "from archopt.evaluation.messages import write_frame\n"
        "from archopt.evaluation.worker_process import _take_over_streams\n"
        "requests, replies = _take_over_streams()\n"
        "print('from python', flush=True)\n"
        "os.write(1, b'from native code')\n"
        "write_frame(replies, ('heard', os.read(0, 10), requests.read()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, input=b"a request", capture_output=True, check=True
    )
    channel = BytesIO(ended.stdout)
    assert messages.read_frame(channel) == ("heard", b"", b"a request")
    assert channel.read() == b""
    assert b"from python" in ended.stderr
    assert b"from native code" in ended.stderr


def test_a_frame_cut_short_is_the_end_of_the_channel():
    stream = BytesIO()
    messages.write_frame(stream, messages.Train(3, spec()))
    messages.write_frame(stream, messages.Answer(3, True))
    whole = stream.getvalue()
    assert messages.read_frame(BytesIO(whole)) == messages.Train(3, spec())
    for n_bytes in (0, 5, 20, len(whole) - 1):
        channel = BytesIO(whole[:n_bytes])
        if n_bytes > 20:
            messages.read_frame(channel)
        with pytest.raises(EOFError):
            messages.read_frame(channel)


def test_reasons_are_one_short_line():
    assert one_line("a\n  b\tc") == "a b c"
    assert len(one_line("x" * 1000)) == 300


def test_a_data_set_larger_than_a_pipe_travels_whole():
    big = table(n_train=200_000)  # 3.2 MB
    with WorkerPool(big, recipe(4, (4,)), n_workers=1, n_threads=1) as pool:
        pool.submit(1, spec())
        assert isinstance(until_ended(pool, 1)[1][-1], Finished)


def test_workers_turn_to_other_data_without_starting_again():
    with WorkerPool(table(), recipe(), n_workers=1, n_threads=1) as pool:
        pool.submit(0, spec())
        pool.answer(first_rung(pool, 0).job_id, stop=False)
        with pytest.raises(OptionError, match="a trial is in training"):
            pool.turn_to(table(96), recipe())
        before = until_ended(pool, 1)[0][-1].outcome
        pids = pool.pids
        pool.turn_to(table(96), recipe())
        pool.submit(0, spec())
        there = until_ended(pool, 1)[0][-1].outcome
        pool.turn_to(table(), recipe())
        pool.submit(0, spec())
        back = until_ended(pool, 1)[0][-1].outcome
        assert pool.pids == pids
    with WorkerPool(table(96), recipe(), n_workers=1, n_threads=1) as fresh:
        fresh.submit(0, spec())
        assert there.value == until_ended(fresh, 1)[0][-1].outcome.value  # nothing is left of the other data
    assert back.value == before.value != there.value
