"""Where trials are trained."""

import os
import subprocess
import sys

import pytest

from archopt.campaign.device import resolve_device, visible_gpus
from archopt.campaign.settings import Settings
from archopt.errors import OptionError

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="these say what happens without CUDA"),
]


def test_without_cuda() -> None:
    assert resolve_device("auto", "auto") == resolve_device("cpu", "sdpa") == "cpu"
    with pytest.raises(OptionError, match="torch finds no CUDA device here: use --device cpu"):
        resolve_device("cuda", "auto")
    with pytest.raises(OptionError, match="no attention kernel for CPUs: use --attention auto or sdpa"):
        resolve_device("cpu", "xformers")


def test_the_controlling_process_does_not_load_torch() -> None:
    code = (
        "import sys; from archopt.campaign.device import resolve_device; resolve_device('auto', 'auto'); "
        "import archopt.campaign; print('torch' in sys.modules, 'xformers' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("environment", "count", "gpus"),
    [("", 2, ("0", "1")), ("3,5", 2, ("3", "5")), ("GPU-1f, GPU-2a", 2, ("GPU-1f", "GPU-2a")), ("1,0", 1, ("1",))],
)
def test_the_gpus_of_a_machine_are_named_as_workers_are_given_them(
    monkeypatch: pytest.MonkeyPatch, environment: str, count: int, gpus: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)  # there is none here
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", environment)
    assert visible_gpus() == gpus
    assert Settings(data="x", d_model=8).workers_and_threads("cuda")[0] == min(len(gpus), len(os.sched_getaffinity(0)))
