"""Reports of a table search, a text search, a campaign and a study of somebody else's, and a browser that opens them.

Names that come from outside hold markup wherever they can.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import json_to_distribution

import archopt
from archopt.campaign.reporting import report

HOSTILE = "</script><img src=x onerror=alert(1)>&$x^2$"
RECORDED = Path(__file__).parent / "recorded"
PAGES = ("table", "text", "campaign", "theirs")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_MS = 120_000  # two shared cores may take a minute for plotly.js
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@dataclass
class Opened:
    """A page in the browser, and what it did while it was opened."""

    name: str
    page: Any
    url: str
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def hostile() -> str:
    return HOSTILE


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium, or give one on the PATH")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=[*QUIET, "--disable-sync"])
        yield browser
        browser.close()


@pytest.fixture(scope="session", params=PAGES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chromium: Any) -> Iterator[Opened]:
    """The report of each, in a window of a desktop, light, with no network; made only where there is a browser."""
    base = tmp_path_factory.mktemp("reports")
    url = f"sqlite:///{base / 'study.db'}"
    name = _theirs(url) if request.param == "theirs" else _recorded(request.param, url)
    path = report(name, storage=url, out=base / request.param, pictures=False).files[0]
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light", offline=True)
    context.set_default_timeout(PATIENCE_MS)
    found = Opened(request.param, context.new_page(), path.as_uri())
    found.page.on("console", lambda message: found.console.append(f"{message.type}: {message.text}"))
    found.page.on("pageerror", lambda error: found.console.append(str(error)))
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.on("dialog", lambda dialog: (found.dialogs.append(dialog.message), dialog.dismiss()))
    found.page.goto(found.url)
    found.page.wait_for_selector("html[data-drawn]")
    yield found
    context.close()


def _recorded(name: str, url: str) -> str:
    """What `archopt search` left in a storage for a table, a text, or a campaign with four cells; its name.

    The table has a column and categories with markup in their names.
    """
    studies = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    for recorded in studies:
        study = optuna.create_study(study_name=recorded["name"], storage=url)
        for key, value in recorded["user_attrs"].items():
            study.set_user_attr(key, value)
        distributions = {
            key: json_to_distribution(json.dumps(plain)) for key, plain in recorded["distributions"].items()
        }
        study.add_trials([_trial(plain, distributions) for plain in recorded["trials"]])
    return recorded["name"] if len(studies) == 1 else recorded["name"].rsplit("-", 2)[0]


def _trial(plain: dict[str, Any], distributions: dict[str, Any]) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        state=optuna.trial.TrialState[plain["state"]],
        value=plain["value"],
        params=plain["params"],
        distributions={key: distributions[key] for key in plain["params"]},
        user_attrs=plain["user_attrs"],
        intermediate_values={int(step): value for step, value in plain["intermediate_values"].items()},
    )


def _theirs(url: str) -> str:
    """A study that archopt did not make: values to be maximised, names with markup, head diversity, curves, a fault."""
    study = optuna.create_study(
        study_name=HOSTILE,
        storage=url,
        direction="maximize",
        sampler=archopt.HeadAllocationSampler(d_model=16, n_samples=1_000, seed=0),
    )
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.set_metric_names(["<u>accuracy</u>"])

    def objective(trial: optuna.Trial) -> float:
        heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8, 16])
        scheme = trial.suggest_categorical("weighting", ["uniform", "<img src=y onerror=alert(4)>"])
        value = 0.9 - 0.02 * abs(heads.bit_length() - 3) + 0.001 * (trial.number % 5)
        for step in (10, 20, 40):
            archopt.report_diversity(trial, step, value - 1 / step, 0.5 + 0.01 * (trial.number % 7))
        if trial.number == 7:
            raise ValueError("</td><script>alert(5)</script>")
        return value + 0.002 * (scheme == "uniform")

    study.optimize(objective, n_trials=24, catch=ValueError)
    return HOSTILE
