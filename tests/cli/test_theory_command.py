"""`archopt theory`: verdicts in words, one JSON object, one line for a mistake, and nothing heavy loaded."""

import json
import shlex
import signal
import subprocess
import sys

import pytest

from archopt.cli import run
from archopt.cli.numbers import whole_number

SMALL = "theory --function additive --intrinsic-dim 2 --d-model 12 --heads 3 --samples 60 --queries 20 --replicates 5"
# The first head sees all that there is, the others nothing.
ALIGNED = f"{SMALL} --embedding linear --axes aligned --samples 120 --replicates 8"

BAD = {
    "function misspelt": ("theory --function freidman", "did you mean 'friedman'"),
    "too few dimensions": ("theory --intrinsic-dim 2", "functions for fewer: additive"),
    "no dimension": ("theory --function additive --intrinsic-dim 0", "intrinsic_dim must be"),
    "half a dimension": ("theory --intrinsic-dim 5.5", "5.5"),
    "one row": ("theory --samples 1", "n_samples must be a whole number of at least 2"),
    "too many rows": ("theory --samples 1e9", "at most 20,000"),
    "heads that do not divide": ("theory --heads 7", "n_heads in {1, 2, 3"),
    "negative noise": ("theory --noise -1", "noise_sd"),
    "noise that is no number": ("theory --noise nan", "noise_sd"),
    "noise in words": ("theory --noise loud", "loud"),
    "temperature zero": ("theory --temperature 0", "temperature must be"),
    "temperature in words": ("theory --temperature hot", "'best'"),
    "temperature not finite": ("theory --temperature nan", "temperature"),
    "unknown kernel": ("theory --kernel box", "exponential"),
    "unknown embedding": ("theory --embedding flat", "curved"),
    "unknown axes": ("theory --axes principal", "aligned"),
    "unknown theorem": ("theory --theorem 9.9", "3.1"),
    "two replicates": ("theory --replicates 2", "at least 3"),
    "no query": ("theory --queries 0", "n_queries"),
    "negative seed": ("theory --seed -1", "seed"),
    "confidence": ("theory --confidence 1", "confidence"),
    "argument": ("theory friedman", "friedman"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_line(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    line, hint = BAD[case]
    assert run(shlex.split(line)) == 2
    out, err = capfd.readouterr()
    lines = err.strip().splitlines()
    assert (out, len(lines)) == ("", 1), err
    assert lines[0].startswith("archopt: ")
    assert len(lines[0]) < 300
    assert hint in lines[0]


def test_a_theorem_that_does_not_hold_is_said_not_to(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(f"{ALIGNED} --theorem 4.2 --theorem 7.1")) == 0  # a finding, not a failure
    out, err = capfd.readouterr()
    words = " ".join(out.split())
    assert "4.2 (stated): the error does not rise as the heads' diversity (HDI) rises: does not hold" in words
    assert "7.1 (ours): minimum-variance weights beat uniform ones in this setting: holds" in words
    assert "linear inputs, aligned axes; 8 replicates" in words
    assert err.splitlines() == [
        "archopt: measuring theorem 4.2 ...",
        "archopt: measuring theorem 7.1 ...",
    ]


def test_json_is_one_object_with_the_raw_figures(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(f"{ALIGNED} --json --quiet")) == 0
    out, err = capfd.readouterr()
    assert err == ""
    report = json.loads(out)
    assert list(report) == ["schema", "setting", "confidence", "findings"]
    assert report["setting"]["axes"] == "aligned"
    assert [finding["theorem"] for finding in report["findings"]] == [
        "3.1", "4.2", "5.1", "6.1", "6.1", "6.1", "6.1", "6.1", "6.1", "7.1", "7.1", "7.1",
    ]  # fmt: skip
    for finding in report["findings"]:
        assert finding["verdict"] in ("holds", "does not hold", "cannot tell")
        assert finding["rows"]
    diversity = report["findings"][1]
    assert diversity["allowed"] == [None, 0.01]  # no limit below
    assert diversity["rows"][0]["hdi"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("temperature", "said"),
    [("best", "the best temperature"), ("literal", "bandwidth 1/sqrt(d_k)"), ("0.25", "temperature 0.25")],
)
def test_every_rule_for_the_temperature_is_named(
    temperature: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(f"{SMALL} --theorem 3.1 --temperature {temperature} -q")) == 0
    assert f"gaussian kernel at {said}, curved inputs" in " ".join(capfd.readouterr().out.split())


def test_equal_seeds_print_equal_figures(capfd: pytest.CaptureFixture[str]) -> None:
    printed = []
    for seed in (0, 0, 1):
        assert run(shlex.split(f"{SMALL} --theorem 5.1 --seed {seed}")) == 0
        printed.append(capfd.readouterr().out)
    assert printed[0] == printed[1] != printed[2]


def test_neither_torch_nor_pandas_is_needed() -> None:
    code = (
        f"import sys; from archopt.cli import run; code = run({(SMALL + ' --theorem 3.1 --json -q').split()!r}); "
        "print(code, [m for m in ('torch', 'pandas', 'sklearn', 'optuna') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.strip().endswith("0 []"), result.stderr


def test_help_has_an_example(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["theory", "--help"]) == 0
    assert "Example: archopt theory" in " ".join(capfd.readouterr().out.split())


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_said(number: signal.Signals) -> None:
    line = [sys.executable, "-m", "archopt", *shlex.split("theory --theorem 4.2 --replicates 9999")]
    with subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    ) as process:
        try:
            assert process.stderr is not None
            assert "measuring" in process.stderr.readline()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, "", "archopt: interrupted\n")


def test_whole_numbers_are_read_exactly() -> None:
    assert whole_number("9007199254740993") == 9007199254740993  # 2^53 + 1, which no float is
    assert whole_number("5e3") == whole_number("5_000") == 5000
