"""A small application whose heads Hydra searches: ``python app.py --multirun``, then
``archopt recommend --storage sqlite:///heads.db --study heads``."""

import math

import hydra
from omegaconf import DictConfig


def train(n_heads: int, d_model: int, learning_rate: float) -> float:
    """Stands for your training: a bowl in log2 of head_dim and of the learning rate, best at 16 and 1e-3."""
    return math.log2(d_model / n_heads / 16) ** 2 + 0.2 * math.log2(learning_rate / 1e-3) ** 2


@hydra.main(config_path=".", config_name="config", execution_whitelist=["archopt.*"])
def main(config: DictConfig) -> float:
    """Hydra's job."""
    return train(config.model.n_heads, config.model.d_model, config.learning_rate)


if __name__ == "__main__":
    main()
