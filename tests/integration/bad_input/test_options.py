"""Options with values that nobody should give, each beside arguments that are right."""

import shlex
from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

Refused = Callable[..., int]

# not shrunk: an example takes tenths of a second
seeded = settings(derandomize=True, database=None, deadline=None, phases=[Phase.generate])

ASKED, JOINED = "--storage sqlite:///asked.db --study mine", "--storage sqlite:///joined.db --name joined"
# What each command line would do without the option is refused last, or takes no time.
LINES = {
    "search": "search good.csv --target price --metric log_loss --d-model 8 --workers 1 --quiet",
    "text": "search text.txt --metric rmse --d-model 8 --workers 1 --quiet",
    "grid": "search good.csv --target price --metric log_loss --d-model 8,16 --samples 20,30 --workers 1 --quiet",
    "fit": "fit runs.csv --no-plan --json",
    "studies": "fit --storage sqlite:///asked.db --study mine=100,16 --no-plan --json",
    "recommend": "recommend --d-model 64 --samples 1e5 --json",
    "law": "recommend --d-model 64 --samples 1e5 --law law.json --json",
    "runs": "recommend --d-model 64 --samples 1e5 --data runs.csv --json",
    "study": f"recommend {ASKED} --json",
    "ask": f"ask {ASKED}",
    "first ask": "ask --storage sqlite:///new.db --study new --d-model -1",
    "tell": f"tell {ASKED} --trial 0 --at 1=0.5",
    "worker": f"worker {JOINED} --workers 1 --quiet --json",
    "theory": "theory --theorem 3.1 --samples 20 --d-model 4 --heads 2 --intrinsic-dim 4 --queries 5 "
    "--replicates 2 --json",
}
NUMBERS = {
    "search": (
        "d-model samples trials timeout steps head-dim-min head-dim-max head-dim-multiple-of heads-multiple-of "
        "max-seconds-per-step learning-rate weight-decay warmup seed replicates workers confidence"
    ),
    "text": "d-model samples steps learning-rate",
    "grid": "d-model samples trials head-dim-min head-dim-multiple-of",
    "fit": "n-samples d-model noise-sd intrinsic-dim confidence bootstrap seed",
    "recommend": "d-model samples intrinsic-dim constant head-dim-multiple-of heads-multiple-of confidence",
    "law": "d-model samples confidence head-dim-multiple-of",
    "runs": "n-samples-column d-model-column noise-sd intrinsic-dim",
    "study": "d-model noise-sd confidence",
    "ask": "d-model samples head-dim-min head-dim-max head-dim-multiple-of heads-multiple-of seed",
    "first ask": "d-model samples head-dim-min head-dim-max head-dim-multiple-of heads-multiple-of seed",
    "tell": "trial value",
    "worker": "workers timeout",
    "theory": "intrinsic-dim noise samples d-model heads temperature replicates queries seed confidence",
}
CHOICES = {
    "search": "task weighting metric device attention precision name target group time valid out storage",
    "text": "target task group valid",
    "fit": "direction family metric best-over ignore seed-column metric-sd n-heads head-dim",
    "studies": "study family metric",
    "recommend": "basis family law name data study storage",
    "runs": "direction metric ignore best-over",
    "ask": "family direction param study",
    "first ask": "family direction param study",
    "tell": "at hdi failed fault study",
    "worker": "name data valid storage",
    "theory": "function kernel temperature embedding axes theorem",
}

numbers = st.one_of(
    st.sampled_from(
        [
            "0",
            "-1",
            "-0.0",
            "nan",
            "inf",
            "-inf",
            "1e400",
            "1e18",
            "-1e18",
            "1e-320",
            "0.5",
            "2**3",
            "0x10",
            "1,2,3",
            ",,",
            "1e",
            "1_0",
            "١٢",
            "½",
            "1e999999999",
        ]
    ),
    st.sampled_from(
        ["", " ", "9" * 5_000, "1;2", "[1]", "None", "8 8", "\x1b[31m8", "8\n", "--help", "-", "1,nan", "64,0"]
    ),
    st.integers(-(10**20), 0).map(str),
    st.floats(allow_nan=True).map(str),
    st.text(max_size=8),
)
words = st.one_of(
    st.sampled_from(["", " ", "auto ", "AUTO", "uniform,golden", "a=b=c", "x=", "=1", "x=1:2:3:4", "x=2:1", "x=nan:1"]),
    st.sampled_from(
        ["x=0:1:log", "x=1:2:int:log", "n_heads=1,2", "x=,", "1=nan", "-1=2", "1e99=1", "1=x", "mine=inf,16"]
    ),
    st.sampled_from(
        ["../up", "/", ".", "\x1b[2J", "{name}", "%s", "a\nb", "x" * 1_000, "é" * 200, "\udc80", "price", "mine"]
    ),
    st.text(max_size=10),
)


@st.composite
def lines(draw: st.DrawFn, options: dict[str, str], values: st.SearchStrategy[str]) -> list[str]:
    """A command line with an option whose value is drawn; later options override earlier ones."""
    command = draw(st.sampled_from(sorted(options)))
    option = draw(st.sampled_from(options[command].split()))
    return [*shlex.split(LINES[command]), f"--{option}={draw(values)}"]


@settings(seeded, max_examples=80)
@given(line=lines(NUMBERS, numbers))
def test_a_number_that_is_none(line: list[str], refused: Refused) -> None:
    refused(line, or_fine=True)


@settings(seeded, max_examples=40)
@given(line=lines(CHOICES, words))
def test_a_word_that_is_no_choice(line: list[str], refused: Refused) -> None:
    refused(line, or_fine=True)


@settings(seeded, max_examples=20)
@given(
    command=st.sampled_from(sorted(LINES)),
    others=st.lists(st.sampled_from(sorted(NUMBERS)), min_size=1, max_size=2),
    data=st.data(),
)
def test_options_that_do_not_go_together(
    command: str, others: list[str], data: st.DataObject, refused: Refused
) -> None:
    known = [data.draw(st.sampled_from((NUMBERS[other] + " " + CHOICES.get(other, "")).split())) for other in others]
    line = shlex.split(LINES[command])
    for option in known:
        line.append(f"--{option}={data.draw(st.sampled_from(['1', '2', '64', 'price', 'minimize', '0.5']))}")
    refused(line, or_fine=True)
