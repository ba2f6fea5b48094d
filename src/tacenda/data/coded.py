"""`Coded`: a column of text in which equal cells share one entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tacenda._types import Array, Flags, Floats, Ints
from tacenda.data import dates


class Entries:
    """The texts that the cells of a column mean, by their code; two may be equal, and not every
    one needs to be used.

    text, offsets: entry k is the UTF-8 bytes text[offsets[k] : offsets[k + 1]]. They are decoded,
    stripped and read as numbers when that is first asked for, all of them together.
    """

    def __init__(self, text: Array, offsets: Ints) -> None:
        self.text, self.offsets = text.view(), offsets
        self.text.flags.writeable = False
        self._years: dict[dates.Order, tuple[Floats, Flags]] = {}

    @classmethod
    def of(cls, words: Iterable[str]) -> Entries:
        """Entries with these words."""
        found = list(words)
        raw = [word.encode("utf-8", "surrogatepass") for word in found]
        offsets = np.zeros(len(raw) + 1, np.int64)
        np.cumsum([len(one) for one in raw], out=offsets[1:])
        made = cls(np.frombuffer(b"".join(raw), np.uint8), offsets)
        made.words = _objects(found)
        return made

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def words(self) -> Array:
        """(k,) every entry as text."""
        raw, ends = self.text.tobytes(), self.offsets.tolist()
        pairs = zip(ends[:-1], ends[1:], strict=True)
        if raw.isascii():
            whole = raw.decode("ascii")
            found = [whole[a:b] for a, b in pairs]
        else:
            found = [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairs]
        return _objects(found)

    @cached_property
    def stripped(self) -> Array:
        """(k,) every entry without white space around it."""
        return _objects([word.strip() for word in self.words])

    def stripped_at(self, which: Any) -> Array:
        """Some of them, decoded alone where they are few."""
        if isinstance(which, slice) or "stripped" in self.__dict__:
            return self.stripped[which]
        raw, offsets = self.text, self.offsets
        found = (
            raw[a:b].tobytes() for a, b in zip(offsets[which], offsets[which + 1], strict=True)
        )
        return _objects([one.decode("utf-8", "surrogatepass").strip() for one in found])

    @cached_property
    def numbers(self) -> tuple[Floats, Flags]:
        """(k,) every entry as Python's float reads it, NaN where it does not, and whether it
        does."""
        values, known = np.full(len(self), np.nan), np.zeros(len(self), bool)
        if len(self) > FEW:
            from tacenda.data.csv_kernels import plain_numbers

            plain_numbers(self.text, self.offsets, values, known)
        others = np.flatnonzero(~known)
        for k, word in zip(others.tolist(), self.words[others] if len(others) else (), strict=True):
            try:
                values[k], known[k] = float(word), True
            except ValueError:
                continue
        return values, known

    def years(self, order: dates.Order) -> tuple[Floats, Flags]:
        """(k,) every entry as a date in this order, as a year, and whether it is one."""
        if order not in self._years:
            self._years[order] = dates.years_of(self.stripped.tolist(), order)
        return self._years[order]


FEW = 2000  # so many numbers are read sooner by Python than compiled code is loaded


class Coded:
    """A column of text: an array of cells to those who look at it, codes of few entries inside.

    codes (n,): the entry of each cell.
    """

    dtype = np.dtype(object)

    def __init__(self, codes: Ints, entries: Entries) -> None:
        self.codes, self.entries = codes, entries

    @classmethod
    def of(cls, cells: Any) -> Coded:
        """Any cells as text: None and NaN are the empty text, and a whole float loses its '.0':
        3.0 is level '3'."""
        if isinstance(cells, Coded):
            return cells
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
            known, codes = np.unique(cells, return_inverse=True)
            return cls(codes.astype(np.int32), Entries.of(map(_word, known.tolist())))
        if set(map(type, cells)) != {str}:
            cells = [_word(cell) for cell in cells]
        place: dict[str, int] = {}
        made = [place.setdefault(word, len(place)) for word in cells]
        return cls(np.array(made, np.int32), Entries.of(place))

    @classmethod
    def joined(cls, parts: Sequence[Coded]) -> Coded:
        """One column after the other."""
        if len(parts) == 1:
            return parts[0]
        sizes = np.cumsum([0, *(len(part.entries) for part in parts)])
        bytes_before = np.cumsum([0, *(len(part.entries.text) for part in parts)])
        codes = [part.codes + np.int32(k) for part, k in zip(parts, sizes[:-1], strict=True)]
        offsets = [
            part.entries.offsets[:-1] + k for part, k in zip(parts, bytes_before[:-1], strict=True)
        ]
        entries = Entries(
            np.concatenate([part.entries.text for part in parts]),
            np.concatenate([*offsets, bytes_before[-1:]]),
        )
        return cls(np.concatenate(codes), entries)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, int | np.integer):
            return self.entries.words[self.codes[where]]
        return Coded(self.codes[where], self.entries)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        cells = self.entries.words[self.codes]
        return cells if dtype is None else cells.astype(dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def tolist(self) -> list[str]:
        """The cells."""
        return list(self.entries.words[self.codes])

    def used(self) -> Ints:
        """Entries that some cell has."""
        return np.flatnonzero(np.bincount(self.codes, minlength=len(self.entries)))


def words_of(cells: Any) -> Array:
    """(n,) cells as text without white space around it."""
    column = cells if isinstance(cells, Coded) else Coded.of(cells)
    return column.entries.stripped[column.codes]


def is_number(word: str) -> bool:
    """Whether Python's float reads it."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _objects(words: Sequence[str]) -> Array:
    found = np.empty(len(words), dtype=object)
    found[:] = words
    return found


def _word(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
