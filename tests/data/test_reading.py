import gzip

import numpy as np
import pandas as pd
import pytest

from archopt.data import load_dataset
from archopt.errors import DataError


def same(one, two) -> bool:
    return np.array_equal(one.train.inputs, two.train.inputs) and np.array_equal(one.test.targets, two.test.targets)


def test_every_way_to_write_a_table_reads_alike(saved, frame):
    frame = frame.drop(columns="garden")  # truth values are typed in Parquet and text in CSV
    plain = load_dataset(saved(frame), target="price")
    text = frame.to_csv(index=False)
    written = {
        "table.tsv": frame.to_csv(index=False, sep="\t"),
        "table.csv.gz": gzip.compress(text.encode()),
        "semicolons.csv": frame.to_csv(index=False, sep=";", decimal=","),
        "bars.csv": frame.to_csv(index=False, sep="|"),
        "mark.csv": b"\xef\xbb\xbf" + text.encode(),
        "windows.csv": text.replace("\n", "\r\n"),
        "old.csv": text.replace("\n", "\r"),
        "quoted.csv": frame.to_csv(index=False, quoting=1),
    }
    for name, content in written.items():
        assert same(plain, load_dataset(saved(content, name), target="price")), name
    assert same(plain, load_dataset(saved(frame, "table.parquet"), target="price"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n", "columns .* but no rows"),
        ("\n\n\n", "nothing but blank lines"),
        ("a,b\n1,2\n3,4,5\n", "ragged"),
        ("a,b\n1,2\n3\n", "ragged"),
        ("a,b,a\n1,2,3\n", "repeats column names: 'a'"),
        ('a,b\n"1,2\n3,4\n', "ragged|quote"),
        (b"a,b\n1,caf\xe9\n", "not UTF-8"),
        (b"a,caf\xe9\n1,2\n", "not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "not UTF-8"),
        (b"a,b\n1,\0\n", "zero bytes"),
        ("x" * 200_000, "cannot be read as CSV"),
    ],
)
def test_bad_csv(saved, content, said):
    with pytest.raises(DataError, match=said) as raised:
        load_dataset(saved(content), target="a")
    assert len(str(raised.value)) < 300
    assert str(raised.value).isprintable()


def test_bad_gzip_and_parquet(saved, frame):
    whole = gzip.compress(frame.to_csv(index=False).encode())
    for name, content in {
        "not.csv.gz": b"a,b\n1,2\n",
        "cut.csv.gz": whole[:300],
        "not.parquet": b"nothing of the kind",
    }.items():
        with pytest.raises(DataError, match="cannot be read"):
            load_dataset(saved(content, name), target="price")
    path = saved(frame, "cut.parquet")
    with open(path, "rb+") as stream:
        stream.truncate(3_000)
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load_dataset(path, target="price")


def test_the_row_labels_of_a_data_frame_are_left_out(saved, frame):
    labelled = frame.set_index(pd.Index(np.random.default_rng(0).permutation(len(frame))))
    data = load_dataset(saved(labelled, "labelled.parquet"), target="price")
    assert any("row labels" in note for note in data.notes)
    numbered = load_dataset(saved(frame.reset_index(names="")), target="price")
    assert any("row numbers" in note for note in numbered.notes)
    assert data.feature_names == load_dataset(saved(frame), target="price").feature_names == numbered.feature_names


def test_a_field_may_hold_delimiters_and_line_ends(saved, frame):
    data = load_dataset(saved(frame.assign(city=frame["city"].replace("Rome", 'Ro,"m\ne'))), target="price")
    assert 'city=Ro,"m\ne' in data.feature_names
