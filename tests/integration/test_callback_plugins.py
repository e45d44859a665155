"""What the plugins with a callback for a training loop have in common: versions that are checked, and an example."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "plugins"


def _needs(plugin: str) -> None:
    if find_spec(f"archopt_{plugin}") is None:
        pytest.skip(f"pip install ./plugins/{plugin}")


@pytest.mark.parametrize(
    ("plugin", "package", "version", "fits"),
    [("lightning", "lightning", "2.6.3", ">=2.4"), ("huggingface", "transformers", "4.30.0", ">=4.50")],
)
def test_versions_that_do_not_fit_are_told_in_one_line(
    tmp_path: Path, plugin: str, package: str, version: str, fits: str
) -> None:
    _needs(plugin)
    metadata = tmp_path / f"{package}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import archopt_{plugin}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 1
    last = found.stderr.strip().splitlines()[-1]
    assert f"archopt with {plugin}: {package} {version} does not fit ({fits}" in last
    assert f"pip install '{package}==" in last


@pytest.mark.torch
@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize("plugin", ["lightning", "huggingface"])
def test_the_example_runs(plugin: str) -> None:
    _needs(plugin)
    example = PLUGINS / plugin / "example.py"
    run = subprocess.run([sys.executable, example, "2", "1"], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert "best expected value after 2 finished of 2 trials" in run.stdout
