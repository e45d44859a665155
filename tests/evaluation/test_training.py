"""Training: fair, reproducible, honest about failure, and better than a trivial predictor."""

import math
import weakref
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.data.dataset import TableDataset, TableSplit, TextDataset  # noqa: E402
from archopt.errors import DataError, OptionError, TrialFailed  # noqa: E402
from archopt.evaluation import TrialSpec, default_recipe, training  # noqa: E402
from archopt.evaluation.learner import random_stream  # noqa: E402
from archopt.evaluation.table_learner import RowBatches, table_learner, table_metric  # noqa: E402
from archopt.evaluation.text_learner import score_starts, text_learner  # noqa: E402
from archopt.evaluation.training import learning_rate_at, train  # noqa: E402
from archopt.models.nadaraya_watson import PROBABILITY_FLOOR  # noqa: E402
from archopt.theory.diversity import head_diversity_index  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _table(task="regression", *, n=160, p=4, seed=0):
    """Targets that depend smoothly on two of the inputs; classes are the quadrant of those two."""
    rng = np.random.default_rng(seed)

    def split(rows):
        x = rng.normal(size=(rows, p)).astype(np.float32)
        if task == "classification":
            return TableSplit(x, (2 * (x[:, 0] > 0) + (x[:, 1] > 0)).astype(np.int64))
        return TableSplit(x, (np.sin(x[:, 0]) + 0.5 * x[:, 1]).astype(np.float32))

    return TableDataset(
        name="synthetic",
        content_hash="0",
        task=task,
        train=split(n),
        valid=split(80),
        test=split(80),
        feature_names=tuple(f"x{i}" for i in range(p)),
        class_names=("a", "b", "c", "d") if task == "classification" else (),
        target_name="y",
        target_mean=10.0 if task == "regression" else 0.0,
        target_scale=3.0 if task == "regression" else 1.0,
        n_available=n,
        notes=(),
    )


