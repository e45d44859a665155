"""What must stay light: `import archopt` and `archopt --help` load nothing heavy."""

import subprocess
import sys

import pytest

import archopt

HEAVY = ("torch", "pandas", "sklearn", "scipy", "optuna", "plotly", "skdim", "pyarrow", "matplotlib")


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_import_loads_nothing_heavy() -> None:
    code = f"import archopt, sys; print([m for m in {HEAVY} if m in sys.modules])"
    result = _run(code)
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((command, "--d-model") for command in ("search", "theory", "fit", "recommend", "ask")),
        ("tell", "--value"),
        ("worker", "--storage"),
        ("doctor", "--head-dims"),
        ("watch", "--once"),
        ("report", "--storage"),
    ],
)
def test_help_loads_nothing_heavy(command: str, option: str) -> None:
    code = (
        f"import sys; from archopt.cli import run; code = run([{command!r}, '--help']); "
        f"print(code, [m for m in {HEAVY} if m in sys.modules])"
    )
    result = _run(code)
    assert result.stdout.strip().endswith("0 []")
    assert option in result.stdout


def test_every_public_name_has_a_home() -> None:
    assert set(archopt.__all__) - {"__version__", "sklearn", "theory"} == set(archopt._HOMES)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        archopt.no_such_name  # noqa: B018
