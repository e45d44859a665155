"""The callback in real hyperparameter searches of a tiny BERT: what it records, when, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("archopt_huggingface")

import optuna  # noqa: E402
from archopt_huggingface import DiversityCallback  # noqa: E402
from optuna.trial import FrozenTrial, TrialState  # noqa: E402
from torch import nn  # noqa: E402

import archopt  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_core")]

WIDTH, DIVERSITY, HEADS = 32, "archopt:diversity", "num_attention_heads"
N_EPOCHS, STEPS = 3, [4, 8, 12]  # 32 rows in batches of 8


def building(*n_heads: int) -> Callable[[optuna.Trial | None], nn.Module]:
    """A model_init that chooses among these."""

    def build(trial: optuna.Trial | None) -> nn.Module:
        chosen = n_heads[0] if trial is None else trial.suggest_categorical(HEADS, n_heads)
        transformers.set_seed(0 if trial is None else archopt.replicate(trial))
        config = transformers.BertConfig(
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            num_hidden_layers=2,
            num_attention_heads=chosen,
            vocab_size=20,
            max_position_embeddings=8,
        )
        model: nn.Module = transformers.BertForSequenceClassification(config)
        return model

    return build


build = building(1, 2, 4, 8)


def _rows() -> list[dict[str, Any]]:
    tokens = torch.randint(20, (32, 6), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": row, "labels": int(row[0] > 9)} for row in tokens]


@pytest.fixture
def trainer_of(tmp_path: Path) -> Callable[..., Any]:
    def trainer_of(model_init: Any, *callbacks: Any, **options: Any) -> Any:
        rows = _rows()
        arguments = transformers.TrainingArguments(
            tmp_path,
            num_train_epochs=N_EPOCHS,
            learning_rate=1e-2,
            per_device_train_batch_size=8,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        given = {"train_dataset": rows, "eval_dataset": rows, **options}
        trainer = transformers.Trainer(args=arguments, model_init=model_init, callbacks=list(callbacks), **given)
        trainer.remove_callback(transformers.PrinterCallback)
        return trainer

    return trainer_of


def _no_further_settings(trial: optuna.Trial) -> dict[str, Any]:
    return {}


def _search(trainer: Any, storage: Any, hp_space: Any = _no_further_settings, **options: Any) -> Any:
    return trainer.hyperparameter_search(
        hp_space=hp_space,
        backend="optuna",
        storage=storage,
        study_name="heads",
        **{"n_trials": 1, **options},
    )


def _trials(storage: Any) -> list[FrozenTrial]:
    return optuna.load_study(study_name="heads", storage=storage).trials


def _hdi_of(model: Any) -> float:
    """From the weights themselves: linear layers keep (out, in), heads side by side in out."""
    by_layer = []
    for layer in model.bert.encoder.layer:
        keys = layer.attention.self.key.weight.detach().numpy()
        heads = keys.reshape(model.config.num_attention_heads, -1, WIDTH).transpose(0, 2, 1)
        by_layer.append(archopt.theory.head_diversity_index(heads))
    return float(np.mean(by_layer))


class KeepModel(transformers.TrainerCallback):  # type: ignore[misc]
    """The last model of each training: the Trainer releases it after the trial."""

    def __init__(self) -> None:
        self.models: list[Any] = []

    def on_train_end(self, *_: Any, **kwargs: Any) -> None:
        self.models.append(kwargs["model"])


class PruneAt(optuna.pruners.BasePruner):
    """Prunes at a step, and keeps what it saw of the trial's diversity at each."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.seen: list[list[int]] = []

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        self.seen.append([row[0] for row in trial.user_attrs.get(DIVERSITY, [])])
        return trial.last_step == self.step


@pytest.mark.parametrize("n_heads", [1, 4])
def test_diversity_is_recorded_at_every_reported_step(trainer_of: Callable[..., Any], n_heads: int) -> None:
    storage, keep, diversity = optuna.storages.InMemoryStorage(), KeepModel(), DiversityCallback(building(n_heads))
    _search(trainer_of(diversity.model_init, diversity, keep), storage)
    (trial,), (model,) = _trials(storage), keep.models
    steps, hdi, _ = zip(*trial.user_attrs[DIVERSITY], strict=True)
    assert list(steps) == list(trial.intermediate_values) == STEPS
    if n_heads == 1:
        assert hdi == (None, None, None)
    else:
        assert hdi[-1] == pytest.approx(_hdi_of(model), abs=1e-12)
        assert len(set(hdi)) == len(STEPS)  # training moves the heads


def test_the_pruner_is_asked_with_the_diversity_of_the_same_step(trainer_of: Callable[..., Any]) -> None:
    storage, pruner, diversity = optuna.storages.InMemoryStorage(), PruneAt(8), DiversityCallback(build)
    trainer = trainer_of(diversity.model_init, diversity)
    with pytest.raises(ValueError, match="No trials are completed yet"):  # the Trainer's, where all trials are pruned
        _search(trainer, storage, pruner=pruner)
    (trial,) = _trials(storage)
    assert trial.state is TrialState.PRUNED
    assert list(trial.intermediate_values) == [4, 8]
    assert pruner.seen == [[4], [4, 8]]


