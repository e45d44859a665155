"""`archopt doctor` on this machine, on one without torch, and on storages of every kind."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import optuna
import pytest

import archopt
from archopt.cli import run
from archopt.doctor import packages
from archopt.doctor.machine import memory_bytes, memory_finding
from archopt.doctor.packages import package_findings
from archopt.doctor.storages import storage_finding


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Makes packages look as if they were installed in stated versions; None: not installed."""

    def pretend(**versions: str | None) -> None:
        real = packages.version

        def version(name: str) -> str:
            found = versions[name.replace("-", "_")] if name.replace("-", "_") in versions else real(name)
            if found is None:
                raise PackageNotFoundError(name)
            return found

        monkeypatch.setattr("archopt.doctor.packages.version", version)
        monkeypatch.setattr("archopt.versions.version", version)

    return pretend


def by_name(findings):
    return {finding.name: finding for finding in findings}


@pytest.mark.torch
def test_a_whole_machine_is_examined_and_nothing_is_left_behind(here, capfd):
    pytest.importorskip("torch")
    code = run(["doctor", "--json", "--head-dims", "4,48"])
    said = capfd.readouterr()
    found = json.loads(said.out)
    assert (said.err, found["schema"], found["sound"]) == ("", "archopt.doctor/1", code == 0)
    named = {finding["name"]: finding for finding in found["findings"]}
    assert named["python"]["found"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert {"torch", "optuna", "cores", "memory", "device", "xformers", "storage"} <= named.keys()
    assert [(row["n_heads"], row["head_dim"]) for row in found["kernels"]] == [(32, 4), (2, 48)]
    assert all(0 < row["table_seconds"] < 10 and 0 < row["text_seconds"] < 10 for row in found["kernels"])
    assert list(here.iterdir()) == []


@pytest.mark.torch
def test_the_kernels_named_are_those_that_training_takes(here, capfd):
    torch = pytest.importorskip("torch")
    from archopt.campaign.device import resolve_device
    from archopt.models.attention import choose_kernel

    device = resolve_device("auto", "auto")
    run(["doctor", "--json", "--head-dims", "8"])
    (row,) = json.loads(capfd.readouterr().out)["kernels"]
    table = choose_kernel(device, torch.float32, 9, n_scores=16 * 64 * 1024)
    text = choose_kernel(device, torch.float32, 8, n_scores=8 * 16 * 64 * 64, causal=True)
    assert (row["table"], row["text"]) == (table, text)


def test_without_torch_it_says_so_and_goes_on(tmp_path):
    site = Path(optuna.__file__).parents[1]
    bare = tmp_path / "site"
    bare.mkdir()
    for entry in site.iterdir():
        if not entry.name.startswith(("torch-", "xformers")) and entry.name != "torch":
            (bare / entry.name).symlink_to(entry)
    if not (bare / "archopt").exists():  # installed as a link to the checkout
        (bare / "archopt").symlink_to(Path(archopt.__file__).parent)
    program = f"import sys; sys.path[1:1] = [{str(bare)!r}]; from archopt.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, "doctor"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, env={"PATH": "/usr/bin:/bin"}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    broken = [line for line in done.stdout.splitlines() if line.startswith("broken: ")]
    assert len(broken) == 1
    assert broken[0].startswith("broken: torch is not installed: pip install 'torch>=")
    assert "can be written here" in done.stdout
    assert "head_dim " not in done.stdout


def test_a_package_that_is_too_old_is_a_fault_with_what_to_do(installed):
    installed(optuna="3.6.1", scipy=None)
    found = by_name(package_findings())
    assert found["optuna"].fault == "optuna 3.6.1 does not fit (>=4.9): pip install 'optuna>=4.9'"
    assert found["scipy"].fault == "scipy is not installed: pip install 'scipy>=1.12'"
    assert found["numpy"].fault == ""


@pytest.mark.parametrize(("plugin", "is_fault"), [("0.1.0", True), (None, False)])
def test_a_misfit_is_a_fault_only_where_our_plugin_needs_it(installed, plugin, is_fault):
    installed(lightning="2.6.3", optuna_integration="5.0.0", archopt_lightning=plugin)
    finding = by_name(package_findings())["for lightning"]
    assert bool(finding.fault) is is_fault
    assert "GHSA-w37p-236h-pfx3" in (finding.fault or finding.found)
    if is_fault:
        assert finding.fault.endswith("pip install 'lightning==2.6.6' 'optuna-integration==5.0.0'")


def test_integrations_that_are_not_here_are_not_mentioned(installed):
    installed(hydra_core=None, hydra_optuna_sweeper=None)
    assert "for hydra" not in by_name(package_findings())


def test_a_storage_that_answers_is_read_and_not_written(here):
    url = f"sqlite:///{here / 'study.db'}"
    for name in ("one", "two"):
        optuna.create_study(study_name=name, storage=url)
    before = (here / "study.db").read_bytes()
    finding = storage_finding(url)
    assert finding.fault == ""
    assert finding.found.endswith("2 studies")
    assert (here / "study.db").read_bytes() == before


def test_storages_that_are_not_there_are_not_made(here):
    assert storage_finding("sqlite:///new.db").fault == ""
    assert "does not exist yet" in storage_finding("sqlite:///new.db").found
    assert "its folder does not exist" in storage_finding("sqlite:///none/new.db").fault
    assert "archopt-results/ can be written here" in storage_finding(None).found
    assert list(here.iterdir()) == []


def test_a_database_that_is_empty_is_no_fault_and_stays_empty(here):
    (here / "empty.db").touch()
    finding = storage_finding("sqlite:///empty.db")
    assert (finding.fault, "is empty" in finding.found) == ("", True)
    assert (here / "empty.db").read_bytes() == b""


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:geheim@127.0.0.1:1/x",
        "postgresql+psycopg://me:ge@heim@127.0.0.1:1/x",
        "mysql+nothing://me:geheim@host/x",
        "no url, geheim@heim",
    ],
)
def test_a_storage_that_cannot_be_reached_is_one_line_without_its_password(here, url):
    fault = storage_finding(url).fault
    assert fault.startswith("storage ")
    assert "geheim" not in fault
    assert "ge@heim" not in fault
    assert "\n" not in fault


def test_a_file_that_is_no_database_is_a_fault(here):
    (here / "notes.txt").write_text("text that is longer than a head of SQLite")
    assert "file is not a database" in storage_finding("sqlite:///notes.txt").fault


def test_a_folder_that_cannot_be_written_is_a_fault(here):
    (here / "archopt-results").write_text("a file in its place")
    assert "cannot be written" in storage_finding(None).fault


def test_memory_counts_the_containers_limit(tmp_path, monkeypatch):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:    8000000 kB\n")
    monkeypatch.setattr("archopt.doctor.machine._MEMORY", meminfo)
    monkeypatch.setattr("archopt.doctor.machine._CGROUP", tmp_path)
    assert memory_bytes() == (16_384_000_000, 8_192_000_000)
    assert memory_finding().fault == ""
    (tmp_path / "memory.max").write_text("500000000\n")
    (tmp_path / "memory.current").write_text("400000000\n")
    assert memory_bytes() == (500_000_000, 100_000_000)
    assert "too little for" in memory_finding().fault


@pytest.mark.parametrize("widths", ["0", "2000", ",".join(map(str, range(1, 40)))])
def test_widths_that_cannot_be_timed_are_refused(widths, here, capfd):
    assert run(["doctor", "--head-dims", widths]) == 2
    assert "head_dims must" in capfd.readouterr().err
