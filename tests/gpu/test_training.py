"""Trials on a CUDA device: reproducible, freed when memory runs out, and no bigger after ten of them."""

import gc
from dataclasses import asdict, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.data.dataset import TableDataset, TableSplit, TextDataset  # noqa: E402
from archopt.errors import TrialFailed  # noqa: E402
from archopt.evaluation import TrialSpec, default_recipe  # noqa: E402
from archopt.evaluation.training import train  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: kernels on a GPU are not tested here"),
]

DEVICE = "cuda"
KERNELS = ("xformers", "sdpa", "explicit")

# Two orders of summation (explicit, sdpa) of the same trials on a CPU part by up to 2e-5 of the loss in 20 steps and
# 2e-4 in 60. Atomic additions are one more such difference; a wrong gradient shows in the first digits.
MAX_RELATIVE_DIFFERENCE = 1e-3


def _table(n_rows):
    rng = np.random.default_rng(0)

    def split(n):
        inputs = rng.normal(size=(n, 4)).astype(np.float32)
        return TableSplit(inputs, (np.sin(inputs[:, 0]) + 0.5 * inputs[:, 1]).astype(np.float32))

    return TableDataset(
        name="synthetic",
        content_hash="0",
        task="regression",
        train=split(n_rows),
        valid=split(200),
        test=split(200),
        feature_names=("a", "b", "c", "d"),
        class_names=(),
        target_name="y",
        target_mean=0.0,
        target_scale=1.0,
        n_available=n_rows,
        notes=(),
    )


def _text():
    sentence = b"the quick brown fox jumps over the lazy dog. "
    text = np.frombuffer(sentence * 180, np.uint8)
    return TextDataset("synthetic", "0", text, text[:700], text[100:800], len(text), ())


DATASETS = {"table": _table(2_000), "text": _text()}


def _spec(n_heads=4, d_model=48):
    return TrialSpec(HeadAllocation(n_heads, d_model // n_heads), "learned", 0.1, 0.01, 0, score_test=True)


def _run(dataset, spec, attention_kernel, **changes):
    """Everything that a trial reports except its times."""
    recipe = default_recipe(dataset, d_model=spec.allocation.d_model, n_steps=20, device=DEVICE)
    reports = []

    def keep_going(report):
        reports.append(report)
        return False

    outcome = train(dataset, spec, replace(recipe, attention=attention_kernel, **changes), keep_going)
    return [{k: v for k, v in asdict(row).items() if "seconds" not in k} for row in (*reports, outcome)]


@pytest.fixture
def _deterministic(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch refuses cuBLAS in this mode without it
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("task", list(DATASETS))
def test_same_bits_with_deterministic_algorithms(skip_where_refused, task, kernel):
    """In this mode torch's fused backward passes give up atomic additions, and xformers the kernels that have them."""
    skip_where_refused(kernel)
    first, second = (_run(DATASETS[task], _spec(), kernel) for _ in range(2))
    assert repr(first) == repr(second)


@pytest.mark.parametrize("task", list(DATASETS))
def test_explicit_attention_has_the_same_bits_in_any_mode(task):
    first, second = (_run(DATASETS[task], _spec(), "explicit") for _ in range(2))
    assert repr(first) == repr(second)


@pytest.mark.parametrize("kernel", ["xformers", "sdpa"])
@pytest.mark.parametrize("task", list(DATASETS))
def test_fused_attention_repeats_to_rounding(skip_where_refused, task, kernel, record_property):
    """Their backward passes may add in any order: bits can differ between two runs, losses hardly."""
    skip_where_refused(kernel)
    first, second = (_run(DATASETS[task], _spec(), kernel) for _ in range(2))
    record_property("same_bits", repr(first) == repr(second))
    explicit = _run(DATASETS[task], _spec(), "explicit")
    for other in (second, explicit):
        expected = [row["value"] for row in other]
        assert [row["value"] for row in first] == pytest.approx(expected, rel=MAX_RELATIVE_DIFFERENCE)
    assert {row["attention"] for row in first if "attention" in row} == {kernel}


@pytest.mark.parametrize("task", list(DATASETS))
def test_agrees_with_the_same_trial_on_a_cpu(task):
    """Streams are drawn on the CPU: a trial starts from the same numbers and sees the same batches on any device."""
    on_cuda = _run(DATASETS[task], _spec(), "explicit")
    on_cpu = _run(DATASETS[task], _spec(), "explicit", device="cpu")
    expected = [row["value"] for row in on_cpu]
    assert [row["value"] for row in on_cuda] == pytest.approx(expected, rel=MAX_RELATIVE_DIFFERENCE)


def _allocated_bytes():
    gc.collect()
    return torch.cuda.memory_allocated()


def test_out_of_memory_ends_the_trial_and_frees_its_memory():
    dataset = _table(20_000)
    large = {"context_rows": 16_384, "batch_size": 256}  # one table of scores of 16 heads takes 268 MB
    _run(DATASETS["table"], _spec(16), "explicit")  # what cuBLAS keeps for good is allocated now
    before = _allocated_bytes()
    torch.cuda.empty_cache()
    allowed_bytes = torch.cuda.memory_reserved() + 2**26
    torch.cuda.set_per_process_memory_fraction(allowed_bytes / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(TrialFailed, match=r"^CUDA out of memory with 16 heads of 3: ") as caught:
            _run(dataset, _spec(16), "explicit", **large)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "\n" not in str(caught.value)
    assert _allocated_bytes() <= before
    assert _run(dataset, _spec(16), "explicit", **large)[-1]["n_steps"] == 20  # the next trial is none the worse


@pytest.mark.parametrize("task", list(DATASETS))
def test_ten_trials_leave_no_memory_behind(task):
    allocated = []
    for _ in range(2):  # after the first ten, everything that CUDA's libraries keep for good is there
        for n_heads in (1, 2, 3, 4, 6, 8, 12, 16, 24, 48):
            _run(DATASETS[task], _spec(n_heads), "auto")
        allocated.append(_allocated_bytes())
    assert allocated[1] <= allocated[0]