def test_the_strictest_hdi_pruner_leaves_the_trainer_a_best_trial(trainer_of: Callable[..., Any]) -> None:
    def learning_rate(trial: optuna.Trial) -> dict[str, float]:  # no two trials alike, most of them bad
        return {"learning_rate": trial.suggest_float("learning_rate", 1e-7, 1e-2, log=True)}

    def model_init(trial: optuna.Trial | None) -> nn.Module:
        if trial is not None:
            learning_rate(trial)
        return build(trial)

    storage, diversity = optuna.storages.InMemoryStorage(), DiversityCallback(model_init)
    best = _search(
        trainer_of(diversity.model_init, diversity),
        storage,
        learning_rate,
        n_trials=10,
        sampler=optuna.samplers.RandomSampler(seed=0),
        pruner=archopt.HDIPruner(
            n_min_trials=1, threshold=1.0, patience=0, run_to_end_share=0.0, max_pruned_share=1.0, seed=0
        ),
    )
    states = [trial.state for trial in _trials(storage)]
    assert states.count(TrialState.PRUNED) >= 2
    assert states[int(best.run_id)] is TrialState.COMPLETE


def test_a_search_with_sampler_and_pruner_ends_in_a_recommendation(trainer_of: Callable[..., Any]) -> None:
    storage, diversity = optuna.storages.InMemoryStorage(), DiversityCallback(build)
    sampler = archopt.HeadAllocationSampler(d_model=WIDTH, head_param=HEADS, n_samples=32, family="text", seed=0)
    _search(
        trainer_of(diversity.model_init, diversity),
        storage,
        n_trials=6,
        sampler=sampler,
        pruner=archopt.HDIPruner(n_min_trials=4, seed=0),
    )
    found = archopt.recommend(optuna.load_study(study_name="heads", storage=storage))
    assert found.allocation.d_model == WIDTH
    assert set(found.params) == {HEADS}


def test_several_evaluation_sets_are_one_row_a_step(trainer_of: Callable[..., Any]) -> None:
    storage, diversity = optuna.storages.InMemoryStorage(), DiversityCallback(build)
    two = {"old": _rows()[:8], "new": _rows()[8:]}
    trainer = trainer_of(diversity.model_init, diversity, eval_dataset=two)
    _search(trainer, storage, compute_objective=lambda metrics: metrics["eval_new_loss"])
    (trial,) = _trials(storage)
    assert [row[0] for row in trial.user_attrs[DIVERSITY]] == list(trial.intermediate_values) == STEPS


def test_what_happens_after_the_search_is_not_the_trials(trainer_of: Callable[..., Any]) -> None:
    storage, diversity = optuna.storages.InMemoryStorage(), DiversityCallback(build)
    trainer = trainer_of(diversity.model_init, diversity)
    _search(trainer, storage)
    before = _trials(storage)[0].user_attrs
    trainer.train()  # outside a search: nothing is recorded, and nothing fails
    trainer.evaluate()
    assert _trials(storage)[0].user_attrs == before


def test_a_collapse_is_recorded_as_no_diversity_and_training_goes_on(trainer_of: Callable[..., Any]) -> None:
    class Collapse(transformers.TrainerCallback):  # type: ignore[misc]
        def on_epoch_end(self, *_: Any, **kwargs: Any) -> None:
            with torch.no_grad():
                kwargs["model"].bert.encoder.layer[1].attention.self.key.weight[:8] = 0.0

    storage, diversity = optuna.storages.InMemoryStorage(), DiversityCallback(building(4))
    trainer = trainer_of(diversity.model_init, Collapse(), diversity)
    with pytest.warns(RuntimeWarning, match=r"no head diversity: bert\.encoder\.layer\.1\.attention\.self: head 0"):
        _search(trainer, storage)
    (trial,) = _trials(storage)
    assert trial.state is TrialState.COMPLETE
    assert trial.user_attrs[DIVERSITY] == [[step, None, None] for step in STEPS]


def test_a_model_without_known_attention_is_refused_before_training(trainer_of: Callable[..., Any]) -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.EmbeddingBag(20, 2)
            self.calls = 0

        def forward(self, input_ids: Any, labels: Any) -> dict[str, Any]:
            self.calls += 1
            scores = self.scores(input_ids)
            return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}

    diversity = DiversityCallback(lambda trial: Bag())
    trainer = trainer_of(diversity.model_init, diversity)
    with pytest.raises(archopt.ArchoptError, match=r"^Bag holds no attention layer that archopt knows") as caught:
        _search(trainer, optuna.storages.InMemoryStorage())
    assert "\n" not in str(caught.value)
    assert trainer.model.calls == 0


def test_a_search_that_the_callback_is_not_part_of_is_refused(trainer_of: Callable[..., Any]) -> None:
    trainer = trainer_of(build, DiversityCallback(build))  # not its model_init
    with pytest.raises(archopt.ArchoptError, match=r"needs Trainer\(model_init=callback\.model_init\)"):
        _search(trainer, optuna.storages.InMemoryStorage())


@pytest.mark.parametrize("model_init", [lambda: None, lambda trial, width: None, "bert"])
def test_model_init_takes_the_trial_alone(model_init: Any) -> None:
    with pytest.raises(archopt.ArchoptError, match="model_init must be a function of the trial alone"):
        DiversityCallback(model_init)
