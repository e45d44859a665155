"""Versions of other packages that do not fit are named with those that do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from archopt.errors import PluginError
from archopt.versions import INTEGRATIONS, require


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Install the metadata of a package, which is all that is asked for; it hides another version of the same."""

    def install(package: str, version: str) -> None:
        folder = tmp_path / f"{package.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_versions_that_fit_pass_in_silence(installed: Callable[[str, str], None]) -> None:
    installed("hydra-core", "1.4.0rc3")
    installed("hydra-optuna-sweeper", "1.4.0")
    require("hydra")


def test_one_that_does_not_fit_is_named_with_what_to_install(installed: Callable[[str, str], None]) -> None:
    installed("hydra-core", "1.4.0")
    installed("hydra-optuna-sweeper", "1.3.0")
    with pytest.raises(PluginError) as caught:
        require("hydra")
    assert str(caught.value) == (
        "archopt with hydra: hydra-optuna-sweeper 1.3.0 does not fit (>=1.4.0rc3,<2; 1.3 needs an Optuna before 3): "
        "pip install 'hydra-core==1.4.0rc3' 'hydra-optuna-sweeper==1.4.0rc3'"
    )


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(PluginError, match="optunahub is not installed: pip install 'optunahub==") as caught:
        require("optunahub")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(INTEGRATIONS))
def test_what_was_tested_fits_and_is_what_the_tests_install(name: str) -> None:
    pins = Path(__file__).with_name("constraints.txt").read_text().splitlines()
    for need in INTEGRATIONS[name]:
        assert SpecifierSet(need.fits).contains(need.tested, prereleases=True)
        assert f"{need.package}=={need.tested}" in pins


@pytest.mark.parametrize("name", sorted(INTEGRATIONS))
def test_a_plugin_asks_pip_for_the_versions_that_archopt_accepts(name: str) -> None:
    project = Path(__file__).parents[1] / "plugins" / name / "pyproject.toml"
    asked = project.read_text()
    for need in INTEGRATIONS[name]:
        assert f'"{need.package}{need.fits}"' in asked
