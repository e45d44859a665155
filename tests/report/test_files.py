import csv
import json
import math
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.errors import StorageError
from archopt.report.files import TRIAL_COLUMNS, json_ready, write_csv, write_html, write_json

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def only_file(folder):
    (path,) = folder.iterdir()
    return path


@settings(max_examples=60, deadline=None, derandomize=True)
@given(plain)
def test_json_reads_back_as_it_was(tmp_path_factory, obj):
    path = tmp_path_factory.mktemp("json") / "object.json"
    write_json(path, obj)
    assert json.loads(path.read_text("utf-8")) == obj
    assert only_file(path.parent) == path


def test_what_json_lacks_becomes_null_or_plain():
    ready = json_ready({"a": math.nan, "b": (1, math.inf), "c": np.float32(0.5), "d": np.array([1, 2]), 3: Path("x/y")})
    assert ready == {"a": None, "b": [1, None], "c": 0.5, "d": [1, 2], "3": str(Path("x/y"))}
    assert json_ready(np.float64("nan")) is None
    assert json_ready({2, 1}) == [1, 2]
    with pytest.raises(TypeError, match="object"):
        json_ready(object())


def test_the_recommendation_reads_back(tmp_path, recommendation):
    write_json(tmp_path / "recommendation.json", recommendation)
    assert json.loads((tmp_path / "recommendation.json").read_text()) == recommendation


def test_trials_read_back(tmp_path, rows):
    write_csv(tmp_path / "trials.csv", rows, TRIAL_COLUMNS)
    with open(tmp_path / "trials.csv", newline="", encoding="utf-8") as stream:
        read = list(csv.DictReader(stream))
    assert tuple(read[0]) == TRIAL_COLUMNS
    assert len(read) == len(rows)
    for line, row in zip(read, rows, strict=True):
        assert float(line["learning_rate"]) == row["learning_rate"]
        assert json.loads(line["curve"]) == row["curve"]
        assert (line["value"] == "") == (row["value"] is None)
        assert row["value"] is None or float(line["value"]) == row["value"]
        assert line["reason"] == (row["reason"] or "")


def test_no_trials_are_a_header_and_further_keys_are_further_columns(tmp_path):
    write_csv(tmp_path / "none.csv", [], TRIAL_COLUMNS)
    assert (tmp_path / "none.csv").read_text() == ",".join(TRIAL_COLUMNS) + "\n"
    write_csv(
        tmp_path / "more.csv", [{"number": 0, "attention": "sdpa"}, {"number": 1, "reason": 'a,\n"b"'}], TRIAL_COLUMNS
    )
    with open(tmp_path / "more.csv", newline="", encoding="utf-8") as stream:
        read = list(csv.DictReader(stream))
    assert [line["attention"] for line in read] == ["sdpa", ""]
    assert read[1]["reason"] == 'a,\n"b"'


def test_halves_of_characters_do_not_lose_the_file(tmp_path):
    write_html(tmp_path / "page.html", "caf\udce9 é")
    assert (tmp_path / "page.html").read_text("utf-8") == "caf\\udce9 é"


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
def test_files_get_the_permissions_that_others_would_get(tmp_path):
    write_json(tmp_path / "a.json", {})
    (tmp_path / "b.json").write_text("{}")
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == stat.S_IMODE((tmp_path / "b.json").stat().st_mode)


@pytest.mark.parametrize("name", ["missing/file.json", "folder", "x" * 300 + ".json"])
def test_what_the_file_system_refuses_is_one_line(tmp_path, name):
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(StorageError) as refusal:
        write_json(tmp_path / name, {"a": 1})
    message = str(refusal.value)
    assert "\n" not in message
    assert len(message) < 300
    assert message.startswith("cannot write ")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_leaves_the_old_file(tmp_path):
    # Real ENOSPC: a few kilobytes of address for files is all this process may write.
    import resource
    import signal

    path = tmp_path / "recommendation.json"
    write_json(path, {"kept": True})
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(StorageError, match="too large"):
            write_json(path, {"lost": "x" * 100_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert json.loads(path.read_text()) == {"kept": True}
    assert only_file(tmp_path) == path


def test_a_reader_never_sees_half_a_file(tmp_path):
    path, seen, done = tmp_path / "state.json", set(), threading.Event()
    write_json(path, ["a"] * 20_000)

    def read():
        while not done.is_set():
            seen.add(tuple(set(json.loads(path.read_text()))))

    reader = threading.Thread(target=read)
    reader.start()
    for k in range(30):
        write_json(path, ["ab"[k % 2]] * 20_000)
    done.set()
    reader.join()
    assert seen <= {("a",), ("b",)}
    assert seen
