"""The command line: one line and exit code 2 for a user's mistake, nothing written; one JSON object with --json."""

import json
import os
import shlex
from pathlib import Path

import pytest

from archopt.cli import run
from archopt.cli.numbers import Sizes, sizes

HEADER = "area,age,price\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with files that a user might point at by mistake."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{20 + 3 * k},{k % 7},{100 + 10 * k}.5" for k in range(60)]
    (tmp_path / "good.csv").write_text(HEADER + "\n".join(rows) + "\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text(HEADER)
    (tmp_path / "few.csv").write_text(HEADER + "\n".join(rows[:5]) + "\n")
    (tmp_path / "constant.csv").write_text(HEADER + "\n".join(f"{k},{k},7" for k in range(60)) + "\n")
    (tmp_path / "missing.csv").write_text(HEADER + "\n".join(f"{k},{k}," for k in range(60)) + "\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "short.txt").write_text("too short")
    return tmp_path


BAD = {
    "no command": ("serach good.csv", "No such command"),
    "missing file": ("search god.csv --d-model 48 --target price", "good.csv"),
    "no width": ("search good.csv", "d-model"),
    "empty file": ("search empty.csv --d-model 48 --target price", "empty"),
    "directory": ("search folder --d-model 48 --target price", "folder"),
    "header only": ("search header.csv --d-model 48 --target price", "row"),
    "few rows": ("search few.csv --d-model 48 --target price", "20"),
    "target misspelt": ("search good.csv --d-model 48 --target pirce", "price"),
    "target not given": ("search good.csv --d-model 48", "target"),
    "constant target": ("search constant.csv --d-model 48 --target price", "price"),
    "no target at all": ("search missing.csv --d-model 48 --target price", "price"),
    "short text": ("search short.txt --d-model 48", "4,096"),
    "target of a text": ("search text:python-topics --d-model 48 --target price", "text"),
    "unknown bundled set": ("search sklearn:digit --d-model 48", "digits"),
    "unknown text": ("search text:topics --d-model 48", "python-topics"),
    "no split": ("search good.csv --target price --d-model 97 --head-dim-multiple-of 8", "96"),
    "no split of 60": ("search good.csv --target price --d-model 60 --head-dim-min 61", "min_head_dim"),
    "negative width": ("search good.csv --target price --d-model -4", "-4"),
    "zero width": ("search good.csv --target price --d-model 0", "at least 1"),
    "huge width": ("search good.csv --target price --d-model 1e9", "1,048,576"),
    "wide for memory": ("search good.csv --target price --d-model 500000", "d_model"),
    "not a number": ("search good.csv --target price --d-model wide", "wide"),
    "half a head": ("search good.csv --target price --d-model 4.5", "4.5"),
    "infinite": ("search good.csv --target price --d-model inf", "inf"),
    "zero trials": ("search good.csv --target price --d-model 8 --trials 0", "n_trials"),
    "negative samples": ("search good.csv --target price --d-model 8 --samples -3", "-3"),
    "too many samples": ("search good.csv --target price --d-model 8 --samples 5e5", "36"),
    "sizes that are none": ("search good.csv --target price --d-model 8 --samples 30,abc", "'abc'"),
    "widths that are none": ("search good.csv --target price --d-model 8,wide", "'wide'"),
    "no size that fits": ("search good.csv --target price --d-model 8 --samples 5e5,6e5", "no cell can be searched"),
    "negative timeout": ("search good.csv --target price --d-model 8 --timeout -1", "timeout"),
    "unknown metric": ("search good.csv --target price --d-model 8 --metric auc", "rmse"),
    "metric of another task": ("search good.csv --target price --d-model 8 --metric log_loss", "rmse"),
    "unknown weighting": ("search good.csv --target price --d-model 8 --weighting golden", "fibonacci"),
    "no cuda": ("search good.csv --target price --d-model 8 --device cuda", "cpu"),
    "xformers on a cpu": ("search good.csv --target price --d-model 8 --attention xformers", "sdpa"),
    "bad storage": ("search good.csv --target price --d-model 8 --storage nonsense", "sqlite:///"),
    "storage in no folder": ("search good.csv --target price --d-model 8 --storage sqlite:////no/such/x.db", "opened"),
    "out below a file": ("search good.csv --target price --d-model 8 --out file/below", "--out"),
    "out that cannot be": (
        "search good.csv --target price --d-model 8 --storage sqlite:///new.db --out /proc/x",
        "--out",
    ),
    "bad name": ("search good.csv --target price --d-model 8 --name a/b", "name"),
    "group unknown": ("search good.csv --target price --d-model 8 --group town", "town"),
    "group and time": ("search good.csv --target price --d-model 8 --group age --time area", "time"),
    "valid missing": ("search good.csv --target price --d-model 8 --valid none.csv", "none.csv"),
    "unknown option": ("search good.csv --target price --d-model 8 --speed fast", "--speed"),
    "confidence": ("search good.csv --target price --d-model 8 --confidence 2", "confidence"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_line_and_nothing_is_written(
    case: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line, hint = BAD[case]
    if case == "no cuda":
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("there is CUDA here")
    before = sorted(os.listdir(folder))
    code = run(shlex.split(line))
    out, err = capfd.readouterr()
    assert code == 2, err
    last = err.strip().splitlines()
    assert len(last) == 1, err
    assert len(last[0]) < 300
    assert hint in last[0]
    assert "Traceback" not in err
    assert out == ""
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(("line", "said"), [("--help", "search"), ("search --help", "Example:"), ("--version", "0.1")])
def test_help_and_version(line: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 0
    assert said in capfd.readouterr().out


def test_without_a_command_the_help_is_printed_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("Usage: archopt")
    assert "\n  search " in err


@pytest.mark.torch
def test_json_is_one_object_and_a_prime_width_is_allowed_with_a_warning(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    line = "search good.csv --target price --d-model 7 --trials 9 --steps 10 --workers 1 --json"
    assert run(line.split()) == 0
    out, err = capfd.readouterr()
    plain = json.loads(out)
    assert plain["allocation"] in ({"n_heads": 1, "head_dim": 7}, {"n_heads": 7, "head_dim": 1})
    assert "d_model = 7 is prime" in " ".join(err.split())
    assert any("d_model = 7 is prime" in caveat for caveat in plain["caveats"])
    assert sorted(path.name for path in (folder / "archopt-results" / "good-d7").iterdir()) == [
        "figures",
        "recommendation.json",
        "report.html",
        "rungs.csv",
        "study.db",
        "trials.csv",
    ]


@pytest.mark.torch
def test_the_summary_answers_in_words(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    line = "search good.csv --target price --d-model 8 --trials 9 --steps 10 --workers 1 --quiet"
    assert run(line.split()) == 0
    out, err = capfd.readouterr()
    assert err == ""
    for said in (
        "Use ",
        "Probability that no other allowed allocation is better",
        "closed form",
        "test rmse",
        "step time",
        "small proxy",
    ):
        assert said in " ".join(out.split())


@pytest.mark.parametrize(
    ("text", "numbers"), [("48", (48,)), ("3e3, 300,1_000,300", (300, 1_000, 3_000)), ("8,8", (8,))]
)
def test_sizes_are_sorted_and_distinct(text: str, numbers: tuple[int, ...]) -> None:
    assert sizes(text) == Sizes(numbers)
