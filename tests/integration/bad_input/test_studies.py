"""Studies that somebody else made: several objectives, no heads, infinite values, names that are anything."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from archopt.campaign.ask import ASKED_KEY
from archopt.campaign.joining import CAMPAIGN_KEY
from archopt.campaign.storage import SETTINGS_KEY
from archopt.search_space import HEAD_PARAMETER_KEY, OPTIMUM_KEY

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

Refused = Callable[..., int]

# not shrunk: an example takes tenths of a second
seeded = settings(derandomize=True, database=None, deadline=None, phases=[Phase.generate])

COMMANDS = {
    "recommend": "recommend --json --d-model 64 --study",
    "recommend without d": "recommend --json --study",
    "fit": "fit --json --no-plan --study",
    "ask": "ask --d-model 64 --study",
    "ask again": "ask --study",
    "tell": "tell --trial 0 --value 1 --study",
    "tell at": "tell --trial 1 --at 3=0.5 --study",
    "worker": "worker --quiet --json --name",
    "search": "search good.csv --target price --d-model 8 --workers 1 --quiet --name",
}
heads = st.sampled_from(
    ["n_heads", "num_heads", "model.heads", "head_dim", "allocation", "heads/n_heads", "x", "", "n_heads "]
)
widths = st.sampled_from(["d_model", "hidden_size", "width", "lr"])
choices = st.sampled_from(
    [
        [1, 2, 4], ["1", "2"], ["1x64", "2x32"], ["many", "few"], [0, -1], [1.5, 2.5], [True, False], [None, 1],
        [1e300, 2], [3, 5, 7], ["8x0", "x8"], [64], [float("inf"), 1.0], [float("nan")], ["\x1b[2J<b>{x}"],
    ]
)  # fmt: skip
values = st.one_of(
    st.floats(allow_nan=False), st.sampled_from([0.0, 1.0, 1.0, math.inf, -math.inf, 1e308, -1e308, 5e-324])
)
names = st.one_of(
    st.sampled_from(["a=b", "=1", " ", "mine-n10-d8", "<b>{x}%s", "\x1b[31m", "../x", "a\nb", "é" * 150, "'; --"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9),
)
states = st.sampled_from(["COMPLETE", "COMPLETE", "COMPLETE", "PRUNED", "FAIL", "RUNNING", "WAITING"])
archopts_own = st.dictionaries(
    st.sampled_from([SETTINGS_KEY, ASKED_KEY, CAMPAIGN_KEY, HEAD_PARAMETER_KEY, OPTIMUM_KEY]),
    st.sampled_from([None, 3, "x", [], {}, {"d_model": "x"}, [1], ["a", "b"], [math.nan, -1.0], {"name": 1}]),
    max_size=1,
)


@st.composite
def trials(draw: st.DrawFn) -> list[optuna.trial.FrozenTrial]:
    """Up to six trials with the same parameters."""
    name, options, width = draw(heads), draw(choices), draw(st.none() | widths)
    spaces: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.CategoricalDistribution(options)
    }
    if width is not None and width != name:
        spaces[width] = draw(
            st.sampled_from(
                [
                    optuna.distributions.FloatDistribution(-1.0, 64.0),
                    optuna.distributions.IntDistribution(0, 64),
                    optuna.distributions.CategoricalDistribution([64, 128]),
                    optuna.distributions.CategoricalDistribution(["64", "wide"]),
                ]
            )
        )
    found = []
    for _ in range(draw(st.sampled_from([0, 1, 2, 6]))):
        state = optuna.trial.TrialState[draw(states)]
        params = {name: draw(st.sampled_from(options))}
        if len(spaces) > 1:
            space = spaces[str(width)]
            params[str(width)] = space.choices[0] if hasattr(space, "choices") else draw(st.sampled_from([0, 8, 64]))
        curve = draw(st.dictionaries(st.sampled_from([0, 1, 10, 2**31 - 1]), values, max_size=2))
        found.append(
            optuna.trial.create_trial(
                params=params,
                distributions=spaces,
                state=state,
                value=draw(values) if state.name == "COMPLETE" else None,
                intermediate_values=curve,
            )
        )
    return found


@pytest.fixture(scope="module")
def others(folder: Path) -> Iterator[optuna.storages.RDBStorage]:
    storage = optuna.storages.RDBStorage("sqlite:///others.db")
    yield storage
    storage.remove_session()
    storage.engine.dispose()


@settings(seeded, max_examples=60)
@given(
    command=st.sampled_from(sorted(COMMANDS)),
    name=names,
    found=trials(),
    n_objectives=st.sampled_from([1, 1, 1, 1, 2]),
    direction=st.sampled_from(["minimize", "maximize"]),
    attributes=archopts_own,
)
def test_a_study_by_somebody_else(
    command: str,
    name: str,
    found: list[optuna.trial.FrozenTrial],
    n_objectives: int,
    direction: str,
    attributes: dict[str, object],
    others: optuna.storages.RDBStorage,
    refused: Refused,
) -> None:
    if command == "search":
        name = "theirs"
    study = optuna.create_study(study_name=name, storage=others, directions=[direction] * n_objectives)
    try:
        if n_objectives == 1:
            study.add_trials(found)
        for key, value in attributes.items():
            study.set_user_attr(key, value)
        words = COMMANDS[command].split()
        option = words.pop()
        given_name = f"{name}=1000,64" if command == "fit" else name
        refused([*words, f"{option}={given_name}", "--storage", "sqlite:///others.db"], or_fine=command != "search")
    finally:
        optuna.delete_study(study_name=name, storage=others)
