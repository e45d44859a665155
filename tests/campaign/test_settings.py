"""What a search refuses before it reads or writes anything, and how a campaign is named."""

from typing import Any

import pytest

from archopt.campaign import Settings
from archopt.campaign.settings import DEFAULT_TIMEOUT_SECONDS, command_line
from archopt.errors import AllocationError, OptionError


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"d_model": 0}, AllocationError, "d_model must be a whole number of at least 1 but got 0"),
        ({"d_model": -48}, AllocationError, "but got -48"),
        ({"d_model": 10**9}, AllocationError, "d_model must be at most 1,048,576"),
        ({"d_model": 100, "n_heads_multiple_of": 8}, AllocationError, "n_heads a multiple of 8"),
        ({"d_model": 97, "head_dim_multiple_of": 8}, AllocationError, "d_model = 96 would divide"),
        ({"min_head_dim": 20, "max_head_dim": 10}, AllocationError, "above max_head_dim"),
        ({"n_trials": 0}, OptionError, "n_trials must be a whole number from 1"),
        ({"n_trials": -5}, OptionError, "but got -5"),
        ({"n_samples": 10**12}, OptionError, "n_samples must be a whole number"),
        ({"seed": -1}, OptionError, "seed must be a whole number from 0"),
        ({"replicates": 0}, OptionError, "replicates"),
        ({"n_workers": 0}, OptionError, "n_workers"),
        ({"n_workers": 4096}, OptionError, "workers must be at most the"),
        ({"timeout_seconds": 0.0}, OptionError, "timeout_seconds must be a number of seconds above 0"),
        ({"timeout_seconds": float("nan")}, OptionError, "timeout_seconds"),
        ({"max_seconds_per_step": -1.0}, OptionError, "max_seconds_per_step"),
        ({"weighting": ("uniform", "golden")}, OptionError, "weighting must be one of uniform, geometric, fibonacci"),
        ({"weighting": ""}, OptionError, "weighting must be one of"),
        ({"task": "ranking"}, OptionError, "task must be one of auto, regression, classification"),
        ({"metric": "auc"}, OptionError, "metric must be one of rmse"),
        ({"device": "tpu"}, OptionError, "device must be one of auto, cpu, cuda"),
        ({"attention": "flash"}, OptionError, "attention must be one of"),
        ({"precision": "float16"}, OptionError, "precision must be one of float32, bfloat16"),
        ({"learning_rate": "0.01,fast"}, OptionError, "learning_rate must be numbers with commas between them"),
        ({"learning_rate": ""}, OptionError, "learning_rate must be numbers"),
        ({"learning_rate": [0.01, 0.0]}, OptionError, "learning_rate must be a finite number above 0 but got 0.0"),
        ({"learning_rate": "nan"}, OptionError, "learning_rate must be a finite number above 0 but got nan"),
        ({"weight_decay": -1}, OptionError, "weight_decay must be a finite number of at least 0 but got -1.0"),
        ({"warmup": "0.05,20"}, OptionError, "warmup must be a share of the steps, from 0 to 1, but got 20.0"),
        ({"warmup": object()}, OptionError, "warmup must be numbers"),
        ({"confidence": 1.0}, OptionError, "confidence must lie between 0 and 1"),
        ({"name": "../up"}, OptionError, "name is 1 to 100 letters"),
    ],
)
def test_bad_settings_are_one_line(options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        Settings(**{"data": "sklearn:digits", "d_model": 48, **options})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("sklearn:digits", "digits-d48"),
        ("text:python-topics", "python-topics-d48"),
        ("/data/My prices (2024).csv", "My-prices-2024-d48"),
        ("/data/.hidden", "hidden-d48"),
        ("/data/???", "data-d48"),
    ],
)
def test_a_campaign_is_named_after_its_data_and_width(data: str, name: str) -> None:
    assert Settings(data=data, d_model=48).campaign_name() == name


def test_budgets() -> None:
    assert Settings(data="x", d_model=48).budget_seconds() == DEFAULT_TIMEOUT_SECONDS
    assert Settings(data="x", d_model=48, n_trials=5).budget_seconds() is None
    assert Settings(data="x", d_model=48, n_trials=5, timeout_seconds=9.0).budget_seconds() == 9.0


def test_budget_and_place_do_not_make_it_another_campaign() -> None:
    first = Settings(data="a.csv", d_model=48, target="y")
    same = Settings(data="/b/a.csv", d_model=48, target="y", n_trials=9, n_workers=1, out="elsewhere", confidence=0.8)
    assert first.identity() == same.identity()
    assert first.identity() != Settings(data="a.csv", d_model=48, target="y", seed=1).identity()


def test_workers_times_threads_never_exceed_the_cores() -> None:
    for n_workers in (None, 1):
        workers, threads = Settings(data="x", d_model=48, n_workers=n_workers).workers_and_threads()
        assert workers >= 1
        assert threads >= 1
    assert Settings(data="x", d_model=48, n_workers=1).workers_and_threads()[0] == 1


def test_the_command_to_repeat_it_has_what_differs_and_no_password() -> None:
    settings = Settings(
        data="my file.csv",
        d_model=48,
        target="y",
        n_trials=5,
        weighting=("geometric", "uniform"),
        storage="postgresql+psycopg://me:secret@host/db",
    )
    line = command_line(settings)
    assert line.startswith(
        "archopt search 'my file.csv' --d-model 48 --target y --trials 5 --weighting uniform,geometric"
    )
    assert "secret" not in line
    assert "host/db" in line


@pytest.mark.parametrize("given", ["0.03, 0.01,0.03", [0.03, 0.01], (0.01, 0.03)])
def test_values_to_search_are_sorted_and_distinct(given: Any) -> None:
    settings = Settings("sklearn:digits", 48, learning_rate=given)
    assert settings.learning_rate == (0.01, 0.03)
    assert command_line(settings).endswith("--learning-rate 0.01,0.03")


def test_one_number_is_a_choice_of_one() -> None:
    assert Settings("sklearn:digits", 48, weight_decay=0.5, warmup=0).weight_decay == (0.5,)  # type: ignore[arg-type]


def test_the_command_of_a_campaign_has_all_sizes() -> None:
    settings = Settings("sklearn:digits", 48, n_samples=300, n_trials=90)
    line = command_line(settings, [48, 96], [300, 1_000])
    assert line == "archopt search sklearn:digits --d-model 48,96 --samples 300,1000 --trials 90"
