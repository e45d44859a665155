"""What the README shows works as it stands."""

import contextlib
import io
import re
import subprocess
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_plugin_example_runs() -> None:
    example = next(block for block in _blocks("python") if "HeadAllocationSampler" in block)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})  # our own file, as a reader would run it
    assert "heads of" in printed.getvalue()


def test_the_theory_example_runs() -> None:
    (example,) = [block for block in _blocks("python") if "ensemble_mse" in block]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    terms, diversity = printed.getvalue().splitlines()
    assert terms.startswith("IntegratedMSE(")
    assert float(diversity.split()[0]) == pytest.approx(1.0)


def test_the_law_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = [block for block in _blocks("python") if "fit_scaling_law" in block]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    assert "8 cells, n from 300 to 10,000, D from 48 to 96" in printed.getvalue()
    assert (tmp_path / "law.json").exists()


def test_every_option_named_exists(capfd: pytest.CaptureFixture[str]) -> None:
    from archopt.cli import run

    known = set()
    for command in ("search", "theory", "fit", "recommend", "ask", "tell", "worker", "report", "watch", "doctor"):
        assert run([command, "--help"]) == 0
        known |= set(re.findall(r"--[a-z][a-z-]+", capfd.readouterr().out))
    commands = " ".join(line for block in _blocks("sh") for line in block.splitlines() if "archopt " in line)
    named = set(re.findall(r"--[a-z][a-z-]+", commands)) | set(re.findall(r"`(--[a-z][a-z-]+)", README))
    assert len(named) > 12
    assert named <= known | {"--version"}


def test_the_recommendation_schema_is_the_one_that_is_written() -> None:
    optuna = pytest.importorskip("optuna")
    import archopt

    study = optuna.create_study()
    distribution = optuna.distributions.CategoricalDistribution([1, 2])
    for n_heads in (1, 2):
        study.add_trial(
            optuna.create_trial(params={"n_heads": n_heads}, distributions={"n_heads": distribution}, value=n_heads)
        )
    keys = set(archopt.recommend(study, d_model=8).to_dict())
    table = README[README.index("| key | what |") : README.index("From Python:")]
    documented = set(re.findall(r"`([a-z_]+)`", "".join(row.split("|")[1] for row in table.splitlines() if "|" in row)))
    added_by_a_search = {"metric", "theory", "comparison", "search", "data", "settings", "versions", "diversity_worth"}
    assert documented == (keys | added_by_a_search) - {"schema"}


def test_the_batch_script_and_the_job_manifest_are_sound() -> None:
    yaml = pytest.importorskip("yaml")
    (script,) = [block for block in _blocks("bash") if "#SBATCH" in block]
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    (manifest,) = [yaml.safe_load(block) for block in _blocks("yaml")]
    assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "Job")
    pod = manifest["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "OnFailure"
    (worker,) = pod["containers"]
    assert worker["command"][:2] == ["archopt", "worker"]
    assert "$(STORAGE)" in worker["command"]
    assert [entry["name"] for entry in worker["env"]] == ["STORAGE"]
