"""How many heads for a small sequence classifier trained by Lightning: a minute on a CPU, nothing to download."""

import logging
import sys

import lightning.pytorch as pl
import optuna
import torch
from archopt_lightning import DiversityPruningCallback
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import archopt

WIDTH, LENGTH, VOCABULARY = 32, 8, 8


class Classifier(pl.LightningModule):
    """Does the first token come again?"""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH) / 10)
        layer = nn.TransformerEncoderLayer(WIDTH, n_heads, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def _loss(self, batch: list[Tensor]) -> Tensor:
        tokens, labels = batch
        encoded = self.encoder(self.embedding(tokens) + self.positions)
        return nn.functional.cross_entropy(self.head(encoded[:, 0]), labels)

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        return self._loss(batch)

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        self.log("val_loss", self._loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def sequences(n: int, seed: int) -> TensorDataset:
    tokens = torch.randint(VOCABULARY, (n, LENGTH), generator=torch.Generator().manual_seed(seed))
    return TensorDataset(tokens, (tokens[:, 1:] == tokens[:, :1]).any(dim=1).long())


TRAIN, VALID = sequences(1024, seed=0), sequences(512, seed=1)


def objective(trial: optuna.Trial, n_epochs: int) -> float:
    n_heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8, 16, 32])
    pl.seed_everything(archopt.replicate(trial), verbose=False)
    trainer = pl.Trainer(
        max_epochs=n_epochs,
        callbacks=[DiversityPruningCallback(trial, monitor="val_loss")],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(n_heads), DataLoader(TRAIN, batch_size=32, shuffle=True), DataLoader(VALID, batch_size=512))
    return trainer.callback_metrics["val_loss"].item()


def main(n_trials: int = 20, n_epochs: int = 5) -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = archopt.HeadAllocationSampler(d_model=WIDTH, n_samples=len(TRAIN), family="text", seed=0)
    study = optuna.create_study(sampler=sampler, pruner=archopt.HDIPruner(seed=0))
    study.optimize(lambda trial: objective(trial, n_epochs), n_trials=n_trials)
    print(archopt.recommend(study).reason)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
