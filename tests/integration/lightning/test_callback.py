"""The pruning callback in real Lightning trainings: what it records, when, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pl = pytest.importorskip("lightning.pytorch")
pytest.importorskip("optuna_integration")
archopt_lightning = pytest.importorskip("archopt_lightning")

import optuna  # noqa: E402
from archopt_lightning import DiversityPruningCallback  # noqa: E402
from optuna.trial import FrozenTrial, TrialState  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import archopt  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.usefixtures("one_core"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),  # of torch's, met by Lightning
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
]

WIDTH, DIVERSITY = 8, "archopt:diversity"
ROWS = TensorDataset(torch.randn(16, 3, WIDTH, generator=torch.Generator().manual_seed(0)))
LIGHTNINGS = ["lightning.pytorch", "pytorch_lightning"]


def _attending(package: Any) -> Callable[..., Any]:
    class Attending(package.LightningModule):  # type: ignore[misc]
        """Two layers of attention that learn to copy their input."""

        def __init__(self, n_heads: int = 2, learning_rate: float = 0.3) -> None:
            super().__init__()
            self.first = nn.MultiheadAttention(WIDTH, n_heads, batch_first=True)
            self.second = nn.MultiheadAttention(WIDTH, n_heads, batch_first=True)
            self.learning_rate = learning_rate

        def loss(self, batch: list[Tensor]) -> Tensor:
            (x,) = batch
            y, _ = self.first(x, x, x)
            z, _ = self.second(y, y, y)
            return (z - x).square().mean()

        def training_step(self, batch: list[Tensor], _: int) -> Tensor:
            return self.loss(batch)

        def validation_step(self, batch: list[Tensor], _: int) -> None:
            self.log("val_loss", self.loss(batch), sync_dist=True)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=self.learning_rate)

    return Attending


Attending = _attending(pl)


def _fit(model: nn.Module, *callbacks: Any, package: Any = pl, n_epochs: int = 3, **options: Any) -> None:
    trainer = package.Trainer(
        max_epochs=n_epochs,
        callbacks=list(callbacks),
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    loader = DataLoader(ROWS, batch_size=4)
    trainer.fit(model, loader, loader)


def _hdi_of(*layers: nn.MultiheadAttention) -> float:
    """From the weights themselves: rows of queries, keys and values, heads side by side."""
    by_layer = []
    for layer in layers:
        keys = layer.in_proj_weight.detach().numpy()[WIDTH : 2 * WIDTH]
        heads = keys.reshape(layer.num_heads, WIDTH // layer.num_heads, WIDTH).transpose(0, 2, 1)
        by_layer.append(archopt.theory.head_diversity_index(heads))
    return float(np.mean(by_layer))


class PruneAt(optuna.pruners.BasePruner):
    """Prunes at a step, and keeps what it saw of the trial's diversity at each."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.seen: list[list[int]] = []

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        self.seen.append([row[0] for row in trial.user_attrs.get(DIVERSITY, [])])
        return trial.last_step == self.step


@pytest.mark.parametrize("package", LIGHTNINGS)
def test_diversity_is_recorded_at_every_reported_step(package: str) -> None:
    lightning = pytest.importorskip(package)
    torch.manual_seed(0)
    study = optuna.create_study()
    model = _attending(lightning)()
    start = _hdi_of(model.first, model.second)
    trial = study.ask()
    _fit(model, DiversityPruningCallback(trial), package=lightning)  # with Lightning's sanity check before training
    steps, hdi, _ = zip(*trial.user_attrs[DIVERSITY], strict=True)
    assert list(steps) == list(study.trials[0].intermediate_values) == [0, 1, 2]
    assert hdi[-1] == pytest.approx(_hdi_of(model.first, model.second), abs=1e-12)
    assert min(abs(value - start) for value in hdi) > 1e-3  # none is the sanity check's


def test_the_pruner_is_asked_with_the_diversity_of_the_same_step() -> None:
    pruner = PruneAt(1)
    study = optuna.create_study(pruner=pruner)
    study.optimize(lambda trial: _fit(Attending(), DiversityPruningCallback(trial)), n_trials=1)
    (trial,) = study.trials
    assert trial.state is TrialState.PRUNED
    assert list(trial.intermediate_values) == [0, 1]
    assert pruner.seen == [[0], [0, 1]]


