"""What tests against real packages share."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For models so small that two shared cores train them several times more slowly than one."""
    import torch

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # of the examples, which run on their own
    yield
    torch.set_num_threads(n_threads)
