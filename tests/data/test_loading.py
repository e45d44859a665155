import subprocess
import sys

import pytest

from archopt.data import load_dataset
from archopt.errors import ArchoptError, OptionError


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, archopt.data\n"
        "heavy = {'pandas', 'sklearn', 'skdim', 'scipy', 'torch', 'pyarrow'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_samples": 0}, "n_samples must be a whole number of at least 1"),
        ({"n_samples": 2.5}, "n_samples"),
        ({"n_samples": True}, "n_samples"),
        ({"n_samples": 10**6_000}, "at most 1,000,000,000,000,000"),
        ({"n_samples": 9}, "9 training rows; at least 10"),
        ({"n_samples": 91}, "91 training rows wanted but there are 90"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"task": "regresion"}, "did you mean 'regression'"),
        ({"target": 3}, "target must be a column's name"),
        ({"group_column": "a", "time_column": "b"}, "give one of them"),
        ({"target": "a", "group_column": "a"}, "both the target and the group"),
        ({"target": "a", "time_column": "a"}, "both the target and the time"),
        ({"group_column": "target"}, "both the target and the column to split by"),
        ({"valid_source": "text:python-topics"}, "the second file must be like the first"),
    ],
)
def test_bad_arguments(options, said):
    with pytest.raises(OptionError, match=said) as raised:
        load_dataset("sklearn:iris", **options)
    assert len(str(raised.value)) < 300


def test_a_table_without_target_lists_its_columns(saved, frame):
    for name in ("a.csv", "a.parquet", "a.tsv"):
        with pytest.raises(OptionError, match="one of 'size', 'city'"):
            load_dataset(saved(frame, name))


def test_an_unknown_extension_is_text_unless_a_target_is_named(saved, frame):
    path = saved(frame, "table.dat")
    assert load_dataset(path).kind == "text"
    assert load_dataset(path, target="price").kind == "table"


def test_errors_are_one_short_line_whatever_the_names(saved, frame):
    long = "n\n\x1b" * 200
    path = saved(frame.rename(columns={"size": long, "price": long + "2"}))
    for options in ({}, {"target": "x" * 5_000}, {"target": "price", "group_column": long}):
        with pytest.raises(ArchoptError) as raised:
            load_dataset(path, **options)
        assert len(str(raised.value)) < 300
        assert str(raised.value).isprintable()
