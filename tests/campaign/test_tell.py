"""How trials that were asked for go on and end."""

import json
import math
from pathlib import Path

import optuna
import pytest

from archopt.campaign.ask import ask
from archopt.campaign.tell import News, tell
from archopt.errors import OptionError, StorageError
from archopt.search_space import ATTRIBUTES, HEAD_PARAMETER_KEY, OPTIMUM_KEY, HeadParameter, read_records

STEPS = (10, 20, 30, 40)


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    ask(url, "mine", d_model=12)
    return url


def _trial(url: str, number: int = 0) -> optuna.trial.FrozenTrial:
    return optuna.load_study(study_name="mine", storage=url).trials[number]


def test_a_value_reports_and_diversity_are_kept(url: str) -> None:
    on_its_way = tell(url, "mine", 0, News(reports={10: 0.9}, diversity={10: 0.4}))
    assert (on_its_way.state, on_its_way.prune) == ("running", False)
    assert on_its_way.reason == "0 finished trials, 8 needed"
    ended = tell(url, "mine", 0, News(reports={20: 0.8}, value=0.31))
    assert (ended.state, ended.value) == ("complete", 0.31)
    trial = _trial(url)
    assert (trial.state.name, trial.value, trial.intermediate_values) == ("COMPLETE", 0.31, {10: 0.9, 20: 0.8})
    assert trial.user_attrs[ATTRIBUTES.diversity] == [[10, 0.4, None]]


@pytest.mark.parametrize("key", [HEAD_PARAMETER_KEY, OPTIMUM_KEY])
def test_nothing_is_kept_where_another_version_left_notes(url: str, key: str) -> None:
    optuna.load_study(study_name="mine", storage=url).set_user_attr(key, [])
    with pytest.raises(StorageError, match=f"begun by another version .*'{key}'"):
        tell(url, "mine", 0, News(reports={10: 0.9}))
    assert _trial(url).intermediate_values == {}


@pytest.mark.parametrize(
    ("news", "state", "fault", "reason"),
    [
        (News(failed="CUDA out of memory"), "failed", "infeasible", "CUDA out of memory"),
        (News(failed="the node's\n disk is full"), "failed", "error", "the node's disk is full"),
        (News(failed="loss rose", fault="diverged"), "failed", "diverged", "loss rose"),
        (News(value=math.nan), "failed", "diverged", "the value is nan"),
        (News(value=-math.inf), "failed", "diverged", "the value is -inf"),
        (News(pruned=True, reports={10: 3.0}), "pruned", None, None),
    ],
)
def test_an_end_without_a_value(url: str, news: News, state: str, fault: str | None, reason: str | None) -> None:
    ended = tell(url, "mine", 0, news)
    assert (ended.state, ended.value, ended.reason) == (state, None, reason)
    attributes = _trial(url).user_attrs
    assert (attributes.get(ATTRIBUTES.fault), attributes.get(ATTRIBUTES.reason)) == (fault, reason)
    json.dumps(ended.to_dict(), allow_nan=False)


def test_out_of_memory_bars_the_split_for_good(url: str) -> None:
    heads = _trial(url).params["n_heads"]
    tell(url, "mine", 0, News(failed="HIP out of memory. Tried to allocate"))
    for _ in range(5):
        asked = ask(url, "mine")
        tell(url, "mine", asked.trial, News(value=float(asked.params["n_heads"] != heads)))
    later = [ask(url, "mine").params["n_heads"] for _ in range(3)]
    assert heads not in later


def test_an_interrupted_trial_is_asked_for_again_as_the_same_replicate(url: str) -> None:
    ask(url, "mine")
    before = _trial(url)
    told = tell(url, "mine", 0, News(failed="gave up", fault="interrupted"))
    assert (told.state, told.reason) == ("failed", "gave up")
    with pytest.raises(OptionError, match="trial 2 waits to be asked for"):
        tell(url, "mine", 2, News(value=1.0))
    tell(url, "mine", 0, News(failed="gave up", fault="interrupted"))  # told again, it is not queued again
    again, new = ask(url, "mine"), ask(url, "mine")
    assert (again.trial, again.params, again.replicate) == (2, before.params, 0)
    assert new.params != before.params
    study = optuna.load_study(study_name="mine", storage=url)
    assert read_records(study, HeadParameter(d_model=12))[0].fault == "interrupted"


