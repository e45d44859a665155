"""A storage with what archopt writes: a search with its comparison, and a study that was asked."""

import math
from dataclasses import dataclass
from pathlib import Path

import optuna
import pytest

import archopt


@dataclass(frozen=True)
class Written:
    """Where it lies, and the names of the two studies in it."""

    url: str
    folder: Path
    search: str = "digits"
    asked: str = "asked"

    def study(self, name: str) -> optuna.Study:
        return optuna.load_study(study_name=name, storage=self.url)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Ten trials of ten steps on digits; trials that ended in every way, and one that was never told."""
    pytest.importorskip("torch")
    from archopt.campaign.ask import ask
    from archopt.campaign.tell import News, tell

    folder = tmp_path_factory.mktemp("written")
    here = Written(f"sqlite:///{folder / 'study.db'}", folder)
    ends = [
        *(News(reports={10: 2.0 + k, 20: 1.0 + k}, diversity={10: 0.4, 20: 0.5}, value=1.0 + k) for k in range(4)),
        News(reports={10: math.nan}, value=math.nan),
        News(failed="CUDA out of memory"),
        News(reports={10: 9.0}, pruned=True),
        News(failed="gave up", fault="interrupted"),
    ]
    ask(here.url, here.asked, d_model=12, param=("learning_rate=1e-4:1e-2:log", "dropout=0,0.1"))
    for news in ends:
        tell(here.url, here.asked, ask(here.url, here.asked).trial, news)
    archopt.search(
        "sklearn:digits",
        12,
        n_trials=10,
        n_steps=10,
        n_workers=1,
        storage=here.url,
        name=here.search,
        out=folder / "out",
        quiet=True,
    )
    return here
