"""One configuration for a program that is not Python: a study that is asked, process by process."""

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from archopt.allocation import HeadAllocation, feasible_allocations
from archopt.campaign.storage import SETTINGS_KEY, load_studies, open_storage, storage_faults
from archopt.errors import ArchoptError, OptionError
from archopt.report.numbers import printable
from archopt.search_space import (
    ATTRIBUTES,
    INTERRUPTED,
    N_HEADS,
    read_parameter,
    reading_note,
    recorded_head_parameter,
    recorded_optimum,
    replicate,
)

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

    from archopt.samplers import HeadAllocationSampler

ASKED_KEY = "archopt:asked"  # `AskSettings`, so that a later ask needs only the study's name
DIRECTIONS = ("minimize", "maximize")
MAX_STUDY_NAME = 200
IN_MEMORY = ("sqlite://", "sqlite:///:memory:")


@dataclass(frozen=True)
class AskSettings:
    """What a study is asked for. Fields are called as the options of `archopt ask`, which documents them.

    Raises:
        OptionError, AllocationError: one of them is outside what is allowed.
    """

    d_model: int
    samples: float | None = None
    family: str | None = None
    direction: str = "minimize"
    head_dim_min: int = 1
    head_dim_max: int | None = None
    head_dim_multiple_of: int = 1
    heads_multiple_of: int = 1
    seed: int = 0
    param: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise OptionError(f"direction must be {' or '.join(DIRECTIONS)} but got {self.direction[:40]!r}")
        self.sampler()
        self.distributions()

    def sampler(self) -> "HeadAllocationSampler":
        """What proposes the trials; its draws depend on (seed, trial number)."""
        from archopt.samplers import HeadAllocationSampler

        return HeadAllocationSampler(
            d_model=self.d_model, n_samples=self.samples, family=self.family, head_param=N_HEADS, seed=self.seed
        )

    def distributions(self) -> "dict[str, BaseDistribution]":
        """The number of heads, of the feasible ones, then the parameters beside it."""
        from optuna.distributions import CategoricalDistribution

        splits = feasible_allocations(
            self.d_model,
            min_head_dim=self.head_dim_min,
            max_head_dim=self.head_dim_max,
            head_dim_multiple_of=self.head_dim_multiple_of,
            n_heads_multiple_of=self.heads_multiple_of,
        )
        found: dict[str, BaseDistribution] = {N_HEADS: CategoricalDistribution(sorted(each.n_heads for each in splits))}
        for text in self.param:
            name, distribution = read_parameter(text)
            if name in found:
                raise OptionError(f"parameter {name!r} is given twice: give it once, with all its choices")
            found[name] = distribution
        return found


@dataclass(frozen=True)
class Asked:
    """One configuration to run.

    Attributes:
        trial: its number, for `archopt.campaign.tell`.
        replicate: how many earlier trials had these parameters: the seed to use.
    """

    study: str
    trial: int
    params: dict[str, Any]
    allocation: HeadAllocation
    replicate: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.ask/1"."""
        return {"schema": "archopt.ask/1", **asdict(self)}


