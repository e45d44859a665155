"""A folder with what commands read, and the one thing to expect of bad input: a line, exit code 2, nothing changed."""

import contextlib
import hashlib
import io
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import optuna
import pytest

from archopt.campaign.joining import record_campaign
from archopt.campaign.settings import Settings
from archopt.campaign.storage import STOPPED_KEY
from archopt.cli import run

Refused = Callable[..., int]

MAX_LINE = 300


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything happens in it. Only what a test itself makes in it may ever appear, or change, in it.

    ``good.csv`` (60 rows: area, age, price), ``text.txt``, ``runs.csv`` for `fit`, ``law.json`` of it; ``asked.db``
    with the study "mine" that was asked; ``joined.db`` with a campaign "joined" that is over; ``other.db``, a SQLite
    file of somebody else's; ``folder``, ``file``, ``dangling``.
    """
    place = tmp_path_factory.mktemp("bad_input")
    with contextlib.chdir(place):
        _write_files(place)
        _write_storages(place)
    return place


@pytest.fixture(scope="module", autouse=True)
def in_the_folder(folder: Path) -> Iterator[None]:
    with contextlib.chdir(folder):
        yield


def _write_files(place: Path) -> None:
    rows = [f"{20 + 3 * k},{k % 7},{100 + 10 * k}.5" for k in range(60)]
    (place / "good.csv").write_text("area,age,price\n" + "\n".join(rows) + "\n")
    (place / "text.txt").write_text("It was the best of times, it was the worst of times. " * 400)
    cells = [
        f"{n},{width},{dim},{0.2 + 0.05 * abs(dim.bit_length() - 4) + 1 / n + 0.001 * seed},{seed}"
        for n in (300, 1000, 3000)
        for width in (32, 64)
        for dim in (2, 4, 8, 16, 32)
        for seed in (0, 1)
    ]
    (place / "runs.csv").write_text("n_samples,d_model,head_dim,loss,seed\n" + "\n".join(cells) + "\n")
    assert run(["fit", "runs.csv", "--no-plan", "--out", "law.json", "--json"]) == 0
    (place / "folder").mkdir()
    (place / "file").write_text("x")
    (place / "dangling.csv").symlink_to("nowhere")


def _write_storages(place: Path) -> None:
    with sqlite3.connect(place / "other.db") as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    asked = ["--storage", "sqlite:///asked.db", "--study", "mine"]
    assert run(["ask", *asked, "--d-model", "16", "--samples", "1e6", "--param", "dropout=0,0.1"]) == 0
    study = optuna.create_study(study_name="joined", storage="sqlite:///joined.db")
    settings = Settings(data="good.csv", d_model=8, target="price", n_trials=1, name="joined")
    record_campaign(study, settings, "cpu")
    limits = [settings.n_trials, None, settings.confidence, settings.replicates]
    study.set_user_attr(STOPPED_KEY, {"because": "its trials are spent", "limits": limits})


@pytest.fixture(scope="package")
def refused(folder: Path) -> Refused:
    """Run a command line in this process, and check what came of it.

    ``refused(arguments)``: exit code 2, one printable line under 300 characters on standard error that shows no
    password, nothing on standard output, and every file as it was. ``refused(arguments, or_fine=True)``: that, or 0.
    Returns the exit code.
    """

    def checked(arguments: Sequence[str], *, or_fine: bool = False) -> int:
        before, out, err = _contents(folder), io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(list(arguments))
        said = err.getvalue()
        assert "Traceback" not in said
        assert "secret" not in said + out.getvalue()
        if code == 0 and or_fine:
            json.loads(out.getvalue()) if "--json" in arguments else None
            return 0
        assert code == 2, said
        line = said.removesuffix("\n")
        assert line.startswith("archopt: ")
        assert line.isprintable(), line
        assert len(line) < MAX_LINE, line
        assert out.getvalue() == ""
        after = _contents(folder)
        assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == set()
        return 2

    return checked


def _contents(folder: Path) -> dict[str, str]:
    """Every file, folder and link below, with a digest of what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        is_file = path.is_file() and not path.is_symlink()
        found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest() if is_file else "-"
    return found
