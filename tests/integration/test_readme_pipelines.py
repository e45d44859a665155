"""The README's examples for other tools run as they stand, each in a process of its own."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README[README.index("## In your pipeline") :].split("\n## ")[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


def _needs(example: str) -> list[str]:
    return sorted(set(re.findall(r"^(?:import|from) (\w+)", example, re.MULTILINE)))


@pytest.mark.parametrize("example", EXAMPLES, ids=["-".join(_needs(example)) for example in EXAMPLES])
def test_the_example_runs(example: str, tmp_path: Path) -> None:
    missing = [name for name in _needs(example) if name not in sys.modules and find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    (tmp_path / "plugins").symlink_to(ROOT / "plugins")  # what it names lies in the checkout; what it writes does not
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
