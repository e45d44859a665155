"""`archopt report`: from a storage alone, of a search, a campaign, and studies that archopt did not make."""

import json
import struct
from pathlib import Path
from typing import Any

import optuna
import pytest

import archopt
from archopt.campaign.reporting import report
from archopt.cli import run
from archopt.errors import OptionError

HEADS = [1, 2, 4, 8, 16]


@pytest.fixture
def theirs(tmp_path: Path) -> str:
    """A storage with a study of somebody else's, to be maximised; 4 heads of 4 are best."""
    url = f"sqlite:///{tmp_path / 'theirs.db'}"
    study = optuna.create_study(study_name="../odd name", storage=url, direction="maximize")

    def value(heads: int, dropout: float) -> float:
        return 0.9 - 0.1 * abs(heads.bit_length() - 3) - dropout

    distributions: dict[str, Any] = {
        "num_heads": optuna.distributions.CategoricalDistribution(HEADS),
        "dropout": optuna.distributions.CategoricalDistribution([0.0, 0.1]),
    }
    study.add_trials(
        [
            optuna.create_trial(
                params={"num_heads": heads, "dropout": dropout},
                distributions=distributions,
                value=value(heads, dropout),
                intermediate_values={5: value(heads, dropout) - 0.2, 10: value(heads, dropout)},
            )
            for dropout in (0.0, 0.1)
            for heads in HEADS
        ]
    )
    study.add_trial(
        optuna.create_trial(
            state=optuna.trial.TrialState.FAIL,
            params={"num_heads": 16, "dropout": 0.0},
            distributions=distributions,
        )
    )
    return url


def test_any_study_has_a_report_and_what_is_missing_is_said(theirs: str, tmp_path: Path) -> None:
    written = report("../odd name", storage=theirs, out=tmp_path / "out", d_model=16)
    page = written.files[0].read_text("utf-8")
    assert "Use 4 heads x 4 (d_model 16)" in page
    for said in (
        "No time: fewer than two allocations",
        "Not compared: fewer than two weightings",
        "No head diversity",
        "Not compared on a test split",
        "Trials: 10 finished, 0 pruned, 1 failed.",
        "no reason on record",
    ):
        assert said in page
    pictures = [path.relative_to(tmp_path / "out").as_posix() for path in written.files[1:]]
    assert pictures == ["figures/loss-head-dim.png", "figures/learning-curves.png"]
    for path in written.files[1:]:
        head = path.read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", head[16:]) == (1600, 900)
    study = optuna.load_study(study_name="../odd name", storage=theirs)
    expected = archopt.recommend(study, d_model=16).to_dict()
    assert {key: written.answer[key] for key in ("allocation", "p_best", "params")} == {
        key: expected[key] for key in ("allocation", "p_best", "params")
    }


def test_values_of_a_maximised_study_keep_their_sign(theirs: str, tmp_path: Path) -> None:
    written = report("../odd name", storage=theirs, out=tmp_path / "out", d_model=16, pictures=False)
    page = written.files[0].read_text("utf-8")
    spec = json.loads(page.split('id="spec-loss-head-dim">')[1].split("</script>")[0])
    shown = [value for trace in spec["data"] if trace.get("name") == "finished trial" for value in trace["y"]]
    own = [
        value for trace in spec["data"] if trace.get("name") == "the recommended configuration" for value in trace["y"]
    ]
    assert own == [0.9]
    assert sorted([*shown, *own]) == pytest.approx(
        sorted(0.9 - 0.1 * abs(heads.bit_length() - 3) - dropout for heads in HEADS for dropout in (0.0, 0.1)),
        rel=1e-4,
    )


def test_the_name_of_a_study_leads_nowhere(
    theirs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["report", "../odd name", "--storage", theirs, "--d-model", "16", "--no-pictures", "--json"]
    assert run(line) == 0
    plain = json.loads(capfd.readouterr().out)
    assert plain["schema"] == "archopt.report/1"
    assert plain["files"] == ["archopt-results/odd-name/report.html"]
    assert (tmp_path / plain["files"][0]).is_file()
    assert plain["answer"]["allocation"] == {"n_heads": 4, "head_dim": 4}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["nothing"], "there is no search 'nothing' in archopt-results here"),
        (["../../etc"], "there is no search '../../etc' in archopt-results here"),
        (["nothing", "--storage", "sqlite:///none.db"], "does not exist: give the URL of one that holds a study"),
        (["nothing", "--storage", "THEIRS"], "holds no 'nothing'; its studies: '../odd name'"),
        (["../odd name", "--storage", "THEIRS"], "d_model"),
        (["../odd name", "--storage", "THEIRS", "--d-model", "16", "--confidence", "2"], "confidence must lie between"),
        (["../odd name", "--storage", "THEIRS", "--d-model", "16", "--law", "none.json"], "cannot be read"),
        (["../odd name", "--storage", "THEIRS", "--d-model", "16", "--out", "/proc/none"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    theirs: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    line: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", *(word.replace("THEIRS", theirs) for word in line)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert told in err
    assert len(err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.db"]


def test_a_study_without_a_finished_trial_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(study_name="empty", storage=url)
    with pytest.raises(OptionError, match="has no trials yet"):
        report("empty", storage=url, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
