"""Data sets and models that other packages add."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from archopt.data import TableDataset, TableSplit, Task, TextDataset, load_dataset
from archopt.data.tasks import find_task, installed_task
from archopt.errors import DataError, OptionError, PluginError

_MODULE = """
import numpy as np
from archopt.data import Task, TextDataset
from archopt.errors import DataError

def letters(argument, n_samples, seed):
    if argument == "crash":
        raise ZeroDivisionError("division by zero")
    if argument == "refuse":
        raise DataError("letters has no such set: give a number")
    text = np.resize(np.frombuffer(argument.encode(), np.uint8), 4096)
    return TextDataset("letters", "0" * 64, text[: n_samples or 2048], text[:1024], text[:1024], 4096, ())

LETTERS = Task(load=letters)
SHORT = Task(load=lambda argument, n_samples, seed: letters(argument, 1500, seed))
NOTHING = Task(load=lambda argument, n_samples, seed: None)
FAMILY = Task(learner=lambda dataset, spec, recipe: None)
NUMBER = 7
"""
_ENTRIES = """[archopt.tasks]
letters = {module}:LETTERS
short = {module}:SHORT
nothing = {module}:NOTHING
family = {module}:FAMILY
number = {module}:NUMBER
broken = {module}_that_is_not_there:TASK
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Install a package that adds tasks, under the name given."""

    def install(name: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text(_MODULE)
        metadata = folder / f"{name}-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text(_ENTRIES.format(module=name))
        monkeypatch.syspath_prepend(folder)
        return name

    yield install
    for name in [name for name in sys.modules if name.startswith("letterbox")]:
        del sys.modules[name]


def test_a_package_adds_a_data_set(package: Callable[[str], str]) -> None:
    package("letterbox")
    dataset = load_dataset("letters:abc", n_samples=1200)
    assert isinstance(dataset, TextDataset)
    assert bytes(dataset.train[:6]) == b"abcabc"
    assert (dataset.name, dataset.n_samples, dataset.model_family) == ("letters:abc", 1200, "")


def test_a_package_adds_a_family_of_models_for_any_data(package: Callable[[str], str]) -> None:
    package("letterbox")
    plain, own = load_dataset("sklearn:iris"), load_dataset("family:sklearn:iris")
    assert own.model_family == "family"
    assert own.name == "family:sklearn:iris"
    assert own.content_hash == plain.content_hash
    np.testing.assert_array_equal(own.train.inputs, plain.train.inputs)
    assert installed_task("family").learner is not None


def test_the_package_is_not_imported_before_its_task_is_asked_for(package: Callable[[str], str]) -> None:
    package("letterbox")
    assert find_task("sklearn:iris") is None
    assert "letterbox" not in sys.modules
    assert find_task("letters:a") is not None
    assert "letterbox" in sys.modules


@pytest.mark.parametrize("source", ["sklearn:iris", "text:python-topics", "C:/data.csv", "runs.csv", Path("x.csv"), 3])
def test_other_sources_are_no_tasks(source: object) -> None:
    assert find_task(source) is None


def test_a_file_whose_name_holds_a_colon_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes:2024").write_text("a")
    assert find_task("notes:2024") is None


@pytest.mark.parametrize(
    ("source", "error", "told"),
    [
        ("leters:abc", DataError, r"adds a task 'leters': there are .*letters.*did you mean 'letters'"),
        ("number:1", PluginError, r"'number' = letterbox:NUMBER .* must be an archopt.Task but is '7'"),
        ("broken:1", PluginError, r"letterbox 1.2 adds 'broken' .* cannot be loaded \(ModuleNotFoundError"),
        ("letters:crash", DataError, r"could not be loaded by its package \(ZeroDivisionError: division by zero\)"),
        ("letters:refuse", DataError, r"^letters has no such set: give a number$"),
        ("short:abc", DataError, r"1,500 training rows or bytes where 1,100 were asked for"),
        ("nothing:abc", DataError, r"gave 'NoneType' where archopt.data.TableDataset or TextDataset is needed"),
    ],
)
def test_what_is_wrong_with_a_task_is_said_in_one_line(
    package: Callable[[str], str], source: str, error: type[Exception], told: str
) -> None:
    package("letterbox")
    with pytest.raises(error, match=told) as caught:
        load_dataset(source, n_samples=1100)
    assert "\n" not in str(caught.value)


def test_a_task_with_data_of_its_own_takes_no_options_of_columns(package: Callable[[str], str]) -> None:
    package("letterbox")
    with pytest.raises(OptionError, match="'letters:abc' brings its own data: leave out the target"):
        load_dataset("letters:abc", target="y")


@pytest.mark.torch
def test_a_family_that_gives_no_learner_is_named(package: Callable[[str], str]) -> None:
    pytest.importorskip("torch")
    from archopt.allocation import HeadAllocation
    from archopt.evaluation import TrialSpec, default_recipe
    from archopt.evaluation.training import train

    package("letterbox")
    dataset = load_dataset("family:sklearn:iris")
    spec = TrialSpec(HeadAllocation(2, 4), "uniform", 0.0, 0.01, replicate=0)
    with pytest.raises(OptionError, match=r"learner of task 'family' must return .*Learner but gave a NoneType"):
        train(dataset, spec, default_recipe(dataset, d_model=8, n_steps=1), lambda report: False)


def test_two_packages_that_add_the_same_name_are_both_named(package: Callable[[str], str]) -> None:
    package("letterbox")
    package("letterbox2")
    with pytest.raises(PluginError, match=r"letterbox2? 1.2 and letterbox2? 1.2 both add 'letters'"):
        load_dataset("letters:abc")


def test_a_task_that_is_gone_is_missed_by_name() -> None:
    with pytest.raises(PluginError, match="no installed package adds the task 'feature'"):
        installed_task("feature")


def _table(**changes: object) -> TableDataset:
    split = TableSplit(np.zeros((20, 3), np.float32), np.arange(20) % 2)
    table = TableDataset("t", "0", "classification", split, split, split, (), ("a", "b"), "y", 0.0, 1.0, 20, ())
    return dataclasses.replace(table, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("inputs", "targets", "told"),
    [
        (np.zeros((20, 2), np.float32), np.arange(20) % 2, "inputs are not 3 finite columns of float32"),
        (np.zeros((20, 3)), np.arange(20) % 2, "inputs are not 3 finite columns of float32"),
        (np.full((20, 3), np.nan, np.float32), np.arange(20) % 2, "inputs are not 3 finite columns of float32"),
        (np.zeros((20, 3), np.float32), np.arange(20) % 3, "targets are not int64 class indices below 2"),
        (np.zeros((20, 3), np.float32), np.arange(19) % 2, r"of inputs \(20, 3\) and targets \(19,\)"),
        (np.zeros((0, 3), np.float32), np.arange(0), r"of inputs \(0, 3\) and targets \(0,\)"),
    ],
)
def test_a_table_that_cannot_be_trained_on_is_refused(
    monkeypatch: pytest.MonkeyPatch, inputs: np.ndarray, targets: np.ndarray, told: str
) -> None:
    bad = _table(valid=TableSplit(inputs, targets))
    task = Task(load=lambda argument, n_samples, seed: bad)
    monkeypatch.setattr("archopt.data.loading.find_task", lambda source: ("odd", "x", task))
    with pytest.raises(DataError, match=f"its package gave a valid split .*{told}"):
        load_dataset("odd:x")


def test_a_regression_target_must_be_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(load=lambda argument, n_samples, seed: _table(task="regression"))
    monkeypatch.setattr("archopt.data.loading.find_task", lambda source: ("odd", "x", task))
    with pytest.raises(DataError, match="a train split whose targets are not finite float32"):
        load_dataset("odd:x")
