"""How many heads for a small BERT, by Trainer.hyperparameter_search: a minute on a CPU, nothing to download."""

import sys
import tempfile

import optuna
import torch
import transformers
from archopt_huggingface import DiversityCallback

import archopt

WIDTH, LENGTH, VOCABULARY = 32, 5, 5


def model_init(trial: optuna.Trial | None) -> transformers.PreTrainedModel:
    n_heads = 4
    if trial is not None:
        n_heads = trial.suggest_categorical("num_attention_heads", [1, 2, 4, 8, 16, 32])
        transformers.set_seed(archopt.replicate(trial))  # after the last suggestion
    config = transformers.BertConfig(
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=n_heads,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.2,  # 1 / sqrt(width); the default is made for wide models
        num_labels=2,
    )
    return transformers.BertForSequenceClassification(config)


def sequences(n: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Does the first token come again?"""
    tokens = torch.randint(VOCABULARY, (n, LENGTH), generator=torch.Generator().manual_seed(seed))
    labels = (tokens[:, 1:] == tokens[:, :1]).any(dim=1).long()
    return [{"input_ids": row, "labels": label} for row, label in zip(tokens, labels, strict=True)]


def main(n_trials: int = 20, n_epochs: int = 5) -> None:
    transformers.logging.set_verbosity_error()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.InMemoryStorage()  # a URL such as "sqlite:///heads.db" keeps it
    with tempfile.TemporaryDirectory() as folder:
        diversity = DiversityCallback(model_init)
        trainer = transformers.Trainer(
            args=transformers.TrainingArguments(
                folder,
                num_train_epochs=n_epochs,
                learning_rate=5e-3,
                per_device_train_batch_size=32,
                per_device_eval_batch_size=512,
                eval_strategy="epoch",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=sequences(1024, seed=0),
            eval_dataset=sequences(512, seed=1),
            model_init=diversity.model_init,
            callbacks=[diversity],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.hyperparameter_search(
            hp_space=lambda trial: {},  # further settings of TrainingArguments would be suggested here
            n_trials=n_trials,
            backend="optuna",
            study_name="heads",
            storage=storage,
            sampler=archopt.HeadAllocationSampler(
                d_model=WIDTH, n_samples=1024, family="text", head_param="num_attention_heads", seed=0
            ),
            pruner=archopt.HDIPruner(seed=0),
        )
    study = optuna.load_study(study_name="heads", storage=storage)
    print(archopt.recommend(study).reason)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
