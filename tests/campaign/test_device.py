"""Where trials are trained."""

import subprocess
import sys

import pytest

from archopt.campaign.device import resolve_device
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