def test_attention_names_the_part_that_is_measured() -> None:
    trial = optuna.create_study().ask()
    model = Attending()
    _fit(model, DiversityPruningCallback(trial, attention="second"), n_epochs=1)
    ((_, hdi, _),) = trial.user_attrs[DIVERSITY]
    assert hdi == pytest.approx(_hdi_of(model.second), abs=1e-12)
    assert abs(hdi - _hdi_of(model.first)) > 1e-6


@pytest.mark.filterwarnings("ignore:The reported value is ignored")  # Optuna's, of the second validation
def test_of_several_validations_in_an_epoch_the_first_counts_as_optuna_has_it() -> None:
    class Watch(pl.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.hdi: list[float] = []

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            self.hdi.append(_hdi_of(module.first, module.second))

    watch, trial = Watch(), optuna.create_study().ask()
    _fit(
        Attending(),
        watch,
        DiversityPruningCallback(trial),
        n_epochs=2,
        val_check_interval=0.5,
        num_sanity_val_steps=0,
    )
    assert len(watch.hdi) == 4
    assert [row[1] for row in trial.user_attrs[DIVERSITY]] == pytest.approx(watch.hdi[::2], abs=1e-12)


def test_a_metric_that_is_not_logged_records_nothing() -> None:
    trial = optuna.create_study().ask()
    with pytest.warns(UserWarning, match="The metric 'accuracy' is not in the evaluation logs"):
        _fit(Attending(), DiversityPruningCallback(trial, monitor="accuracy"), n_epochs=1)
    assert trial.user_attrs == {}


def test_a_collapse_is_recorded_as_no_diversity_and_training_goes_on() -> None:
    class Collapse(pl.Callback):  # type: ignore[misc]
        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            with torch.no_grad():
                module.first.in_proj_weight[WIDTH : WIDTH + 2] = 0.0

    trial = optuna.create_study().ask()
    with pytest.warns(RuntimeWarning, match="no head diversity: first: head 0 lacks full column rank"):
        _fit(Attending(learning_rate=0.0), DiversityPruningCallback(trial), Collapse(), n_epochs=2)
    (_, before, _), (_, after, _) = trial.user_attrs[DIVERSITY]  # validation comes before the epoch's end
    assert before is not None
    assert after is None


def test_distributed_training_records_and_prunes_as_well(tmp_path: Path) -> None:
    def objective(trial: optuna.Trial) -> None:
        callback = DiversityPruningCallback(trial)
        _fit(Attending(), callback, devices=2, strategy="ddp_fork")
        callback.check_pruned()

    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 'heads.db'}", pruner=PruneAt(1))
    study.optimize(objective, n_trials=1)
    (trial,) = study.trials
    assert trial.state is TrialState.PRUNED
    assert [row[0] for row in trial.user_attrs[DIVERSITY]] == list(trial.intermediate_values) == [0, 1]


@pytest.mark.parametrize(
    ("attention", "told"),
    [
        ("encoder", "attention must name a part of Attending but got 'encoder'; its parts: first, second"),
        ("first.out_proj", "holds no attention layer that archopt knows"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_training(attention: str, told: str) -> None:
    model, trial = Attending(), optuna.create_study().ask()
    before = model.first.in_proj_weight.detach().clone()
    with pytest.raises(archopt.ArchoptError, match=told) as caught:
        _fit(model, DiversityPruningCallback(trial, attention=attention))
    assert "\n" not in str(caught.value)
    assert torch.equal(model.first.in_proj_weight, before)


def test_a_study_with_sampler_and_pruner_ends_in_a_recommendation() -> None:
    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8])
        torch.manual_seed(archopt.replicate(trial))
        model = Attending(n_heads, learning_rate=0.01)
        _fit(model, DiversityPruningCallback(trial), n_epochs=2)
        return float(model.loss([ROWS.tensors[0]]).detach())

    sampler = archopt.HeadAllocationSampler(d_model=WIDTH, n_samples=16, seed=0)
    study = optuna.create_study(sampler=sampler, pruner=archopt.HDIPruner(n_min_trials=4, seed=0))
    study.optimize(objective, n_trials=8)
    assert archopt.recommend(study).allocation.d_model == WIDTH
    for trial in study.trials:
        assert all((hdi is None) == (trial.params["n_heads"] == 1) for _, hdi, _ in trial.user_attrs[DIVERSITY])
        assert [row[0] for row in trial.user_attrs[DIVERSITY]] == list(trial.intermediate_values)
