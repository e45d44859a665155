"""Generated files, as the data of a search, its second file, a table of runs, or a law."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

Refused = Callable[..., int]

# not shrunk: an example takes tenths of a second
seeded = settings(derandomize=True, database=None, deadline=None, phases=[Phase.generate])

# The metric of another kind of data is refused last, after the file was read, split, encoded and summarised: a file
# that turns out to be fine does not begin to train.
SEARCH = ["search", "--d-model", "8", "--workers", "1", "--quiet"]
TABLE = [*SEARCH, "--metric", "nats_per_byte"]
TEXT = [*SEARCH, "--metric", "rmse"]

cells = st.one_of(
    st.sampled_from(
        ["", " ", "nan", "NA", "inf", "-inf", "1e400", "-1e308", "1e308", "1e-320", "0x10", "1_000", "1,5", '"', '""']
    ),
    st.sampled_from(["2021-02-30", "2021-01-31", "9999-12-31T23:59:60Z", "0000-00-00", "12:61", "True", "yes", "{}"]),
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(str),
    st.text(max_size=12),
)
names = st.one_of(
    st.sampled_from(["y", "x", "", " ", "y ", "n_heads", "Y", "y\n", "__index_level_0__"]), st.text(max_size=9)
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """CSV as it comes: ragged, quoted at random, any encoding, names twice; with a column y more often than not."""
    header = draw(st.lists(names, min_size=0, max_size=5))
    if draw(st.booleans()):
        header = ["y", *header]
    n_rows = draw(st.sampled_from([0, 1, 2, 19, 20, 60]))
    few = draw(st.lists(cells, min_size=1, max_size=8))
    rows = [[few[(i * 7 + j * 3) % len(few)] for j in range(len(header))] for i in range(n_rows)]
    if rows and draw(st.booleans()):
        rows[-1] = rows[-1][: draw(st.integers(0, len(header)))] + draw(st.lists(cells, max_size=2))
    mark = draw(st.sampled_from([",", ",", ";", "\t", "|"]))
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    text = end.join(mark.join(row) for row in [header, *rows]) + draw(st.sampled_from(["", end, end * 3, '"']))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "latin1", "utf-16", "cp1252", "utf-32"]))
    return text.encode(encoding, "replace")


@st.composite
def numbers(draw: st.DrawFn) -> bytes:
    """Well-formed CSV with a target, whose numbers are the trouble."""
    n_rows = draw(st.sampled_from([20, 40, 120]))
    kinds = st.sampled_from(["constant", "missing", "once", "huge", "tiny", "twice", "dates", "index", "half", "words"])
    chosen = draw(st.lists(kinds, min_size=1, max_size=4))
    columns = {
        "constant": ["7"] * n_rows,
        "missing": [""] * n_rows,
        "once": [f"class {i}" for i in range(n_rows)],
        "huge": [f"{i + 1}e{300 + i % 9}" for i in range(n_rows)],
        "tiny": [f"{i}e-310" for i in range(n_rows)],
        "twice": [f"class {i // 2}" for i in range(n_rows)],
        "dates": [f"{1600 + 13 * i}-01-{1 + i % 40:02d}" for i in range(n_rows)],
        "index": [str(i) for i in range(n_rows)],
        "half": ["" if i % 2 else f"{i % 5}" for i in range(n_rows)],
        "words": ["a b " * (i % 5) + "é" * (i % 3) for i in range(n_rows)],
    }
    lines = [",".join(["y", *(f"x{j}" for j in range(len(chosen) - 1))])]
    lines += [",".join(columns[kind][i] for kind in chosen) for i in range(n_rows)]
    return ("\n".join(lines) + "\n").encode()


blobs = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"", b"\0", b"\n", b"\xef\xbb\xbf", b"y", b"y\n", b",,,\n,,,\n", b"PAR1" * 4, b"\x1f\x8b\x08\0"]),
    st.just(b"y,x\n" + b"1,2\n" * 30 + b"\xff\xfe,3\n"),
    st.just(b'y,x\n"1,2\n' + b"1,2\n" * 30),
    st.just(b"y,x\n" + b"1,2\n" * 30 + b"1,\0\n"),
    st.just(",".join(f"x{j}" for j in range(3_000)).encode() + b"\n" + b",".join([b"1"] * 3_000) + b"\n"),
)
suffixes = st.sampled_from([".csv", ".csv", ".tsv", ".parquet", ".csv.gz", ".data", ".xlsx", ".CSV"])


@settings(seeded, max_examples=60)
@given(content=st.one_of(tables(), numbers(), blobs), suffix=suffixes)
def test_a_table_to_search(content: bytes, suffix: str, folder: Path, refused: Refused) -> None:
    _made(folder, f"t{suffix}", content)
    refused([*TABLE, f"t{suffix}", "--target", "y"])


@settings(seeded, max_examples=15)
@given(content=st.one_of(tables(), numbers()), option=st.sampled_from(["--valid", "--group", "--time", "--task"]))
def test_a_table_that_splits_or_validates(content: bytes, option: str, folder: Path, refused: Refused) -> None:
    _made(folder, "t.csv", content)
    if option == "--valid":
        refused([*TABLE, "good.csv", "--target", "price", "--valid", "t.csv"])
    else:
        value = "classification" if option == "--task" else "x0"
        refused([*TABLE, "t.csv", "--target", "y", option, value])


@settings(seeded, max_examples=15)
@given(content=st.one_of(blobs, st.binary(min_size=5_000, max_size=5_010)), n=st.sampled_from([None, 1, 1024, 10**9]))
def test_a_text_to_search(content: bytes, n: int | None, folder: Path, refused: Refused) -> None:
    _made(folder, "t.txt", content)
    refused([*TEXT, "t.txt", *([] if n is None else ["--samples", str(n)])])


@settings(seeded, max_examples=20)
@given(
    content=st.one_of(tables(), numbers(), blobs),
    suffix=st.sampled_from([".csv", ".csv", ".parquet", ".pq", ".gz", ".zip", ".xz"]),
    metric=st.sampled_from(["loss", "y", "x"]),
)
def test_a_table_of_runs(content: bytes, suffix: str, metric: str, folder: Path, refused: Refused) -> None:
    _made(folder, f"t{suffix}", content.replace(b"x0", b"n_samples").replace(b"x1", b"head_dim"))
    line = ["fit", f"t{suffix}", "--no-plan", "--json", "--metric", metric, "--direction", "minimize", "--d-model", "8"]
    refused(line, or_fine=True)


@settings(seeded, max_examples=25)
@given(data=st.data())
def test_a_law_with_a_part_that_is_wrong(data: st.DataObject, folder: Path, refused: Refused) -> None:
    law = json.loads((folder / "law.json").read_text())
    wrong = data.draw(st.sampled_from([None, "x", -1, 0, [], {}, [[]], 1e308, float("nan"), True, ["x"], "del"]))
    holder: Any = law
    while True:
        keys = sorted(holder) if isinstance(holder, dict) else list(range(min(len(holder), 2)))
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        holder = inner
    if wrong == "del":
        del holder[key]
    else:
        holder[key] = wrong
    (folder / "damaged.json").write_text(json.dumps(law))
    refused(["recommend", "--d-model", "64", "--samples", "1e5", "--law", "damaged.json", "--json"], or_fine=True)


@pytest.mark.parametrize(
    "path", ["folder", "dangling.csv", "/dev/null", "", " ", "a\nb", "~nobody/x", "x" * 300, "http://x/y.csv"]
)
@pytest.mark.parametrize(
    "line", ["search {} --d-model 8 --target y", "fit {}", "recommend --d-model 8 --samples 9 --law {}"]
)
def test_what_is_no_file(path: str, line: str, refused: Refused) -> None:
    refused([path if word == "{}" else word for word in line.split()])


def _made(folder: Path, name: str, content: bytes) -> None:
    for old in folder.glob("t.*"):
        old.unlink()
    (folder / name).write_bytes(content)
