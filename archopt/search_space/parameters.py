"""Which Optuna parameter holds the heads, how it is read, and which configurations are the same thing."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self
from weakref import WeakKeyDictionary

from archopt.allocation import HeadAllocation, feasible_allocations
from archopt.errors import AllocationError, OptionError
from archopt.search_space.notes import reading_note

if TYPE_CHECKING:
    import optuna

N_HEADS = "n_heads"
WEIGHTING = "weighting"
DECORRELATION = "decorrelation"
LEARNING_RATE = "learning_rate"
WEIGHT_DECAY = "weight_decay"
WARMUP = "warmup"

# Study attributes, so that `recommend` reads what the sampler was told
HEAD_PARAMETER_KEY = "archopt:head_parameter"
OPTIMUM_KEY = "archopt:expected_optimum"

# What studies recorded, by storage, study and key: asked for at every proposal and report, and a query each time.
_RECORDED: "WeakKeyDictionary[optuna.storages.BaseStorage, dict[tuple[int, str], Any]]" = WeakKeyDictionary()

Kind = Literal["n_heads", "head_dim", "allocation"]
KINDS: tuple[Kind, ...] = ("n_heads", "head_dim", "allocation")

# Names in use for the same quantity: GPT-2, BERT/ViT/Llama configurations, torch.nn.MultiheadAttention, nn.Transformer.
_NAMES: dict[str, Kind] = {
    **dict.fromkeys(
        ("n_heads", "num_heads", "n_head", "nhead", "heads", "num_attention_heads", "attention_heads"), "n_heads"
    ),
    **dict.fromkeys(("head_dim", "d_head", "dim_head", "head_size", "d_k"), "head_dim"),
    **dict.fromkeys(("allocation", "head_allocation"), "allocation"),
}
_WIDTH_NAMES = ("d_model", "hidden_size", "n_embd", "embed_dim", "d_embed", "width")


@dataclass(frozen=True)
class HeadParameter:
    """Where a study keeps its heads.

    Args:
        name: the Optuna parameter.
        kind: what it holds: "n_heads", "head_dim", or "allocation" (text such as "8x64").
        d_model: D, or the name of the parameter that holds it, or None where it is not known; then an allocation
            of kind "n_heads" has no head_dim.

    Raises:
        OptionError: an unknown kind.
    """

    name: str = N_HEADS
    kind: Kind = "n_heads"
    d_model: int | str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(f"head_param_kind must be one of {', '.join(KINDS)} but got {self.kind!r}")

    def allocation(self, params: Mapping[str, Any]) -> HeadAllocation | None:
        """The split that ``params`` describe; None where they hold none, or one that does not divide."""
        d_model = params.get(self.d_model) if isinstance(self.d_model, str) else self.d_model
        value = params.get(self.name_at(d_model), params.get(self.name))
        if value is None:
            return None
        try:
            if self.kind == "allocation":
                return HeadAllocation.parse(str(value))
            number, width = int(value), None if d_model is None else int(d_model)
            if number < 1 or width is None or width % number:
                return None
            pair = (number, width // number) if self.kind == "n_heads" else (width // number, number)
            return HeadAllocation(*pair)
        except (AllocationError, OverflowError, TypeError, ValueError):
            return None

    def name_at(self, d_model: object) -> str:
        """What `suggest_allocation` calls the parameter for a width that came after another in the same study."""
        return f"{self.name}_d{d_model}"

    def is_alias(self, parameter: str) -> bool:
        """Whether ``parameter`` is what `name_at` calls the heads at some width."""
        return parameter.startswith(f"{self.name}_d") and parameter.removeprefix(f"{self.name}_d").isdecimal()

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; read back by `from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote."""
        return cls(stored["name"], stored["kind"], stored["d_model"])


def recognise_head_parameter(
    study: "optuna.Study",
    d_model: int | str | None = None,
    *,
    trials: "Sequence[optuna.trial.FrozenTrial] | None" = None,
) -> HeadParameter:
    """The study's head parameter: as its sampler recorded it, else by the names that are in use.

    Args:
        study: any Optuna study.
        d_model: D, or the parameter that holds it, where the study does not say.
        trials: the study's, where the caller has just read them.

    Raises:
        OptionError: no parameter looks like heads, or D is not to be found.
    """
    trials = study.get_trials(deepcopy=False) if trials is None else trials
    names = sorted({name for trial in trials for name in trial.params})
    known = recorded_head_parameter(study)
    if known is not None:
        d_model = known.d_model if d_model is None else d_model
        if not names or any(name == known.name or known.is_alias(name) for name in names):
            return HeadParameter(known.name, known.kind, d_model)
    last = {name: _last_part(name) for name in names}
    found = head_names(names)
    if not found:
        raise OptionError(
            f"no head parameter among {_short(names)}: name one n_heads, num_heads or head_dim, or let "
            "HeadAllocationSampler(head_param=...) run the study"
        )
    name = found[0]
    kind = _NAMES[last[name]]
    if d_model is None and kind != "allocation":
        d_model = next((width for width in names if last[width] in _WIDTH_NAMES), None)
        if d_model is None:
            raise OptionError(f"the study does not say how wide the model is: give d_model beside {name!r}")
    return HeadParameter(name, kind, d_model)


