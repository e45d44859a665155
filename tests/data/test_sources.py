import os

import pytest

from archopt.data import load_dataset
from archopt.data.sources import BUNDLED_TABLES, resolve_source
from archopt.errors import DataError, OptionError


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("sklearn:digts", "did you mean 'sklearn:digits'"),
        ("sklearn:", "there are sklearn:digits"),
        ("text:english", "there are text:python-topics"),
        ("digits", "did you mean sklearn:digits"),
        ("https://example.org/a.csv", "downloads nothing"),
        ("/no/such/folder/a.csv", "does not exist"),
        ("x" * 5_000, "File name too long"),
        ("/dev/zero", "not a regular file"),
    ],
)
def test_names_of_nothing(source, said):
    with pytest.raises(DataError, match=said) as raised:
        resolve_source(source, has_target=False)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("source", ["", "  ", "a\0b", 3, None, b"a.csv"])
def test_what_is_no_path(source):
    with pytest.raises(OptionError, match="source must be a path"):
        resolve_source(source, has_target=False)


def test_a_missing_file_suggests_its_neighbour(saved):
    path = saved("a,b\n1,2\n", "houses.csv")
    with pytest.raises(DataError, match=r"did you mean 'houses\.csv'"):
        resolve_source(path.replace("houses", "house"), has_target=True)


def test_folders_empty_files_and_workbooks_are_refused(saved, tmp_path):
    with pytest.raises(DataError, match="is a folder"):
        resolve_source(tmp_path, has_target=False)
    with pytest.raises(DataError, match="is empty"):
        resolve_source(saved("", "a.txt"), has_target=False)
    with pytest.raises(DataError, match="save the table as"):
        resolve_source(saved("PK", "a.xlsx"), has_target=True)


def test_a_broken_link_is_called_that(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(DataError, match="a link to a file that does not exist"):
        resolve_source(tmp_path / "a.csv", has_target=True)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="a pipe"):
        resolve_source(tmp_path / "pipe.csv", has_target=True)


@pytest.mark.parametrize(
    ("name", "has_target", "form"),
    [
        ("a.csv", True, "csv"),
        ("A.CSV", True, "csv"),
        ("a.csv.gz", True, "csv"),
        ("a.tsv", False, "tsv"),
        ("a.parquet", True, "parquet"),
        ("a.txt", False, "text"),
        ("a.txt", True, "csv"),
        ("a", False, "text"),
    ],
)
def test_the_extension_decides_and_a_target_makes_a_table(saved, name, has_target, form):
    assert resolve_source(saved("a,b\n", name), has_target=has_target).form == form


def test_texts_have_no_target():
    with pytest.raises(OptionError, match="leave out the target"):
        load_dataset("text:python-topics", target="x")


@pytest.mark.parametrize("name", BUNDLED_TABLES)
def test_every_bundled_table_loads_without_a_target(name):
    data = load_dataset(f"sklearn:{name}")
    assert data.name == f"sklearn:{name}"
    assert data.task == ("regression" if name in ("diabetes", "linnerud") else "classification")


def test_bundled_targets():
    assert load_dataset("sklearn:iris").class_names == ("setosa", "versicolor", "virginica")
    assert load_dataset("sklearn:digits", task="regression").task == "regression"
    linnerud = load_dataset("sklearn:linnerud", target="Pulse")
    assert linnerud.target_name == "Pulse"
    assert linnerud.feature_names == ("Chins", "Situps", "Jumps")
    with pytest.raises(DataError, match="'Weight', 'Waist', 'Pulse'"):
        load_dataset("sklearn:linnerud", target="Chins")
