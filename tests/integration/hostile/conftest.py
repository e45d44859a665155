"""A table, its campaign and its studies as somebody hostile would make them, and the real commands that read them.

Every process, those that train included, runs under an audit hook, which tells of each text that Python compiles, each
object that is executed and each class that a pickle asks for.
"""

import base64
import csv
import json
import os
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

MARK = "zqx"  # in every hostile text: whatever is made of one can be told by it

COLUMNS = [
    f"<script>alert('{MARK}')</script>",
    f'"><img src=x onerror=alert("{MARK}")>',
    f"</script><script>alert('{MARK}')</script>",
    f"{{{{7*7}}}}{MARK}",
    f"__import__('os').system('touch {MARK}')",
    f"=cmd|' /c {MARK}'!A0",
    f"\x1b[2J\x1b]0;{MARK}\x07",
    f"\u202egpj.{MARK}",
    f"a\n{MARK}",
]
TARGET = f"<img src=x onerror=alert('{MARK}')>"
CLASSES = [f"<b onclick=alert('{MARK}')>", f"\x1b[31m__import__('os').system('touch {MARK}')", f"{{{{{MARK}}}}}"]
FILE = f"<img src=x onerror=alert({MARK})>\x1b[2J.csv"

_AUDIT = """
import json, os, sys

def _tell(*said, _at=os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)):
    os.write(_at, (json.dumps([*map(str, said)]) + "\\n").encode("utf-8", "backslashreplace"))

def _hook(event, arguments):
    if event == "pickle.find_class":
        _tell(event, arguments[0], arguments[1])
    elif event == "compile" and "MARK" in (text := _text(arguments[0])):
        _tell(event, text)
    elif event == "exec" and "MARK" in (text := repr((code := arguments[0]).co_consts) + repr(code.co_names)):
        _tell(event, text)
    elif event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen") and "MARK" in repr(arguments):
        _tell(event, arguments)

def _text(source):
    return source.decode("utf-8", "replace") if isinstance(source, bytes) else str(source)

sys.addaudithook(_hook)
_tell("begun", " ".join(sys.orig_argv))
"""


_EACH = """
import json, sys
from archopt.cli import run
print(json.dumps([run(line) for line in json.loads(sys.argv[1])]), file=sys.stderr)
"""


class Planted:
    """Whoever unpickles it runs a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {MARK}",)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what its processes told on the way: event, then texts."""

    code: int
    out: str
    err: str
    events: list[list[str]]

    @property
    def heard(self) -> set[str]:
        """The events that hold a hostile text."""
        return {name for name, *_ in self.events} - {"begun", "pickle.find_class"}

    def of(self, event: str) -> list[list[str]]:
        return [texts for name, *texts in self.events if name == event]


class Workplace:
    """A folder in which commands are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(_AUDIT.replace("MARK", MARK))

    def python(self, *arguments: str) -> Ended:
        """Run Python, whose processes are all heard."""
        told = self.folder / "audit"
        told.unlink(missing_ok=True)
        path = os.pathsep.join([str(self.folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "AUDIT": str(told), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=self.folder, env=environment)
        events = [json.loads(line) for line in told.read_text().splitlines()]
        return Ended(ended.returncode, ended.stdout, ended.stderr, events)

    def archopt(self, *arguments: str) -> Ended:
        return self.python("-m", "archopt", *arguments)

    def archopt_each(self, lines: list[list[str]]) -> tuple[list[int], Ended]:
        """Several commands in one process: their exit codes, and how it ended."""
        ended = self.python("-c", _EACH, json.dumps(lines))
        assert ended.code == 0, ended.err
        *said, codes = ended.err.splitlines(keepends=True)
        return json.loads(codes), replace(ended, err="".join(said))


@pytest.fixture(scope="package")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """With the hostile table in it."""
    place = Workplace(tmp_path_factory.mktemp("hostile"))
    with (place.folder / FILE).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*COLUMNS, "number", TARGET])
        for k in range(60):
            cells = [COLUMNS[(k * (j + 2)) % len(COLUMNS)] for j in range(len(COLUMNS))]
            writer.writerow([*cells, k % 7, CLASSES[k % 3]])
    return place


SEARCH = ["search", FILE, "--target", TARGET, "--d-model", "8", "--steps", "4", "--learning-rate", "0.01"]
SEARCH += ["--workers", "1", "--name", "mine", "--out", "out", "--task", "classification"]


@pytest.fixture(scope="package")
def searched(workplace: Workplace) -> Ended:
    """A search over the hostile table, whose results lie in the folder "out"."""
    return workplace.archopt(*SEARCH, "--trials", "4")


@pytest.fixture(scope="package")
def planted(workplace: Workplace, searched: Ended) -> Path:
    """The campaign's storage, with pickles in it in every form that readers of storages have been seen to unpickle."""
    path = workplace.folder / "out" / "study.db"
    code = pickle.dumps(Planted(), protocol=0)
    forms = {
        "text": code.decode(),
        "base64": base64.b64encode(code).decode(),
        "hex": code.hex(),
        "py/reduce": {"py/reduce": [{"py/function": "os.system"}, {"py/tuple": [f"touch {MARK}"]}]},
        "reason": f"__import__('os').system('touch {MARK}')",
    }
    with closing(sqlite3.connect(path)) as database, database:
        for kind, table in (("study", "studies"), ("trial", "trials")):
            ids = database.execute(f"SELECT {kind}_id FROM {table}").fetchall()
            for form, value in forms.items():
                for whose, other in (("user", f"archopt:{form}"), ("system", f"cma:{form}:optimizer:0")):
                    database.executemany(
                        f"INSERT INTO {kind}_{whose}_attributes ({kind}_id, key, value_json) VALUES (?, ?, ?)",
                        [(owner, name, json.dumps(value)) for (owner,) in ids for name in (form, other)],
                    )
    return path


@pytest.fixture(scope="package")
def resumed(workplace: Workplace, planted: Path) -> Ended:
    """The same search, which goes on over that storage."""
    return workplace.archopt(*SEARCH, "--trials", "6")