def recorded_head_parameter(study: "optuna.Study") -> HeadParameter | None:
    """What the study's sampler recorded; read from the storage until there is something to read."""
    stored = _recorded(study, HEAD_PARAMETER_KEY)
    with reading_note(study, HEAD_PARAMETER_KEY):
        return None if stored is None else HeadParameter.from_dict(stored)


def record_head_parameter(study: "optuna.Study", head: HeadParameter) -> None:
    """Leave a note in the study of what its head parameter is."""
    _record(study, HEAD_PARAMETER_KEY, head.to_dict())


def recorded_optimum(study: "optuna.Study") -> tuple[float, float] | None:
    """Where the study's sampler expected the best log2 head_dim, and its standard deviation in octaves."""
    stored = _recorded(study, OPTIMUM_KEY)
    if stored is None:
        return None
    with reading_note(study, OPTIMUM_KEY):
        log2_head_dim, sd_octaves = map(float, stored)
        if not (math.isfinite(log2_head_dim) and 0.0 < sd_octaves < math.inf):
            raise ValueError
    return log2_head_dim, sd_octaves


def record_optimum(study: "optuna.Study", log2_head_dim: float, sd_octaves: float) -> None:
    """Leave a note in the study of where its best log2 head_dim is expected."""
    _record(study, OPTIMUM_KEY, [log2_head_dim, sd_octaves])


def _recorded(study: "optuna.Study", key: str) -> Any:
    """Read from the storage until there is something to read."""
    known = _RECORDED.setdefault(study._storage, {})
    if (study._study_id, key) not in known:
        stored = study.user_attrs.get(key)
        if stored is None:
            return None
        known[study._study_id, key] = stored
    return known[study._study_id, key]


def _record(study: "optuna.Study", key: str, value: Any) -> None:
    if _recorded(study, key) != value:
        study.set_user_attr(key, value)
        _RECORDED[study._storage][study._study_id, key] = value


def head_names(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that usually hold heads."""
    return [name for name in names if _last_part(name) in _NAMES]


def _last_part(name: str) -> str:
    return name.rsplit(".", 1)[-1].rsplit("/", 1)[-1].lower()


def canonical_params(params: Mapping[str, Any], allocation: HeadAllocation | None) -> dict[str, Any]:
    """``params`` with what cannot matter set to one value, so that the same thing has one name.

    At H = 1 neither weighting nor decorrelation has an effect; at H = 2 Fibonacci weights are uniform (theory.md,
    section 6: F_2 = F_1).
    """
    same = dict(params)
    if allocation is None:
        return same
    if allocation.n_heads == 1:
        if WEIGHTING in same:
            same[WEIGHTING] = "uniform"
        if DECORRELATION in same:
            same[DECORRELATION] = 0.0
    elif allocation.n_heads == 2 and same.get(WEIGHTING) == "fibonacci":
        same[WEIGHTING] = "uniform"
    return same


def suggest_allocation(
    trial: "optuna.Trial", d_model: int, *, name: str = N_HEADS, **constraints: Any
) -> HeadAllocation:
    """Suggest a split of ``d_model`` into heads; only feasible ones are ever proposed.

    The parameter is a categorical of head counts called ``name``. Optuna does not let the choices of a categorical
    change within a study, so where ``name`` is already in use for another width it is called ``name_d<d_model>``.

    Args:
        trial: the running trial.
        d_model: D.
        name: of the Optuna parameter.
        constraints: as for `archopt.feasible_allocations`.

    Raises:
        AllocationError: no feasible split, or the study already holds this width with other limits.
    """
    splits = {allocation.n_heads: allocation for allocation in feasible_allocations(d_model, **constraints)}
    choices = sorted(splits)
    for parameter in (name, HeadParameter(name).name_at(d_model)):
        try:
            return splits[trial.suggest_categorical(parameter, choices)]
        except ValueError as error:
            if "dynamic value space" not in str(error):
                raise
    raise AllocationError(
        f"this study already searches d_model = {d_model} with other limits than {choices}, and Optuna does not let "
        "choices change: use the same limits, or a new study (study.add_trials brings the finished trials along)"
    )


def _short(names: list[str], most: int = 8) -> str:
    return f"[{', '.join(name[:40] for name in names[:most])}{', ...' if len(names) > most else ''}]"