def ask(storage: str, study: str, **options: Any) -> Asked:
    """Ask a study for one configuration. Several processes may ask at the same moment; no two get the same run.

    The trial runs until it is told how it ended, however long that takes: nobody takes it for dead. One that is never
    told holds nothing up.

    Args:
        storage: Optuna storage URL.
        study: made at the first ask, whose options are recorded beside it.
        options: fields of `AskSettings`; ``d_model`` at the first ask, later none is needed.

    Raises:
        OptionError, AllocationError: an option outside what is allowed, or one that differs from the first ask's.
        StorageError: the storage cannot be opened.
        CampaignFailed: it stopped answering.
    """
    from optuna.trial import TrialState

    with storage_faults("while a trial was asked for"):
        opened, settings = _opened(storage, study, options)
        opened.sampler = settings.sampler()
        trial = opened.ask()
        try:
            for name, distribution in settings.distributions().items():
                trial._suggest(name, distribution)  # as Study.ask does, which does not say which trial it could not ask
        except ValueError as error:  # Optuna's, for a queued trial
            cause = " ".join(str(error).split())[:100]
            trial.set_user_attr(ATTRIBUTES.reason, f"no choice here ({cause})")
            trial.set_user_attr(ATTRIBUTES.fault, INTERRUPTED)  # its heads are not at fault
            opened.tell(trial, state=TrialState.FAIL)
            raise OptionError(
                f"a trial that was queued in study {study!r} is no choice here ({cause}): ask again"
            ) from None
        split = HeadAllocation(trial.params[N_HEADS], settings.d_model // trial.params[N_HEADS])
        return Asked(study, trial.number, dict(trial.params), split, replicate(trial))


def refuse_unfit(study: "optuna.Study") -> None:
    """Only studies with one objective, whose trials nobody else runs.

    Raises:
        OptionError: another study.
        StorageError: another version of archopt left notes in it.
    """
    if len(study.directions) > 1:
        raise OptionError(f"study {study.study_name!r} has several objectives: ask and tell need one")
    if SETTINGS_KEY in study.user_attrs:
        raise OptionError(f"study {study.study_name!r} is a campaign of `archopt search`, which runs its own trials")
    for note in (recorded_head_parameter, recorded_optimum):
        note(study)  # it is needed only once something has been written


def asked_settings(study: "optuna.Study") -> AskSettings | None:
    """What the study is asked for, as its first ask recorded it; None where it was not asked.

    Raises:
        StorageError: another version of archopt recorded it.
    """
    recorded = study.user_attrs.get(ASKED_KEY)
    with reading_note(study, ASKED_KEY):
        return None if recorded is None else AskSettings(**{**recorded, "param": tuple(recorded["param"])})


def _opened(url: str, name: str, options: dict[str, Any]) -> "tuple[optuna.Study, AskSettings]":
    import optuna

    given = AskSettings(**options) if "d_model" in options else None  # a mistake shows before a file is made
    if not 0 < len(name) <= MAX_STUDY_NAME:
        raise OptionError(f"the name of a study has 1 to {MAX_STUDY_NAME} characters but got {len(name)}")
    if url in IN_MEMORY:
        raise OptionError(f"storage {url} is gone when ask ends: give one that stays, such as sqlite:///study.db")
    if given is None:
        try:
            (study,) = load_studies(url, [name], locks=True)
        except ArchoptError as error:
            raise OptionError(f"{error}; the first ask makes the study, with --d-model") from None
    else:
        study = optuna.create_study(
            study_name=name,
            storage=open_storage(url, heartbeats=False, locks=True),
            direction=optuna.study.StudyDirection[given.direction.upper()],
            load_if_exists=True,
        )
    refuse_unfit(study)
    direction = study.direction.name.lower()
    if options.get("direction", direction) != direction:
        raise OptionError(
            f"study {name!r} has the direction {direction}, not {options['direction']}: leave --direction out, or "
            "give another --study"
        )
    has_trials = bool(study.get_trials(deepcopy=False))  # read before the settings, which are written first
    settings = asked_settings(study)
    if settings is None:
        if has_trials:
            raise OptionError(f"study {name!r} has trials that were not asked for here: give another --study")
        if given is None:
            raise OptionError(f"study {name!r} was not asked before: give --d-model and what else it depends on")
        study.set_user_attr(ASKED_KEY, asdict(AskSettings(**{**options, "direction": direction})))
        settings = asked_settings(study)  # another process may have been the first
        assert settings is not None
    _refuse_other_options(name, settings, options)
    return study, settings


def _refuse_other_options(name: str, before: AskSettings, options: dict[str, Any]) -> None:
    """One study, one set of options: Optuna, too, lets no choices change within a study."""
    for field in fields(AskSettings):
        was, now = getattr(before, field.name), options.get(field.name)
        if now is None or now == was or (field.name == "param" and _same_parameters(was, now)):
            continue
        option = f"--{field.name.replace('_', '-')}"
        raise OptionError(
            f"study {name!r} was started with {_typed(option, was)}, not {_typed(option, now)}: leave {option} out, "
            "or give another --study"
        )


def _same_parameters(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return dict(map(read_parameter, one)) == dict(map(read_parameter, other))


def _typed(option: str, value: Any) -> str:
    """The option as it is typed, at most 100 characters."""
    if value is None or value == ():
        return f"no {option}"
    shown = f"{value:g}" if isinstance(value, float) else " ".join(value) if isinstance(value, tuple) else value
    return f"{option} {printable(shown, most=100)}"
