"""`archopt fit` and `archopt recommend`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from archopt.cli import run

PUBLISHED = Path(__file__).parents[2] / "studies" / "published_tables"
FILE = str(PUBLISHED / "vaswani2017_table3.csv")
_COLUMNS = "--n-samples 4.5e6 --metric perplexity --direction minimize --ignore bleu --ignore row --noise-sd 0.03"
VASWANI = [FILE, *_COLUMNS.split()]


def test_fit_prints_the_cells_and_writes_the_law(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "law.json"
    assert run(["fit", *VASWANI, "--family", "text", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "32, 64" in printed
    assert f"Written to {out}" in printed
    assert run(["recommend", "--d-model", "512", "--samples", "4.5e6", "--law", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 32 <= found["head_dim"] <= 64
    assert {source["name"] for source in found["sources"]} == {"theory", "law"}
    assert {each["head_dim"] for each in found["allocations"]} == {32, 64}


def test_fit_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", *VASWANI, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "archopt.scaling_law/1"
    assert found["cells"][0]["tied"] == [32, 64]


def test_fit_of_the_public_grid_prints_laws(capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        "--n-samples n_tokens --best-over warmup --ignore lr --ignore wd --noise-sd 0.0084 --family text --no-plan"
    )
    assert run(["fit", str(PUBLISHED / "gadre2024_grid.csv"), *options.split()]) == 0
    printed = capsys.readouterr().out
    assert "... and 5 more cells" in printed
    assert "note: dropped 17 rows where n_heads does not divide d_model: 156, 157" in printed
    assert "linear is not rejected" in printed


def test_recommend_from_theory_says_where_its_constant_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recommend", "--d-model", "512", "--samples", "1e9"]) == 0
    printed = capsys.readouterr().out
    assert "8 heads of 64" in printed
    assert "comes from published practice" in printed


def test_recommend_fits_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", FILE, "--n-samples-column", *VASWANI[2:]]
    assert run(["recommend", "--d-model", "512", "--samples", "4.5e6", *data, "--basis", "law"]) == 0
    assert "1 cell of this size" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("fit", "give one of FILE, --name, --study but got none"),
        ("fit a.csv --name b", "got FILE and --name"),
        ("fit nothing.csv", "cannot be read"),
        ("fit --name nothing", "no campaign 'nothing'"),
        (f"fit {FILE} --n-samples 4.5e6 --metric bleu", "is a low or a high 'bleu' better"),
        (f"fit {FILE} --metric bleu --direction maximize", "no column n_samples"),
        ("fit --name a --direction maximize", "options of columns and --direction are for a FILE"),
        ("fit --study a=1 --storage sqlite:///none.db", "does not exist"),
        (f"fit {FILE} --n-samples 1e6 --metric bleu --direction maximize --seed=-1", "seed must be"),
        ("recommend --d-model 512 --samples 1e6 --law a.json --metric x", "options of columns"),
        ("recommend --d-model 512 --samples 1e6 --law a.json --noise-sd 1", "--noise-sd is for fitting"),
        ("recommend --samples 1e6", "d-model"),
        ("recommend --d-model 512", "samples"),
        ("recommend --d-model 512 --samples -3", "n_samples"),
        ("recommend --d-model 512 --samples 1e6 --basis law", "needs a law"),
        ("recommend --d-model 512 --samples 1e6 --law none.json", "none.json"),
        ("recommend --d-model 512 --samples 1e6 --law a.json --data b.csv", "got --law and --data"),
        ("recommend --d-model 509 --samples 1e6 --head-dim-multiple-of 8", "509"),
    ],
)
def test_a_mistake_is_one_line(
    line: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert told in captured.err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("archopt.laws.scaling.fit_scaling_law", interrupted)
    assert run(["fit", *VASWANI]) == 130
    assert capsys.readouterr().err == "archopt: interrupted\n"


def test_recommend_loads_nothing_heavy(tmp_path: Path) -> None:
    assert run(["fit", *VASWANI, "--out", str(tmp_path / "law.json")]) == 0
    for arguments in ([], ["--law", str(tmp_path / "law.json")]):
        words = ["recommend", "--d-model", "512", "--samples", "1e9", *arguments]
        code = (
            f"import sys; from archopt.cli import run; code = run({words!r}); "
            "print(code, [m for m in ('torch', 'optuna', 'scipy', 'pandas', 'sklearn') if m in sys.modules])"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert result.stdout.strip().endswith("0 []")
