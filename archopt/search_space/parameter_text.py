"""Parameters as people type them: a range ``learning_rate=1e-4:1e-2:log`` or choices ``dropout=0,0.1,0.2``."""

import math
from typing import TYPE_CHECKING

from archopt.errors import OptionError
from archopt.search_space.parameters import N_HEADS, HeadParameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution, CategoricalChoiceType

MAX_NAME = 100
MAX_WHOLE = 10**15  # doubles, in which storages keep parameters, hold each whole number up to there
_GRAMMAR = "NAME=LOW:HIGH (then :log, :int or both) or NAME=CHOICE,CHOICE"
_SCALES = ("int", "log")


def read_parameter(text: str) -> "tuple[str, BaseDistribution]":
    """Name and distribution of one parameter.

    ``a=0:1`` is a float between both ends, ``:int`` makes it a whole number, ``:log`` puts it on a log scale. What has
    no colon, or a comma, is a choice: of whole numbers where all are, else of numbers where all are, else of words.

    Raises:
        OptionError: another form, a range that is empty, or a name that the heads have.
    """
    name, equals, rest = text.partition("=")
    name = name.strip()
    if not equals or not name or not rest.strip():
        raise OptionError(f"a parameter is written {_GRAMMAR} but got {text[:60]!r}")
    if len(name) > MAX_NAME:
        raise OptionError(f"the name of a parameter has at most {MAX_NAME} characters but {name[:20]!r}... is longer")
    if name == N_HEADS or HeadParameter().is_alias(name):
        raise OptionError(f"{name!r} is what the heads are called, and they come from d_model: rename the parameter")
    return name, _range(text, rest) if ":" in rest and "," not in rest else _choices(text, rest)


def _range(text: str, rest: str) -> "BaseDistribution":
    from optuna.distributions import FloatDistribution, IntDistribution

    ends, scales = [part.strip() for part in rest.split(":")[:2]], [part.strip() for part in rest.split(":")[2:]]
    if len(set(scales)) < len(scales) or not set(scales) <= set(_SCALES):
        raise OptionError(f"after LOW:HIGH come :log, :int or both, each once, but got {text[:60]!r}")
    try:
        low, high = (float(end) for end in ends)
    except ValueError:
        raise OptionError(f"a range is LOW:HIGH in numbers, such as 1e-4:1e-2, but got {text[:60]!r}") from None
    is_log, is_int = "log" in scales, "int" in scales
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise OptionError(f"a range goes from a number to a larger one but got {text[:60]!r}")
    if is_log and low <= 0:
        raise OptionError(f"a range on a log scale starts above 0 but got {text[:60]!r}")
    if not is_int:
        return FloatDistribution(low, high, log=is_log)
    if not (low.is_integer() and high.is_integer() and max(-low, high) <= MAX_WHOLE):
        raise OptionError(f"a range of whole numbers has whole ends of at most {MAX_WHOLE:.0e} but got {text[:60]!r}")
    return IntDistribution(int(low), int(high), log=is_log)


def _choices(text: str, rest: str) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution

    words = [word.strip() for word in rest.split(",")]
    choices = _same_kind(words)
    if not all(words) or len(set(choices)) < len(choices):
        raise OptionError(f"choices are distinct, with one comma between two, but got {text[:60]!r}")
    return CategoricalDistribution(choices)


def _same_kind(words: list[str]) -> "list[CategoricalChoiceType]":
    """All whole numbers, all numbers, or all words."""
    for kind in (int, float):
        try:
            numbers = [kind(word) for word in words]
        except ValueError:
            continue
        if all(math.isfinite(number) for number in numbers):
            return list(numbers)
    return list(words)