def _text(n=4000):
    data = np.frombuffer((b"the quick brown fox jumps over the lazy dog. " * (n // 40 + 1))[:n], np.uint8)
    return TextDataset("synthetic", "0", data, data[:700], data[100:800], n, ())


def _spec(n_heads=3, d_model=12, **changes):
    spec = TrialSpec(HeadAllocation(n_heads, d_model // n_heads), "uniform", 0.0, 0.01, 0)
    return replace(spec, **changes)


def _run(dataset, spec, *, n_steps=20, **changes):
    recipe = replace(
        default_recipe(dataset, d_model=spec.allocation.d_model, n_steps=n_steps), **{"batch_size": 16, **changes}
    )
    reports = []

    def keep_going(report):
        reports.append(report)
        return False

    return train(dataset, spec, recipe, keep_going), reports


def _untimed(outcome, reports):
    rows = [{k: v for k, v in asdict(row).items() if "seconds" not in k} for row in (outcome, *reports)]
    return repr(rows)  # repr: NaN equals NaN there, and floats keep every bit


ALL = [("regression", _table()), ("classification", _table("classification")), ("text", _text())]


@pytest.mark.parametrize(("task", "dataset"), ALL)
@pytest.mark.parametrize("n_heads", [1, 3])
def test_same_arguments_same_bits(task, dataset, n_heads):
    spec = _spec(n_heads, decorrelation=0.1, weighting="learned", score_test=True)
    first, second = _run(dataset, spec), _run(dataset, spec)
    assert _untimed(*first) == _untimed(*second)
    other = _run(dataset, replace(spec, replicate=1))
    assert other[0].value != first[0].value


@pytest.mark.parametrize(("task", "dataset"), ALL)
def test_a_trials_own_decay_and_warm_up_are_the_recipes(task, dataset):
    outcome, reports = _run(dataset, _spec(weight_decay=0.5, warmup=0.3))
    same = _run(dataset, _spec(), weight_decay=0.5, warmup_steps=6)
    assert _untimed(outcome, reports) == _untimed(*same)
    assert outcome.value != _run(dataset, _spec(weight_decay=0.5))[0].value
    assert outcome.value != _run(dataset, _spec(warmup=0.3))[0].value


@pytest.mark.parametrize(("task", "dataset"), ALL)
def test_reports_are_complete(task, dataset):
    outcome, reports = _run(dataset, _spec(score_test=True))
    assert [report.step for report in reports] == [2, 4, 8, 14, 20]
    per_step = 16 * (64 if task == "text" else 1)
    assert [report.n_seen for report in reports] == [report.step * per_step for report in reports]
    seconds = [report.train_seconds for report in reports]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert all(0 <= report.hdi <= 1 and -1 <= report.output_correlation <= 1 for report in reports)
    assert outcome.value == reports[-1].value
    assert outcome.n_steps == 20
    assert not outcome.stopped
    assert outcome.attention == ("sdpa" if task == "text" else "explicit")
    assert outcome.fallback == "it has no kernel for CPUs"
    assert _run(dataset, _spec(), attention="sdpa")[0].fallback is None  # asked for: nothing to explain
    assert (outcome.effective_neighbours is None) == (task == "text")
    assert math.isfinite(outcome.test_value)
    assert 0 < outcome.seconds_per_step < seconds[-1]
    assert all(0 < report.seconds_per_step < report.train_seconds for report in reports)
    assert reports[-1].seconds_per_step == outcome.seconds_per_step


@pytest.mark.parametrize(("task", "dataset"), ALL)
def test_one_head_has_no_diversity_and_no_use_for_weights_or_penalty(task, dataset):
    plain = _run(dataset, _spec(1))
    assert all(math.isnan(r.hdi) and math.isnan(r.output_correlation) for r in plain[1])
    dressed = _run(dataset, _spec(1, weighting="fibonacci", decorrelation=1.0))
    assert _untimed(*plain) == _untimed(*dressed)


@pytest.mark.parametrize(("task", "dataset"), ALL)
def test_the_test_split_is_read_only_when_asked_for(task, dataset):
    poisoned = replace(dataset, test=None)
    outcome, _ = _run(poisoned, _spec())
    assert outcome.test_value is None
    assert _untimed(*_run(dataset, _spec())) == _untimed(*_run(poisoned, _spec()))


@pytest.mark.parametrize(("task", "dataset"), ALL)
def test_validation_data_never_train(task, dataset):
    if task == "text":
        other = replace(dataset, valid=dataset.valid[::-1].copy())
    else:
        valid = dataset.valid
        other = replace(dataset, valid=TableSplit(valid.inputs[:50] * 2, valid.targets[:50][::-1].copy()))
    spec = _spec(score_test=True)  # same test value: the trained model is the same
    (first, first_reports), (second, second_reports) = _run(dataset, spec), _run(other, spec)
    assert first.value != second.value
    assert first.test_value == second.test_value
    assert [r.hdi for r in first_reports] == [r.hdi for r in second_reports]


def test_a_query_never_sees_its_own_row():
    batches = RowBatches(37, 8, 29, random_stream(0, 0, "batches"))
    seen = []
    for _ in range(12):
        queries, context = batches.next_rows()
        assert sorted(torch.cat([queries, context]).tolist()) == list(range(37))
        seen += queries.tolist()
    assert len(set(seen[:32])) == 32  # an epoch repeats no query


def test_a_querys_own_target_does_not_move_its_training_prediction():
    dataset = _table()
    recipe = replace(default_recipe(dataset, d_model=12), batch_size=16)
    batches = RowBatches(160, 16, 144, random_stream(recipe.seed, 0, "batches"))
    queries, _ = batches.next_rows()
    targets = dataset.train.targets.copy()
    targets[queries.numpy()] += 100.0
    changed = replace(dataset, train=TableSplit(dataset.train.inputs, targets))
    before = table_learner(dataset, _spec(), recipe).loss(0)
    after = table_learner(changed, _spec(), recipe).loss(0)
    # prediction p is unchanged, so mean((p - y - 100)^2) - mean((p - y)^2) = 100^2 - 200 mean(p - y)
    learner = table_learner(dataset, _spec(), recipe)
    inputs, y = torch.tensor(dataset.train.inputs), torch.tensor(dataset.train.targets)
    rest = torch.tensor([i for i in range(160) if i not in set(queries.tolist())])
    p = learner.model(inputs[queries], inputs[rest], y[rest])[:, 0]
    torch.testing.assert_close(after - before, 100.0**2 - 200 * (p - y[queries]).mean(), rtol=1e-4, atol=0.1)


@pytest.mark.parametrize(("task", "dataset"), ALL)
def test_every_split_sees_the_same_batches(task, dataset, monkeypatch):
    """Common random numbers: what reaches the model does not depend on H, weighting, penalty or rate."""
    specs = [_spec(1), _spec(4), _spec(12, weighting="learned", decorrelation=0.5, learning_rate=0.1)]
    recipe = replace(default_recipe(dataset, d_model=12), batch_size=16)
    fed = []
    for spec in specs:
        learner = (text_learner if task == "text" else table_learner)(dataset, spec, recipe)
        batches = []
        learner.model.register_forward_pre_hook(lambda _, inputs, to=batches: to.append([x.clone() for x in inputs]))
        for step in range(15):
            learner.loss(step)
        fed.append(batches)
    for other in fed[1:]:
        for ours, theirs in zip(fed[0], other, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_replicates_and_purposes_are_different_streams():
    draws = {
        tuple(torch.randint(2**31, (2,), generator=random_stream(seed, replicate, purpose)).tolist())
        for seed in (0, 1, -1)
        for replicate in (0, 1)
        for purpose in ("initialisation", "batches")
    }
    assert len(draws) == 12


@pytest.mark.parametrize(("task", "dataset"), ALL)
@pytest.mark.parametrize("n_heads", [1, 3, 12])
def test_an_absurd_learning_rate_fails_with_its_reason(task, dataset, n_heads):
    with pytest.raises(TrialFailed, match=r"became .* at step \d+ \(learning_rate 1000\)") as caught:
        _run(dataset, _spec(n_heads, learning_rate=1e3), n_steps=100)
    assert "\n" not in str(caught.value)


@pytest.fixture
def _eight_gigabytes_left():
    """An address space 8 GB above what is mapped, so that the system refuses more however much memory it has."""
    resource = pytest.importorskip("resource")
    mapped = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(mapped.split()[1]) * 1024 + 8 * 10**9, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to know what is mapped")
@pytest.mark.usefixtures("_eight_gigabytes_left")
def test_running_out_of_memory_fails_the_trial_and_frees_it(monkeypatch):
    dataset = _table()
    rows = 2**16  # half as queries, half as context: 2^30 scores a head, 52 GB in fp32
    huge = np.broadcast_to(dataset.train.inputs[:1], (rows, 4))
    big = replace(dataset, train=TableSplit(huge, np.zeros(rows, np.float32)))
    models = []
    original = training.table_learner

    def watched(*arguments):
        learner = original(*arguments)
        models.append(weakref.ref(learner.model))
        return learner

    monkeypatch.setattr(training, "table_learner", watched)
    with pytest.raises(TrialFailed, match="CPU out of memory with 12 heads of 1") as caught:
        _run(big, _spec(12), batch_size=rows // 2, context_rows=rows // 2, attention="explicit")
    assert "\n" not in str(caught.value)
    assert models[0]() is None  # though the error is still at hand


def test_other_errors_are_not_taken_for_memory():
    def broken(_):
        raise RuntimeError("the caller's own")

    dataset = _table()
    with pytest.raises(RuntimeError, match="the caller's own"):
        train(dataset, _spec(), default_recipe(dataset, d_model=12, n_steps=5), broken)


def test_the_caller_can_stop_a_trial():
    dataset = _table()
    recipe = default_recipe(dataset, d_model=12, n_steps=20)
    outcome = train(dataset, _spec(score_test=True), recipe, lambda report: report.step >= 8)
    assert outcome.stopped
    assert outcome.n_steps == 8
    assert outcome.test_value is None
    finished = train(dataset, _spec(), recipe, lambda report: report.step == 20)
    assert not finished.stopped


def test_half_precision_is_close_for_texts_and_refused_for_tables():
    full, _ = _run(_text(), _spec(), n_steps=60)
    half, _ = _run(_text(), _spec(), n_steps=60, precision="bfloat16")
    assert half.attention == "sdpa"
    assert half.value != full.value
    # bfloat16 has 8 bits: products err by 0.4 %, and the loss of a few nats by less than a tenth of one
    assert half.value == pytest.approx(full.value, abs=0.1)
    assert _untimed(*_run(_text(), _spec(), precision="bfloat16")) == _untimed(
        *_run(_text(), _spec(), precision="bfloat16")
    )
    with pytest.raises(OptionError, match="bfloat16 is for texts"):
        default_recipe(_table(), d_model=12, precision="bfloat16")


def test_regression_beats_the_mean_and_is_in_the_targets_units():
    outcome, reports = _run(_table(), _spec(score_test=True), n_steps=150)
    trivial = 3.0 * float(_table().valid.targets.std())
    assert outcome.value < 0.5 * trivial
    assert outcome.test_value < 0.5 * trivial
    assert outcome.value < reports[0].value
    assert 1 <= outcome.effective_neighbours < 160


def test_classification_beats_the_class_frequencies():
    outcome, _ = _run(_table("classification"), _spec(score_test=True), n_steps=150)
    assert outcome.value < 0.5 * math.log(4)


def test_digits_are_learned():
    from sklearn.datasets import load_digits

    inputs, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(inputs))
    inputs, classes = (inputs[order] / 8 - 1).astype(np.float32), classes[order].astype(np.int64)
    cuts = [slice(0, 1000), slice(1000, 1400), slice(1400, None)]
    train_split, valid, test = (TableSplit(inputs[cut], classes[cut]) for cut in cuts)
    dataset = TableDataset(
        "digits", "0", "classification", train_split, valid, test, tuple(f"p{i}" for i in range(64)),
        tuple("0123456789"), "digit", 0.0, 1.0, 1000, (),
    )  # fmt: skip
    outcome, _ = _run(dataset, _spec(4, 48), n_steps=100, batch_size=64, metric="error_rate")
    assert outcome.value < 0.06  # one nearest neighbour on raw pixels is near 0.02, guessing 0.9


def test_text_is_learned():
    outcome, _ = _run(_text(), _spec(4, 16), n_steps=120, context_length=32)
    counts = np.bincount(_text().train)
    shares = counts[counts > 0] / counts.sum()
    assert outcome.value < -0.5 * (shares * np.log(shares)).sum()  # half of the entropy of single bytes
    bits, _ = _run(_text(), _spec(4, 16), n_steps=120, context_length=32, metric="bits_per_byte")
    assert bits.value == pytest.approx(outcome.value / math.log(2), rel=1e-9)


@pytest.mark.parametrize(("task", "dataset"), ALL)
def test_the_penalty_raises_diversity(task, dataset):
    (_, plain), (_, pushed) = (_run(dataset, _spec(decorrelation=x), n_steps=60) for x in (0.0, 10.0))
    assert pushed[-1].hdi > plain[-1].hdi
    assert pushed[-1].hdi > 0.99  # three heads of four in twelve directions can be orthogonal


def test_reported_hdi_is_that_of_the_key_projections():
    dataset = _text()
    recipe = default_recipe(dataset, d_model=12, n_steps=1)
    report = _run(dataset, _spec(learning_rate=1e-30), n_steps=1)[1][0]
    layers = text_learner(dataset, _spec(), recipe).model.key_projections()
    expected = np.mean([head_diversity_index(layer.detach().numpy()) for layer in layers])
    assert report.hdi == pytest.approx(expected, abs=1e-6)


def test_the_schedule_warms_up_and_ends_at_a_tenth():
    rates = [learning_rate_at(step, 2.0, warmup_steps=4, n_steps=20) for step in range(20)]
    assert rates[:5] == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])
    assert rates[-1] == pytest.approx(0.2)
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert learning_rate_at(0, 2.0, warmup_steps=0, n_steps=1) == 2.0


def test_metrics_against_their_definitions():
    targets = torch.tensor([0.0, 2.0])
    prediction = torch.tensor([[3.0], [6.0]])
    assert table_metric("rmse", prediction, targets, 2.0) == pytest.approx(2 * math.sqrt((9 + 16) / 2))
    assert table_metric("mae", prediction, targets, 2.0) == pytest.approx(2 * 3.5)
    probabilities = torch.tensor([[0.9, 0.1], [0.8, 0.2]])
    classes = torch.tensor([0, 1])
    assert table_metric("error_rate", probabilities, classes, 1.0) == 0.5
    floored = [(1 - PROBABILITY_FLOOR) * p + PROBABILITY_FLOOR / 2 for p in (0.9, 0.2)]
    assert table_metric("log_loss", probabilities, classes, 1.0) == pytest.approx(-np.log(floored).mean(), rel=1e-6)
    assert math.isnan(table_metric("error_rate", torch.full((2, 2), math.nan), classes, 1.0))


def test_scored_windows_are_spread_and_do_not_overlap():
    starts = score_starts(1001, 10, 200).tolist()
    assert len(starts) == 20
    assert starts[0] == 0
    assert starts[-1] == 990
    assert min(np.diff(starts)) >= 10
    assert score_starts(5, 4, 1).tolist() == [0]


def test_tiny_data_either_train_or_say_why_not():
    tiny = _table(n=2)
    assert math.isfinite(_run(tiny, _spec())[0].value)
    with pytest.raises(DataError, match="at least 2 training rows"):
        _run(_table(n=1), _spec())
    short = _text(3)
    assert math.isfinite(_run(short, _spec())[0].value)
    with pytest.raises(DataError, match="at least 2 bytes"):
        _run(_text(1), _spec())


def test_what_cannot_run_is_refused():
    with pytest.raises(OptionError, match="metric for regression must be one of rmse, mae but got 'log_loss'"):
        _run(_table(), _spec(), metric="log_loss")
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="no CUDA device"):
            _run(_table(), _spec(), device="cuda")
