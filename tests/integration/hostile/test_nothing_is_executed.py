"""Nothing is unpickled from a storage, and nothing from a data file is compiled, executed or handed to a shell."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

# What a search and the processes that train for it say to each other is pickled, by them alone.
SPOKEN = {"archopt.allocation", "archopt.data.dataset", "archopt.evaluation.messages", "archopt.evaluation.trial"}
SPOKEN |= {"numpy", "numpy._core.numeric", "numpy.core.numeric", "numpy._core.multiarray"}

RUNS = """n_samples,d_model,head_dim,loss,"{column}"
""" + "".join(
    f'{n},{width},{dim},{0.2 + 0.05 * abs(dim.bit_length() - 4) + 1 / n},"{{cell}}"\n'
    for n in (300, 1000, 3000)
    for width in (32, 64)
    for dim in (2, 4, 8, 16, 32)
)


def test_the_hook_hears_what_it_is_to_hear(workplace: Any) -> None:
    said = workplace.python("-c", "eval(\"'zqx'\")")
    assert said.heard == {"compile", "exec"}
    found = workplace.python("-c", "import pickle; pickle.loads(b'cos\\nsystem\\n.')")
    assert found.of("pickle.find_class") == [["os", "system"]]
    shell = workplace.python("-c", "import os, subprocess; os.system('true zqx'); subprocess.run(['true', 'zqx'])")
    assert shell.heard >= {"os.system", "subprocess.Popen"}


def test_a_search_over_a_hostile_table(searched: Any, resumed: Any, workplace: Any) -> None:
    for ended in (searched, resumed):
        assert ended.code == 0, ended.err
        assert len(ended.of("begun")) == 2  # the command, and a process that trains
        assert {module for module, _ in ended.of("pickle.find_class")} <= SPOKEN
        assert ended.heard == set()
    assert "resuming campaign mine" in resumed.err
    assert not list(workplace.folder.rglob("zqx"))


def test_commands_that_read_a_storage_unpickle_nothing(workplace: Any, resumed: Any, planted: Path) -> None:
    runs = RUNS.format(column="__import__('os').system('touch zqx')", cell="=cmd|' /c zqx'!A0")
    (workplace.folder / "runs.csv").write_text(runs)
    storage = ["--storage", f"sqlite:///{planted}"]
    lines = [
        ["recommend", *storage, "--study", "mine", "--json"],
        ["fit", *storage, "--study", "mine=30,8", "--no-plan", "--json"],
        ["worker", *storage, "--name", "mine", "--workers", "1", "--quiet"],  # joins a campaign that is over
        ["tell", *storage, "--study", "mine", "--trial", "0", "--failed", "zqx"],
        ["ask", *storage, "--study", "mine"],
        ["fit", "runs.csv", "--no-plan", "--json"],
        ["recommend", "--data", "runs.csv", "--d-model", "64", "--samples", "1e5", "--json"],
    ]
    codes, ended = workplace.archopt_each(lines)
    # to tell and to ask are refused: that trial has ended, and nobody asked in this study
    assert codes == [0, 0, 0, 2, 2, 0, 0], ended.err
    assert {module for module, _ in ended.of("pickle.find_class")} <= SPOKEN  # between the worker and its process
    assert ended.heard == set()
    assert not list(workplace.folder.rglob("zqx"))
