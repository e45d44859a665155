"""A text, or any file, as bytes: contiguous training, validation and test regions, sampled where they are long."""

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archopt.data.dataset import TextDataset
from archopt.data.sources import Source, file_digest
from archopt.data.splits import HALVES, SHARES
from archopt.data.wording import shown
from archopt.errors import DataError, OptionError

MIN_TEXT_BYTES = 4_096
MIN_TRAIN_BYTES = 1_024
DEFAULT_TRAIN_BYTES = 2_000_000
MAX_VALID_BYTES = 65_536
MAX_TEST_BYTES = 65_536
BLOCK_BYTES = 16_384  # long beside a model's context, so that few windows cross from one block into another

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def load_text(source: Source, *, n_samples: int | None, valid_source: Source | None) -> TextDataset:
    """Cut a text into regions and sample each.

    Args:
        source: a text (``source.is_table`` is False).
        n_samples: training bytes to keep; None for at most 2,000,000.
        valid_source: a second text, halved into validation and test; the first is then all training.

    Raises:
        DataError: too short, or nothing but one byte value.
        OptionError: more training bytes wanted than there are, or fewer than 1,024.
    """
    data, digest = _open(source)
    notes: list[str] = []
    if valid_source is None:
        train, valid, test = _regions(data, SHARES)
        notes.append(
            f"split in file order: first 60 % training ({len(train):,} bytes), next 20 % validation, last 20 % test"
        )
    else:
        other, other_digest = _open(valid_source)
        if other_digest == digest:
            raise OptionError(
                f"{shown(valid_source.name)} has the same content as {shown(source.name)}: it cannot check it"
            )
        train = data
        valid, test = _regions(other, HALVES)
        digest = hashlib.sha256(f"{digest} {other_digest}".encode()).hexdigest()
        notes.append(
            f"all of {shown(source.name)} is training; {shown(valid_source.name)}: first half validation, second test"
        )
    wanted = min(len(train), DEFAULT_TRAIN_BYTES) if n_samples is None else n_samples
    if wanted > len(train):
        raise OptionError(f"{wanted:,} training bytes wanted but {shown(source.name)} has {len(train):,}")
    if wanted < MIN_TRAIN_BYTES:
        raise OptionError(f"at least {MIN_TRAIN_BYTES:,} training bytes are needed but {wanted:,} were asked for")
    kept = [_sample(train, wanted), _sample(valid, MAX_VALID_BYTES), _sample(test, MAX_TEST_BYTES)]
    for part, region, sample in zip(("training", "validation", "test"), (train, valid, test), kept, strict=True):
        if len(sample) < len(region):
            hint = " (--samples changes that)" if part == "training" else ""
            blocks = f"in blocks of {BLOCK_BYTES:,} spread evenly"
            notes.append(f"subsampled {len(region):,} {part} bytes to {len(sample):,} {blocks}{hint}")
    if len(np.unique(kept[0])) == 1:
        raise DataError(f"{shown(source.name)}: every training byte is {int(kept[0][0])}, so there is nothing to learn")
    kinds = [name for magic, name in _COMPRESSED.items() if data[: len(magic)].tobytes() == magic]
    if kinds:
        notes.append(
            f"the file looks compressed ({kinds[0]}), which leaves a model nothing to predict: unpack it first"
        )
    return TextDataset(source.name, digest, kept[0], kept[1], kept[2], n_available=len(train), notes=tuple(notes))


def _open(source: Source) -> tuple[NDArray[np.uint8], str]:
    """The bytes, on disk until they are read, and their digest."""
    if source.form == "topics":
        from pydoc_data.topics import topics

        text = "\n\n".join(topics[name] for name in sorted(topics)).encode()
        return np.frombuffer(text, dtype=np.uint8), hashlib.sha256(text).hexdigest()
    try:
        data: NDArray[Any] = np.memmap(source.path, dtype=np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise DataError(f"{shown(source.name)} cannot be read: {shown(error, 120)}") from error
    if len(data) < MIN_TEXT_BYTES:
        raise DataError(f"{shown(source.name)} has {len(data):,} bytes; a text needs at least {MIN_TEXT_BYTES:,}")
    return data, file_digest(source.path)


def _regions(data: NDArray[np.uint8], shares: tuple[float, ...]) -> list[NDArray[np.uint8]]:
    bounds = np.rint(np.cumsum([0.0, *shares]) * len(data)).astype(int)
    return [data[start:end] for start, end in pairwise(bounds)]


def _sample(region: NDArray[np.uint8], n_bytes: int) -> NDArray[np.uint8]:
    """The first ``n_bytes`` of the region's blocks, taken in an order whose every prefix is spread over the region.

    The order is van der Corput's: first block, middle, quarter, three quarters, ... A sample is thus the prefix of any
    larger one.
    """
    n_blocks = -(-len(region) // BLOCK_BYTES)
    n_bits = max(1, (n_blocks - 1).bit_length())
    blocks = np.arange(2**n_bits)
    reversed_bits = np.zeros_like(blocks)
    for bit in range(n_bits):
        reversed_bits |= (blocks >> bit & 1) << (n_bits - 1 - bit)
    pieces: list[NDArray[np.uint8]] = []
    missing = min(n_bytes, len(region))
    for block in reversed_bits[reversed_bits < n_blocks]:
        piece = region[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES][:missing]
        pieces.append(piece)
        missing -= len(piece)
        if missing == 0:
            break
    sample = np.concatenate(pieces)
    sample.flags.writeable = False
    return np.asarray(sample)
