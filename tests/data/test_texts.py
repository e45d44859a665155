import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.data import load_dataset
from archopt.data.texts import BLOCK_BYTES, MAX_TEST_BYTES, MAX_VALID_BYTES
from archopt.errors import DataError, OptionError


def test_python_topics_is_english_and_contiguous():
    data = load_dataset("text:python-topics")
    assert data.kind == "text"
    assert data.n_available == data.n_samples > 250_000
    assert b"assignment" in data.train.tobytes()
    assert (len(data.valid), len(data.test)) == (MAX_VALID_BYTES, MAX_TEST_BYTES)
    assert any("first 60 %" in note for note in data.notes)


def test_regions_of_a_short_text_are_its_parts_in_order(saved):
    content = (np.arange(10_000) % 251).astype(np.uint8).tobytes()
    data = load_dataset(saved(content, "some.bin"))
    assert data.train.tobytes() + data.valid.tobytes() + data.test.tobytes() == content
    assert [data.n_samples, len(data.valid), len(data.test)] == [6_000, 2_000, 2_000]
    assert not data.train.flags.writeable


@settings(deadline=None, derandomize=True, max_examples=15)
@given(sizes=st.tuples(st.integers(1_024, 279_000), st.integers(1_024, 279_000)))
def test_a_smaller_training_set_is_a_prefix_of_a_larger_one(sizes):
    small, large = (load_dataset("text:python-topics", n_samples=n).train for n in sorted(sizes))
    assert np.array_equal(large[: len(small)], small)


def test_a_sample_is_spread_over_the_region(saved):
    block_number = np.repeat(np.arange(200, dtype=np.uint8), BLOCK_BYTES)
    data = load_dataset(saved(block_number.tobytes(), "blocks.txt"), n_samples=16 * BLOCK_BYTES)
    held = np.sort(np.unique(data.train))  # of the 120 training blocks
    assert len(held) == 16
    assert np.diff(held).max() <= 8


def test_a_large_file_is_not_read_into_memory(tmp_path):
    path = tmp_path / "large.txt"
    with path.open("wb") as stream:
        stream.write(b"some text to begin with\n" * 1_000)
        stream.truncate(300_000_000)
    tracemalloc.start()  # counts what Python and NumPy allocate, and not the file's pages in the system's cache
    data = load_dataset(str(path))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.n_available == 180_000_000
    assert data.n_samples == 2_000_000
    assert peak_bytes < 20_000_000
    assert any("subsampled 180,000,000 training bytes to 2,000,000" in note for note in data.notes)


def test_a_second_text_is_halved_and_the_first_is_all_training(saved):
    first, second = saved(b"ab" * 4_000, "a.txt"), saved(b"cd" * 3_000, "b.txt")
    data = load_dataset(first, valid_source=second)
    assert data.n_samples == data.n_available == 8_000
    assert data.valid.tobytes() + data.test.tobytes() == b"cd" * 3_000
    assert data.content_hash != load_dataset(first).content_hash
    with pytest.raises(OptionError, match="same content"):
        load_dataset(first, valid_source=saved(b"ab" * 4_000, "copy.txt"))


def test_the_hash_follows_the_content(saved):
    hashes = {load_dataset(saved(text * 1_000, f"{j}.txt")).content_hash for j, text in enumerate(["abcde", "abcdf"])}
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (b"hello", {}, "5 bytes; a text needs at least 4,096"),
        (b"\0" * 5_000, {}, "every training byte is 0"),
        (b"ab" * 5_000, {"n_samples": 7_000}, "7,000 training bytes wanted but 'x.txt' has 6,000"),
        (b"ab" * 5_000, {"n_samples": 9}, "at least 1,024 training bytes"),
        (b"ab" * 5_000, {"task": "regression"}, "leave out the task"),
        (b"ab" * 5_000, {"group_column": "g"}, "leave out the group"),
        (b"ab" * 5_000, {"time_column": "t"}, "leave out the time"),
    ],
)
def test_bad_input(saved, content, options, said):
    with pytest.raises((DataError, OptionError), match=said):
        load_dataset(saved(content, "x.txt"), **options)


def test_compressed_bytes_are_pointed_out(saved):
    data = load_dataset(saved(b"\x1f\x8b" + np.random.default_rng(0).bytes(9_000), "x.txt.gz"))
    assert any("gzip" in note for note in data.notes)