def test_the_same_again_changes_nothing_and_anything_else_is_refused(url: str) -> None:
    end = News(reports={10: math.nan, 20: 0.8}, diversity={20: 0.5}, value=0.31)
    first = tell(url, "mine", 0, end)
    stored = _trial(url)
    assert tell(url, "mine", 0, end) == first
    assert tell(url, "mine", 0, News(reports={20: 0.8})) == first
    for other in (
        News(value=0.32),
        News(failed="no"),
        News(pruned=True),
        News(reports={30: 0.7}, value=0.31),
        News(reports={20: 0.7}),
        News(diversity={20: 0.6}),
    ):
        with pytest.raises(OptionError, match=r"trial 0 has ended, complete with value 0.31: ask for another trial"):
            tell(url, "mine", 0, other)
    assert repr(_trial(url)) == repr(stored)  # NaN does not equal itself


def test_a_failure_of_another_kind_is_refused(url: str) -> None:
    """It would not bar the split, though whoever told it would think so."""
    failed = News(failed="no")
    assert tell(url, "mine", 0, failed) == tell(url, "mine", 0, failed)
    with pytest.raises(OptionError, match=r"trial 0 has ended, failed \(no\)"):
        tell(url, "mine", 0, News(failed="no", fault="infeasible"))


def test_a_step_keeps_its_value(url: str) -> None:
    tell(url, "mine", 0, News(reports={10: 0.9}))
    tell(url, "mine", 0, News(reports={10: 0.9, 20: 0.8}))
    with pytest.raises(OptionError, match=r"trial 0 was told 0.9 at step 10 before, not 0.7"):
        tell(url, "mine", 0, News(reports={10: 0.7, 30: 0.7}))
    assert _trial(url).intermediate_values == {10: 0.9, 20: 0.8}


@pytest.mark.parametrize("trial", [1, -1, 10**40])
def test_an_unknown_trial(url: str, trial: int) -> None:
    with pytest.raises(OptionError, match=r"has no trial .*: it has 0 to 0"):
        tell(url, "mine", trial, News(value=1.0))


@pytest.mark.parametrize(
    ("news", "said"),
    [
        ({}, "nothing to tell"),
        ({"value": 1.0, "failed": "no"}, "--value and --failed"),
        ({"value": 1.0, "pruned": True}, "--value and --pruned"),
        ({"failed": " "}, "needs a reason"),
        ({"failed": "no", "fault": "bad luck"}, "diverged, infeasible, error, interrupted"),
        ({"value": 1.0, "fault": "error"}, "with --failed"),
        ({"reports": {-1: 1.0}}, "from 0 to 2,147,483,647"),
        ({"diversity": {2**31: 0.5}}, "from 0 to 2,147,483,647"),
    ],
)
def test_news_that_are_none(news: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        News(**news)  # type: ignore[arg-type]  # that is what it checks


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_what_becomes_hopeless_is_told_to_stop(tmp_path: Path, direction: str) -> None:
    """Twelve trials end where their curves point; then one runs far off all of them at every step."""
    url, sign = f"sqlite:///{tmp_path / 'other.db'}", -1.0 if direction == "maximize" else 1.0
    running = ask(url, "mine", d_model=12, param=("rate=0:1",), direction=direction).trial
    asked = _trial(url, running)
    study = optuna.load_study(study_name="mine", storage=url)
    for k in range(12):
        level = 1.0 + 0.01 * (k % 5)
        study.add_trial(
            optuna.create_trial(
                params={"n_heads": 3, "rate": k / 12},
                distributions=asked.distributions,
                intermediate_values={step: sign * (level + 3.0 / step) for step in STEPS},
                value=sign * level,
            )
        )
    answers = [tell(url, "mine", running, News(reports={step: sign * (5.0 + 3.0 / step)})) for step in STEPS]
    assert not answers[0].prune  # not at a single report
    assert answers[-1].prune
    assert str(answers[-1].reason).startswith("P(better than ")
    assert tell(url, "mine", running, News(pruned=True)).state == "pruned"
    assert _trial(url, running).value == sign * (5.0 + 3.0 / STEPS[-1])
