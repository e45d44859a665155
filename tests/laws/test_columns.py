"""Which column is what."""

from pathlib import Path

import pandas as pd
import pytest

from archopt.errors import DataError, OptionError
from archopt.laws.columns import map_columns, read_table

FRAME = pd.DataFrame({"tokens": [1e6, 1e6], "width": [64, 64], "heads": [4, 8], "bleu": [20.0, 21.0], "loss": [1, 2]})
NONE = dict.fromkeys(["n_samples", "d_model", "n_heads", "head_dim", "loss", "loss_sd", "seed"])


def test_columns_are_renamed_and_numbers_fill_in() -> None:
    mapping = NONE | {"n_samples": "tokens", "d_model": "64", "n_heads": "heads", "loss": "bleu"}
    mapped = map_columns(FRAME, mapping, "maximize")
    assert mapped["loss"].tolist() == [20.0, 21.0]  # and not the other column of that name
    assert mapped["d_model"].tolist() == [64.0, 64.0]
    assert {"n_samples", "n_heads", "width"} <= set(mapped.columns)
    assert list(FRAME.columns) == ["tokens", "width", "heads", "bleu", "loss"]  # untouched


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"n_heads": "head"},
            "no column 'head' for n_heads; the columns are 'tokens', 'width', 'heads', 'bleu', 'loss'",
        ),
        ({"n_samples": "tokens", "d_model": "tokens"}, "'tokens' is named for n_samples and for d_model"),
        (
            {"n_heads": "heads", "loss": "bleu"},
            "low or a high 'bleu' better? Say direction minimize or maximize "
            "(its mean is lowest at n_heads = 4, highest at 8)",
        ),
        ({"loss": "bleu"}, "Say direction minimize or maximize"),
    ],
)
def test_what_is_not_clear_is_asked_for(changes: dict, told: str) -> None:
    with pytest.raises(OptionError) as caught:
        map_columns(FRAME, NONE | changes, None)
    assert told in str(caught.value)


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")  # reads Parquet
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "broken.parquet").write_text("x")
    for name in ("none.csv", "empty.csv", "broken.parquet", "."):
        with pytest.raises(DataError, match=r"cannot be read|no table of runs"):
            read_table(tmp_path / name)


def test_damaged_files_are_no_tables(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "cut.csv.gz", index=False)
    FRAME.to_csv(tmp_path / "flipped.csv.gz", index=False)
    whole = (tmp_path / "cut.csv.gz").read_bytes()
    (tmp_path / "cut.csv.gz").write_bytes(whole[:-12])
    (tmp_path / "flipped.csv.gz").write_bytes(whole[:30] + b"\xff" * 10 + whole[40:])
    (tmp_path / "runs.zip").write_bytes(b"PK\3\4" + b"\xff" * 60)
    for name in ("cut.csv.gz", "flipped.csv.gz", "runs.zip"):
        with pytest.raises(DataError, match=f"{name}' is no table of runs"):
            read_table(tmp_path / name)


def test_parquet_with_odd_notes_of_pandas_is_no_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.Table.from_pandas(FRAME).replace_schema_metadata({"pandas": '{"columns": []}'})
    parquet.write_table(table, tmp_path / "notes.parquet")
    with pytest.raises(DataError, match=r"notes.parquet' is no table of runs"):
        read_table(tmp_path / "notes.parquet")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_seen(tmp_path: Path, separator: str) -> None:
    FRAME.to_csv(tmp_path / "runs.csv", index=False, sep=separator)
    assert list(read_table(tmp_path / "runs.csv").columns) == list(FRAME.columns)


def test_csv_and_parquet_are_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    FRAME.to_csv(tmp_path / "runs.csv", index=False)
    FRAME.to_csv(tmp_path / "runs.csv.gz", index=False)
    FRAME.to_parquet(tmp_path / "runs.parquet")
    for name in ("runs.csv", "runs.csv.gz", "runs.parquet"):
        assert read_table(tmp_path / name)["bleu"].tolist() == [20.0, 21.0]
