"""`archopt ask` and `archopt tell`: one JSON object each, one line and exit code 2 for a mistake."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from archopt.cli import run

WHERE = "--storage sqlite:///study.db --study mine"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _printed(line: str, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(shlex.split(line)) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    return dict(json.loads(out))


def test_from_the_first_ask_to_a_recommendation(capfd: pytest.CaptureFixture[str]) -> None:
    asked = _printed(
        f"ask {WHERE} --d-model 16 --samples 2e6 --family text --head-dim-multiple-of 2 --heads-multiple-of 2 "
        "--head-dim-min 2 --head-dim-max 8 --seed 3 --direction maximize --param learning_rate=1e-4:1e-2:log "
        "--param 'dropout=0, 0.1, 0.2' --param n_layers=2:6:int",
        capfd,
    )
    assert asked.keys() == {"schema", "study", "trial", "params", "allocation", "replicate"}
    assert (asked["study"], asked["trial"], asked["replicate"]) == ("mine", 0, 0)
    assert asked["allocation"]["n_heads"] * asked["allocation"]["head_dim"] == 16
    assert asked["allocation"]["head_dim"] in (2, 4, 8)
    assert asked["params"].keys() == {"n_heads", "learning_rate", "dropout", "n_layers"}
    assert isinstance(asked["params"]["n_layers"], int)
    told = _printed(f"tell {WHERE} --trial 0 --at 100=0.7 --at 2e2=0.8 --hdi 200=0.5 --json", capfd)
    assert told.keys() == {"schema", "study", "trial", "state", "value", "prune", "reason"}
    assert (told["state"], told["prune"]) == ("running", False)
    assert _printed(f"tell {WHERE} --trial 0 --value 0.9", capfd)["value"] == 0.9
    assert _printed(f"ask {WHERE} --json", capfd)["trial"] == 1
    assert _printed(f"tell {WHERE} --trial 1 --failed 'CUDA out of memory'", capfd)["state"] == "failed"
    found = _printed(f"recommend {WHERE} --json", capfd)
    assert (found["direction"], found["allocation"]) == ("maximize", asked["allocation"])


BAD = {
    "no study yet": ("ask --storage sqlite:///new.db --study mine", "the first ask makes the study, with --d-model"),
    "no storage": ("ask --study mine", "--storage"),
    "bad parameter": ("ask --storage sqlite:///new.db --study mine --d-model 8 --param lr=fast:slow", "1e-4:1e-2"),
    "no split": ("ask --storage sqlite:///new.db --study mine --d-model 97 --head-dim-multiple-of 8", "96"),
    "bad storage": ("ask --storage nonsense --study mine --d-model 8", "sqlite:///"),
    "other width": (f"ask {WHERE} --d-model 16", "started with --d-model 8, not --d-model 16"),
    "unknown study": ("tell --storage sqlite:///study.db --study mien --trial 0 --value 1", "it has mine"),
    "missing file": ("tell --storage sqlite:///new.db --study mine --trial 0 --value 1", "does not exist"),
    "unknown trial": (f"tell {WHERE} --trial 7 --value 1", "it has 0 to 1"),
    "half a trial": (f"tell {WHERE} --trial 0.5 --value 1", "'0.5' is not a whole number"),
    "not a value": (f"tell {WHERE} --trial 1 --value low", "'low' is not a number"),
    "nothing": (f"tell {WHERE} --trial 1", "nothing to tell"),
    "both": (f"tell {WHERE} --trial 1 --value 1 --failed no", "--value and --failed"),
    "half a step": (f"tell {WHERE} --trial 1 --at 1.5=1", "'1.5' is not a whole number"),
    "no step": (f"tell {WHERE} --trial 1 --at 0.9", "--at 100=0.9"),
    "a step twice": (f"tell {WHERE} --trial 1 --at 1=1 --at 1=2", "step 1 twice"),
    "hdi above 1": (f"tell {WHERE} --trial 1 --hdi 1=1.5", "between 0 and 1"),
    "ended": (f"tell {WHERE} --trial 0 --value 2", "complete with value 1"),
}


def test_a_mistake_is_one_line_and_nothing_is_written(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for line in (f"ask {WHERE} --d-model 8", f"tell {WHERE} --trial 0 --value 1", f"ask {WHERE}"):
        _printed(line, capfd)
    before = (folder / "study.db").read_bytes()
    for line, hint in BAD.values():
        assert run(shlex.split(line)) == 2, line
        out, err = capfd.readouterr()
        assert out == ""
        assert err.startswith("archopt: ")
        assert err.count("\n") == 1
        assert hint in err
    assert [path.name for path in folder.iterdir()] == ["study.db"]
    assert (folder / "study.db").read_bytes() == before
