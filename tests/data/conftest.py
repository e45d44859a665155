from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def frame() -> pd.DataFrame:
    """A messy table of 400 rows: numbers, missing values, categories, truth values, dates, identifiers."""
    rng = np.random.default_rng(0)
    n = 400
    size = rng.normal(80.0, 20.0, n)
    table = pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, size),
            "city": rng.choice(["Rome", "Oslo", "Lima", None], n, p=[0.5, 0.3, 0.1, 0.1]),
            "street": [f"street {j}" for j in rng.zipf(1.6, n) % 150],
            "garden": rng.choice(["true", "false", None], n),
            "sold": pd.date_range("2023-01-01", periods=n, freq="7h").astype(str),
            "identifier": [f"house-{j}" for j in range(n)],
            "constant": 1,
            "nothing": np.nan,
            "owner": rng.integers(0, 25, n),
        }
    )
    table["price"] = size * 1_000 + rng.normal(0.0, 5_000.0, n)
    table["kind"] = rng.choice(["flat", "house", "villa"], n, p=[0.6, 0.3, 0.1])
    return table


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., str]:
    """Write a frame, a text or bytes to a file of the given name, and give its path."""

    def save(content: pd.DataFrame | str | bytes, name: str = "table.csv") -> str:
        path = tmp_path / name
        if isinstance(content, pd.DataFrame):
            if name.endswith(".parquet"):
                content.to_parquet(path)
            else:
                content.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8", newline="")
        else:
            path.write_bytes(content)
        return str(path)

    return save
