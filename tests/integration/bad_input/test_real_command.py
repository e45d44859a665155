"""The same through the installed command: an exit code and one line, also of what Python itself would print."""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

SEARCH = "search good.csv --target price --d-model 8"
LINES: dict[str, Sequence[str | bytes]] = {
    "no such command": ["serach", "good.csv"],
    "no argument": ["search"],
    "no such option": f"{SEARCH} --speed 3".split(),
    "a number that is none": f"{SEARCH} --trials many".split(),
    "not a number": f"{SEARCH} --timeout nan".split(),
    "an empty number": [*SEARCH.split(), "--trials", ""],
    "digits without end": [*SEARCH.split(), "--trials", "9" * 5_000],
    "a whole number of an infinity": f"{SEARCH} --seed inf".split(),
    "a choice that is none": f"{SEARCH} --weighting golden".split(),
    "escapes in a choice": [*SEARCH.split(), "--metric", "\x1b[2Jrmse"],
    "bytes that are no text": [*SEARCH.split(), "--name", b"\xff\xfe"],
    "bytes for a file": ["search", b"\xff.csv", "--d-model", "8"],
    "a column that is bytes": ["search", "good.csv", "--d-model", "8", "--target", b"\xff"],
    "a long name": ["search", "x" * 5_000, "--d-model", "8"],
    "a folder": ["search", "folder", "--d-model", "8"],
    "a link to nothing": ["search", "dangling.csv", "--d-model", "8", "--target", "y"],
    "binary": ["search", "other.db", "--d-model", "8"],
    "binary as a table": ["search", "binary.csv", "--d-model", "8", "--target", "y"],
    "parquet that is none": ["search", "none.parquet", "--d-model", "8", "--target", "y"],
    "a storage that is none": f"{SEARCH} --storage nonsense".split(),
    "a driver that is not there": f"{SEARCH} --storage oracle://user:secret@host/db".split(),
    "a database of something else": f"{SEARCH} --storage sqlite:///other.db".split(),
    "a study that is not there": ["recommend", "--storage", "sqlite:///asked.db", "--study", "their"],
    "a study without trials": ["recommend", "--storage", "sqlite:///joined.db", "--study", "joined"],
    "a law that is none": ["recommend", "--d-model", "8", "--samples", "9", "--law", "good.csv"],
    "runs that are none": ["fit", "good.csv"],
    "a first ask without a width": ["ask", "--storage", "sqlite:///new.db", "--study", "new"],
    "a trial that was not asked": [
        "tell",
        "--storage",
        "sqlite:///asked.db",
        "--study",
        "mine",
        "--trial",
        "7",
        "--value",
        "1",
    ],
    "a campaign that is not there": ["worker", "--storage", "sqlite:///asked.db", "--name", "nobody"],
    "a theorem that is none": ["theory", "--theorem", "9.9"],
}


@pytest.fixture(scope="module")
def ends(folder: Path) -> dict[str, subprocess.CompletedProcess[bytes]]:
    """How each command ended; two run at the same time."""
    (folder / "binary.csv").write_bytes(os.urandom(2_000))
    (folder / "none.parquet").write_bytes(b"PAR1" + b"\0" * 50)
    before = sorted(folder.rglob("*"))

    def ended(line: Sequence[str | bytes]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([sys.executable, "-m", "archopt", *line], capture_output=True, timeout=250, cwd=folder)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(LINES, pool.map(ended, LINES.values()), strict=True))
    assert sorted(folder.rglob("*")) == before
    return found


@pytest.mark.parametrize("case", LINES)
def test_a_mistake_is_one_line_of_the_command(case: str, ends: dict[str, subprocess.CompletedProcess[bytes]]) -> None:
    end = ends[case]
    said = end.stderr.decode()
    assert end.returncode == 2, said
    assert end.stdout == b""
    assert said.startswith("archopt: ")
    assert said.endswith("\n")
    assert said[:-1].isprintable(), said
    assert len(said) <= 300
    assert "secret" not in said
