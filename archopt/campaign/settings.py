"""What the user of a search can set, checked before anything is read or written."""

import math
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from archopt.allocation import HeadAllocation, feasible_allocations
from archopt.campaign.device import visible_gpus
from archopt.campaign.storage_url import masked
from archopt.errors import OptionError
from archopt.evaluation import (
    ATTENTION_KERNELS,
    METRICS,
    PRECISIONS,
    WEIGHTINGS,
    check_learning_rate,
    check_warmup,
    check_weight_decay,
)

DEFAULT_TIMEOUT_SECONDS = 210.0  # the whole command, start-up included, then ends within four minutes
RESULTS_FOLDER = "archopt-results"
MAX_COUNT = 1_000_000_000  # above it a number is a typing error

# Settings that make it another search when they change; the others only say how long, with what help, and where to.
# The data set, and a second one to validate on, are identified by their content, not by where they lie.
_IDENTITY = (
    "d_model",
    "target",
    "task",
    "n_samples",
    "n_steps",
    "min_head_dim",
    "max_head_dim",
    "head_dim_multiple_of",
    "n_heads_multiple_of",
    "max_seconds_per_step",
    "weighting",
    "metric",
    "group",
    "time",
    "seed",
    "device",
    "attention",
)

_TUNED = {"learning_rate": check_learning_rate, "weight_decay": check_weight_decay, "warmup": check_warmup}


