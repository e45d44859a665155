"""The script that times kernels on a card, exercised on the CPU: what it times, writes and records."""

import csv
import importlib.util
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies" / "gpu_kernels"
FUSED_ON_CUDA_ONLY = {"xformers", "sdpa efficient", "sdpa cudnn"}


@pytest.fixture(scope="module")
def kernels():
    """The script as a module; it imports its neighbour table.py by name, as it does when it is run."""
    sys.path.insert(0, str(STUDY))
    try:
        spec = importlib.util.spec_from_file_location("gpu_kernels_study", STUDY / "kernels.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(STUDY))
        for name in ("gpu_kernels_study", "table"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    command = [sys.executable, str(STUDY / "kernels.py"), str(folder), "--device", "cpu", "--quick"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, timeout=120, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return folder


def _rows(folder):
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_kernel_has_a_row_for_every_shape(folder, kernels):
    rows = _rows(folder)
    shapes = {(row["use"], row["dtype"], row["head_dim"], row["n_keys"]) for row in rows}
    assert len(rows) == len(shapes) * len(kernels.KERNELS)
    assert {row["use"] for row in rows} == {"causal", "nw"}
    assert all(int(row["n_heads"]) * int(row["head_dim"]) == 32 for row in rows)


def test_what_a_cpu_has_is_timed_and_agrees_with_float64(folder):
    for row in _rows(folder):
        if row["kernel"] in FUSED_ON_CUDA_ONLY:
            continue
        assert row["status"] == "ran"
        assert float(row["median_ms"]) > float(row["mad_ms"]) >= 0
        assert 5 <= int(row["n_repeats"]) <= 30
        # the bounds of test_kernels.py: 10 epsilons of bfloat16, 256 of float32
        assert float(row["worst_error"]) < (10 * 2**-7 if row["dtype"] == "bfloat16" else 256 * 2**-23)


def test_what_a_cpu_lacks_is_recorded_with_its_reason(folder):
    lacking = [row for row in _rows(folder) if row["kernel"] in FUSED_ON_CUDA_ONLY]
    assert {row["kernel"] for row in lacking} == FUSED_ON_CUDA_ONLY
    for row in lacking:
        assert row["status"] == "cannot run"
        assert row["median_ms"] == ""
        assert row["reason"]
    reasons = {row["reason"] for row in lacking if row["kernel"] == "xformers"}
    assert all("needs a CUDA device" in reason for reason in reasons)
    failures = (folder / "table.md").read_text(encoding="utf-8").partition("## What did not run")[2]
    assert all(f"- {kernel}, cannot run: " in failures for kernel in FUSED_ON_CUDA_ONLY)


def test_markdown_shows_machine_and_the_fastest_of_each_line(folder):
    text = (folder / "table.md").read_text(encoding="utf-8")
    assert f"- torch: {torch.__version__}" in text
    assert "- device: CPU" in text
    lines = [line for line in text.splitlines() if line.startswith(("| 4 x 8 ", "| 2 x 16 "))]
    fastest = [
        min(float(row["median_ms"]) for row in _rows(folder) if row["median_ms"] and key(row)) for key in _keys()
    ]
    assert len(lines) == len(fastest) == 6
    assert sorted(line.count("**") for line in lines) == [2] * 6
    for line, expected in zip(lines, fastest, strict=True):
        shown = float(line.partition("**")[2].partition(" ±")[0])
        assert shown == pytest.approx(expected, rel=5e-3)  # three digits


def _keys():
    for use, dtype in (("causal", "bfloat16"), ("causal", "float32"), ("nw", "float32")):
        for head_dim in ("8", "16"):
            yield lambda row, wanted=(use, dtype, head_dim): (row["use"], row["dtype"], row["head_dim"]) == wanted


def test_the_full_run_covers_what_it_says(kernels):
    cells = kernels.cells(quick=False)
    assert {cell.n_heads * cell.head_dim for cell in cells} == {768}
    assert {cell.head_dim for cell in cells} == {8, 16, 32, 64, 96, 128, 192, 256}
    assert {(cell.use, cell.n_queries, cell.n_keys) for cell in cells} == {
        ("causal", 1024, 1024),
        ("nw", 256, 16_384),
        ("nw", 256, 262_144),
    }
    assert {cell.dtype for cell in cells if cell.use == "nw"} == {torch.float32}  # half precision loses its norm term
    assert len(cells) == len(set(cells)) == 32


def test_median_and_spread_are_robust(kernels):
    row = kernels._with_times(kernels._blank_row(kernels.cells(quick=True)[0], "explicit"), [1.0, 2.0, 3.0, 4.0, 100.0])
    assert (row.median_ms, row.mad_ms, row.n_repeats) == (3.0, 1.0, 5)


def test_torchs_warnings_become_the_reason(kernels):
    def refused():
        warnings.warn(
            "Memory efficient kernel not used because: (Triggered internally at sdp_utils.cpp:1.)", stacklevel=1
        )
        warnings.warn("last dimension must be divisible by 4. (Triggered internally at sdp_utils.cpp:2.)", stacklevel=1)
        warnings.warn("Flash attention has been runtime disabled. (Triggered internally at x:3.)", stacklevel=1)
        raise RuntimeError("No available kernel. Aborting execution.")

    with pytest.raises(RuntimeError, match=r"^last dimension must be divisible by 4\.$"):
        kernels.explained(refused)


def test_running_out_of_memory_is_a_row_not_an_end(kernels, monkeypatch):
    def exhausted(cell, kernel, *inputs):
        if kernel == "sdpa math":
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 24.00 GiB")
        return kernels.attention(*inputs, scale=1.0, kernel="explicit")

    monkeypatch.setattr(kernels, "run", exhausted)
    rows = {row.kernel: row for row in kernels.measure(kernels.cells(quick=True)[-1], "cpu")}
    assert rows["sdpa math"].status == "out of memory"
    assert rows["sdpa math"].reason == "CUDA out of memory. Tried to allocate 24.00 GiB"
    assert rows["explicit"].status == "ran"


def test_a_cell_is_not_begun_after_its_time(kernels, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["kernels.py", str(tmp_path), "--device", "cpu", "--quick", "--seconds", "-1"])
    kernels.main()
    rows = _rows(tmp_path)
    assert {row["status"] for row in rows} == {"not begun"}
    assert len(rows) == 6 * len(kernels.KERNELS)


def test_without_a_card_the_script_says_what_to_do(kernels, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["kernels.py", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        kernels.main()
    assert ended.value.code == 2
    assert "use --device cpu --quick" in capsys.readouterr().err
