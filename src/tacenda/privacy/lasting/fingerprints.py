"""How a ledger knows records again: an order-free digest of all of them, and a small sample for
subsets and overlaps.

Every record is hashed by itself under the ledger's own key: as it was read, where it comes from
named columns (`data.as_read`), else its non-zero features, in float64, and its label. So the order
of the records, who holds them, dense or sparse, float32 or float64 make no difference as long as
the values are the same; and where columns have names, neither does what is made of them. The
*digest* is the sum of all hashes modulo 2^256, and names exactly this multiset of records. The
*sketch* keeps the smallest of the distinct hashes (bottom-k): the same key puts the same records of
two data sets into both sketches, which tells how far they overlap. The *look* is a hash of the
features alone, without labels and order of columns: it only warns.

**What is not recognised:** records that were written in another way (rounded, more or fewer
columns, renamed ones, another label; without names also scaled or encoded ones), and overlaps so
small that the sketches share nearly nothing. A name (`dataset=`) is needed there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda._types import Array

KEPT = 1024  # hashes in a sketch
# An overlap counts from this share of the smaller set, seen in so many records
LEAST_SHARE, LEAST_SHARED = 0.1, 4
_CHUNK = 1 << 22  # numbers that are looked at together
_HEAD = np.dtype([("label", "<f8"), ("entries", "<i8")])


@dataclass(frozen=True, eq=False)
class Marks:
    """digest: hex, of the multiset of records. sketch: (k,) uint64, the smallest hashes of distinct
    records, rising. look: hex, of their features in any order of columns; empty: not known."""

    digest: str
    sketch: NDArray[np.uint64]
    look: str = ""

    def share(self, other: NDArray[np.uint64]) -> float:
        """How much of the smaller set of records lies in the other, by the sketches; 0 where too
        little is shared to tell."""
        mine, theirs = self.sketch, other
        if not len(mine) or not len(theirs):
            return 0.0
        # Below the smaller of the two ends both sketches are complete: there they are samples of
        # their sets at the same rate.
        ends = [int(s[-1]) for s in (mine, theirs) if len(s) == KEPT]
        end = min(ends, default=2**64 - 1)
        mine, theirs = mine[mine <= end], theirs[theirs <= end]
        shared = len(np.intersect1d(mine, theirs, assume_unique=True))
        fewer = min(len(mine), len(theirs))
        if shared < min(LEAST_SHARED, max(1, fewer)):
            return 0.0
        share = shared / max(1, fewer)
        return share if share >= LEAST_SHARE else 0.0


def marks_of(rows: Any, labels: Array, key: bytes) -> Marks:
    """rows: (N, p), or CSR as (data, indices, indptr); labels (N,)."""
    total, smallest = 0, np.empty(0, np.uint64)
    for block in record_hashes(rows, np.ascontiguousarray(labels, "<f8"), key):
        total += sum(int.from_bytes(one, "little") for one in block)
        heads = np.frombuffer(b"".join(one[:8] for one in block), "<u8").astype(np.uint64)
        smallest = np.unique(np.concatenate([smallest, heads]))[:KEPT]
    return Marks((total % 2**256).to_bytes(32, "big").hex(), smallest, _look(_sums(rows), key))


def marks_as_read(fingerprints: Array, key: bytes) -> Marks:
    """Of records by their fingerprints (n, 4), see `data.as_read`: features and label together."""
    words = np.ascontiguousarray(fingerprints[:, :2] + fingerprints[:, 2:], "<u8")
    total, smallest = 0, np.empty(0, np.uint64)
    for first in range(0, len(words), _CHUNK):
        block = keyed(words[first : first + _CHUNK], key)
        digests = np.frombuffer(b"".join(block), "<u4").reshape(-1, 8).sum(axis=0, dtype=np.uint64)
        total += sum(int(word) << (32 * k) for k, word in enumerate(digests))
        heads = np.frombuffer(b"".join(one[:8] for one in block), "<u8").astype(np.uint64)
        smallest = np.unique(np.concatenate([smallest, heads]))[:KEPT]
    digest = (total % 2**256).to_bytes(32, "big").hex()
    return Marks(digest, smallest, _look(fingerprints[:, 0], key))


def keyed(words: Array, key: bytes) -> list[bytes]:
    """(n,) hashes of records under a key, by their words (n, 2)."""
    raw, blake2b = memoryview(np.ascontiguousarray(words, "<u8").tobytes()), hashlib.blake2b
    return [
        blake2b(raw[k : k + 16], key=key, digest_size=32).digest() for k in range(0, len(raw), 16)
    ]


def _look(sums: Array, key: bytes) -> str:
    """A hash of the multiset of the records' words."""
    total = int(np.sum(mixed(sums.astype(np.uint64)), dtype=np.uint64))
    return hashlib.blake2b(f"{len(sums)} {total}".encode(), key=key, digest_size=16).hexdigest()