@dataclass(frozen=True)
class Settings:
    """Arguments of `archopt.search`, which documents them.

    Raises:
        OptionError, AllocationError: one of them is outside what is allowed.
    """

    data: str
    d_model: int
    target: str | None = None
    task: Literal["auto", "regression", "classification"] = "auto"
    n_samples: int | None = None
    n_trials: int | None = None
    timeout_seconds: float | None = None
    n_steps: int | None = None
    min_head_dim: int = 1
    max_head_dim: int | None = None
    head_dim_multiple_of: int = 1
    n_heads_multiple_of: int = 1
    max_seconds_per_step: float | None = None
    weighting: tuple[str, ...] = WEIGHTINGS
    learning_rate: tuple[float, ...] | None = None
    weight_decay: tuple[float, ...] | None = None
    warmup: tuple[float, ...] | None = None
    metric: str | None = None
    valid: str | None = None
    group: str | None = None
    time: str | None = None
    seed: int = 0
    replicates: int = 1
    n_workers: int | None = None
    storage: str | None = field(default=None, repr=False)  # a password may be in it
    name: str | None = None
    device: str = "auto"
    attention: str = "auto"
    precision: str = "float32"
    out: str | None = None
    confidence: float = 0.9

    def __post_init__(self) -> None:
        object.__setattr__(self, "weighting", _weightings(self.weighting))
        for name, check in _TUNED.items():
            object.__setattr__(self, name, _choices(name, getattr(self, name), check))
        self.allocations()
        for name, low in (
            ("n_samples", 1),
            ("n_trials", 1),
            ("n_steps", 1),
            ("seed", 0),
            ("replicates", 1),
            ("n_workers", 1),
        ):
            _whole(name, getattr(self, name), low)
        for name in ("timeout_seconds", "max_seconds_per_step"):
            _positive(name, getattr(self, name))
        _one_of("task", self.task, ("auto", "regression", "classification"))
        _one_of("device", self.device, ("auto", "cpu", "cuda"))
        _one_of("attention", self.attention, ATTENTION_KERNELS)
        _one_of("precision", self.precision, PRECISIONS)
        if self.metric is not None:
            _one_of("metric", self.metric, [metric for metrics in METRICS.values() for metric in metrics])
        self.workers_and_threads()
        if not 0.0 < self.confidence < 1.0:
            raise OptionError(f"confidence must lie between 0 and 1 but got {self.confidence}")
        if self.name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", self.name):
            raise OptionError(
                f"a campaign's name is 1 to 100 letters, digits, '.', '_' or '-' but got {self.name[:60]!r}"
            )

    def allocations(self) -> tuple[HeadAllocation, ...]:
        """The feasible splits, by rising head_dim."""
        return feasible_allocations(
            self.d_model,
            min_head_dim=self.min_head_dim,
            max_head_dim=self.max_head_dim,
            head_dim_multiple_of=self.head_dim_multiple_of,
            n_heads_multiple_of=self.n_heads_multiple_of,
        )

    def campaign_name(self) -> str:
        """As given, or from the data set and the width."""
        return self.name if self.name is not None else f"{self.data_name()}-d{self.d_model}"

    def data_name(self) -> str:
        """The data set's, as part of a file name."""
        stem = self.data.split(":", 1)[1] if self.data.startswith(("sklearn:", "text:")) else Path(self.data).name
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem.split(".")[0] or stem).strip("-._") or "data"
        return stem[:60]

    def folder(self) -> Path:
        """Where results are written."""
        return Path(self.out) if self.out is not None else Path(RESULTS_FOLDER) / self.campaign_name()

    def budget_seconds(self) -> float | None:
        """The time limit; see `time_limit`."""
        return time_limit(self.n_trials, self.timeout_seconds)

    def workers_and_threads(self, device: str = "cpu") -> tuple[int, int]:
        """Worker processes, one a core or a GPU, and threads for each; their product never exceeds the cores."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = self.n_workers or (min(cores, len(visible_gpus())) if device == "cuda" else cores)
        if workers > cores:
            raise OptionError(f"workers must be at most the {cores} cores of this machine but got {workers}")
        return workers, cores // workers

    def identity(self) -> dict[str, Any]:
        """What defines the campaign, JSON-able: a second run with the same values resumes it."""
        values = asdict(self)
        return {key: list(values[key]) if key == "weighting" else values[key] for key in _IDENTITY}


def time_limit(n_trials: int | None, timeout_seconds: float | None) -> float | None:
    """The time limit: as given, none with a trial budget, else the default."""
    if timeout_seconds is not None:
        return timeout_seconds
    return None if n_trials is not None else DEFAULT_TIMEOUT_SECONDS


def command_line(settings: Settings, d_models: Sequence[int] = (), n_samples: Sequence[int] = ()) -> str:
    """The command that repeats this search, with what differs from the defaults; no password in it.

    Args:
        d_models, n_samples: of a campaign over several sizes, in place of the settings' own.
    """
    flags = {
        "n_samples": "samples",
        "n_trials": "trials",
        "timeout_seconds": "timeout",
        "n_steps": "steps",
        "min_head_dim": "head-dim-min",
        "max_head_dim": "head-dim-max",
        "n_heads_multiple_of": "heads-multiple-of",
        "n_workers": "workers",
    }
    words = ["archopt", "search", settings.data, "--d-model", ",".join(map(str, d_models or [settings.d_model]))]
    for each in fields(settings):
        value = tuple(n_samples) if each.name == "n_samples" and n_samples else getattr(settings, each.name)
        if each.name in ("data", "d_model") or value is None or value == each.default:
            continue
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        if each.name == "storage":
            shown = masked(shown)
        words += [f"--{flags.get(each.name, each.name.replace('_', '-'))}", shown]
    return shlex.join(words)


def _weightings(given: Sequence[str] | str) -> tuple[str, ...]:
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
    for name in names:
        _one_of("weighting", name, WEIGHTINGS)
    if not names:
        raise OptionError(f"weighting needs at least one of {', '.join(WEIGHTINGS)}")
    return tuple(name for name in WEIGHTINGS if name in names)


def _choices(name: str, given: Any, check: Callable[[float], None]) -> tuple[float, ...] | None:
    """The values to search, rising, each once; None where nothing was asked for."""
    if given is None:
        return None
    listed = given.split(",") if isinstance(given, str) else list(given) if isinstance(given, Sequence) else [given]
    try:
        numbers = sorted({float(number) for number in listed})
    except (TypeError, ValueError):
        numbers = []
    if not numbers:
        raise OptionError(
            f"{name} must be numbers with commas between them, such as 0.01,0.03 but got {str(given)[:60]!r}"
        )
    for number in numbers:
        check(number)
    return tuple(numbers)


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(allowed)} but got {str(value)[:60]!r}")


def _whole(name: str, value: object, low: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MAX_COUNT:
        raise OptionError(f"{name} must be a whole number from {low} to {MAX_COUNT:,} but got {str(value)[:40]}")


def _positive(name: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and 0.0 < value <= MAX_COUNT):
        raise OptionError(f"{name} must be a number of seconds above 0 but got {value}")
