"""A worker that trains one trial after another, failed ones among them, does not grow."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from archopt.allocation import HeadAllocation
from archopt.data import load_dataset
from archopt.evaluation import TrialSpec, default_recipe
from archopt.evaluation.workers import Failed, Finished, RungReached, WorkerPool

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a worker's memory is read from /proc, Linux's"),
]

SETTLED, MORE = 12, 10  # trials until the allocator's pools are filled; then those that must leave nothing behind


def _resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


@pytest.mark.parametrize("source", ["sklearn:digits", "text:python-topics"])
def test_ten_trials_in_a_row_leave_the_process_no_bigger(source: str) -> None:
    dataset = load_dataset(source, n_samples=20_000 if source.startswith("text") else None)
    recipe = default_recipe(dataset, d_model=48, n_steps=10)
    sizes, ends = [], []
    with WorkerPool(dataset, recipe, n_workers=1, n_threads=1) as pool:
        for job in range(SETTLED + MORE):
            rate = 1e30 if job % 5 == 4 else 0.003  # the fifth diverges
            spec = TrialSpec(HeadAllocation(*((16, 3), (2, 24))[job % 2]), "learned", 0.1, rate, job)
            pool.submit(job, spec)
            event = pool.next_event()
            while isinstance(event, RungReached):
                pool.answer(job, stop=False)
                event = pool.next_event()
            ends.append(type(event))
            sizes.append(_resident_bytes(pool.pids[0]))
    assert ends.count(Failed) == (SETTLED + MORE) // 5
    assert ends.count(Finished) == SETTLED + MORE - (SETTLED + MORE) // 5
    # one table's scores or one model's state kept would be megabytes a trial; a page more here and there is none
    assert sizes[-1] - sizes[SETTLED - 1] < 8e6