def _sums(rows: Any) -> Array:
    """(n,) a word of each record's non-zero features, whatever the order of the columns."""
    found = [np.zeros(0, np.uint64)]
    for _, _, values, counts in _entries(rows):
        bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
        ends = np.cumsum(counts)
        whole = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(bits), dtype=np.uint64)])
        found.append(whole[ends] - whole[ends - counts])
    return np.concatenate(found)


def joined_marks(parts: Sequence[Marks]) -> Marks:
    """The marks of all records, from those of parts that hold each of them once."""
    total = sum(int(part.digest, 16) for part in parts)
    smallest = np.unique(np.concatenate([part.sketch for part in parts]))[:KEPT]
    return Marks((total % 2**256).to_bytes(32, "big").hex(), smallest)


def record_hashes(rows: Any, labels: Array, key: bytes) -> Iterator[list[bytes]]:
    """The records' hashes, block by block: label, number of entries, values, and the features
    unless they are simply the first."""
    for first, features, values, counts in _entries(rows):
        heads = np.empty(len(counts), _HEAD)
        heads["label"], heads["entries"] = labels[first : first + len(counts)], counts
        ends = np.cumsum(counts)
        last = np.full(len(counts), -1, np.int64)
        last[counts > 0] = (
            features[ends[counts > 0] - 1] if features is not None else counts[counts > 0] - 1
        )
        leading = (last + 1 == counts).tolist()
        head = memoryview(heads.tobytes())
        content = np.ascontiguousarray(values, "<f8").data.cast("B")
        places = memoryview(
            b"" if features is None else np.ascontiguousarray(features, "<i4").tobytes()
        )
        begin, found, blake2b = 0, [], hashlib.blake2b
        for k, end in enumerate(ends.tolist()):
            one = blake2b(head[16 * k : 16 * k + 16], key=key, digest_size=32)
            one.update(content[8 * begin : 8 * end])
            if not leading[k]:
                one.update(places[4 * begin : 4 * end])
            found.append(one.digest())
            begin = end
        yield found


def _entries(rows: Any) -> Iterator[tuple[int, Array | None, Array, Array]]:
    """Block by block: first record, features of the non-zero entries (None: all), their values, how
    many each record has."""
    if hasattr(rows, "tocsr"):
        table = rows.tocsr()
        rows = table.data, table.indices, table.indptr
    if isinstance(rows, tuple):
        data, indices, indptr = rows
        n, width = len(indptr) - 1, max(1, len(data) // max(1, len(indptr) - 1))
    else:
        n, width = rows.shape[0], max(1, rows.shape[1])
    step = max(1, _CHUNK // width)
    for first in range(0, n, step):
        last = min(n, first + step)
        if isinstance(rows, tuple):
            a, b = int(indptr[first]), int(indptr[last])
            owner = np.repeat(np.arange(last - first), np.diff(indptr[first : last + 1]))
            features, values = indices[a:b], data[a:b]
            keep = np.flatnonzero(values)
            keep = keep[np.lexsort((features[keep], owner[keep]))]
            yield (
                first,
                features[keep],
                values[keep],
                np.bincount(owner[keep], minlength=last - first),
            )
            continue
        block = rows[first:last]
        there = block != 0
        counts = np.count_nonzero(there, axis=1)
        if counts.sum() == block.size:
            yield first, None, block.reshape(-1), counts
        else:
            yield (
                first,
                np.broadcast_to(np.arange(block.shape[1], dtype=np.int32), block.shape)[there],
                block[there],
                counts,
            )


def mixed(words: Array) -> Array:
    """Every word hashed by itself (the finaliser of SplitMix64)."""
    found = words + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(found ^ (found >> np.uint64(31)))
