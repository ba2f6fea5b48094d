"""CSV files as tables: the compiled reader, and the careful one that explains what is wrong."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from tacenda._types import Ints
from tacenda.data.coded import Coded, Entries
from tacenda.data.libsvm import open_binary
from tacenda.data.table import CHUNK_CELLS, CHUNK_ROWS, Table
from tacenda.errors import InputError
from tacenda.threads import in_parts

# Bytes of a CSV that Python's csv reads sooner than compiled code is loaded
SMALL_CSV = 2**20
PACKED = 8  # how many times smaller a compressed one is
BLOCK_BYTES = 2**22  # of a file, read together
LARGEST_BLOCK = 2**29  # places in it, doubled, are held in 32 bits
PIECE_CELLS = 2**20  # found together
_SHEET = (
    "an Excel or LibreOffice workbook",
    "save the sheet as CSV (in the program: Save as, 'CSV UTF-8'), and give that file",
)
_QUERY = "give the query \"SELECT * FROM '{}'\" instead (needs tacenda[data])"
# What other files are, by their ending, and what to do with them.
_OTHERS = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), _SHEET),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), ("a JSON file", _QUERY)),
    ".zip": ("a ZIP archive", "unpack it, and give the CSV or Parquet file inside"),
    **dict.fromkeys(
        (".sav", ".dta", ".sas7bdat", ".rds", ".rdata", ".feather", ".arrow", ".pkl", ".h5"),
        ("a file of another program", "export it as CSV or Parquet"),
    ),
}
# The first bytes of the same files under other names.
_MAGIC = {
    b"PK\x03\x04": ("a workbook or ZIP archive", _SHEET[1]),
    b"\xd0\xcf\x11\xe0": _SHEET,
    b"PAR1": ("a Parquet file", "rename it so that it ends in .parquet"),
}


def iter_csv(
    path: Path,
    *,
    names: Sequence[str] | None = None,
    rows: int | None = CHUNK_ROWS,
    columns: Collection[str] | None = None,
    only: Ints | None = None,
    ragged: str = "error",
) -> Iterator[Table]:
    """Tables of at most `rows` records. Lines are UTF-8 (a byte-order mark is fine);
    empty lines are skipped; one of separators alone is a record without values. names: of the
    columns, where there is no header line; columns, only: which of them, and which records, are
    wanted (see `iter_tables`); ragged: see `read_table`."""
    refuse_other_kinds(path)
    header, mark, begin = header_of(path, names)
    rows = max(1, CHUNK_CELLS // len(header)) if rows is None else rows
    wanted = [k for k, name in enumerate(header) if columns is None or name in columns]
    done = 0
    if unpacked_size(path) >= SMALL_CSV:
        quick = _Quick(path, header, wanted, only, rows)
        yield from quick.tables(ord(mark), begin)
        done = quick.done
        if quick.finished:
            return
    yield from _careful(path, header, names is None, wanted, only, rows, done, ragged)


class _Quick:
    """The compiled way through a CSV file, up to its end or its first unusual record.

    done: how many records it went through; finished: whether nothing that is wanted is left.
    """

    def __init__(
        self, path: Path, header: list[str], wanted: list[int], only: Ints | None, rows: int
    ) -> None:
        self._path, self._header, self._wanted = path, header, wanted
        self._only, self._rows = only, rows
        self._pieces: list[dict[str, Any]] = []
        self._numbers: list[Any] = []
        self._first = self.done = 0
        self.finished = False

    def tables(self, mark: int, begin: int) -> Iterator[Table]:
        """begin: where the records begin, in bytes."""
        from tacenda.data.csv_kernels import DONE, UNUSUAL, tokenise

        width = len(self._header)
        room = max(1, min(self._rows, PIECE_CELLS // width))
        starts, ends = (np.empty((width, room), np.int32) for _ in range(2))
        raw, at, is_last = b"", 0, False
        with _readable(self._path), open_binary(self._path) as stream:
            stream.seek(begin)
            while not self.finished:
                most = min(room, self._first + self._rows - self.done)
                block = np.frombuffer(raw, np.uint8)
                before = at
                found, at, status = tokenise(block, at, is_last, mark, most, starts, ends)
                if found:
                    if not raw.isascii():
                        raw[before:at].decode()
                    self._keep(block, starts, ends, found)
                if self.done == self._first + self._rows:
                    yield from self._table()
                if status == UNUSUAL or len(raw) > LARGEST_BLOCK:
                    break
                if status == DONE and at < len(raw):
                    continue
                if is_last:
                    self.finished = self.done > 0
                    break
                more = stream.read(BLOCK_BYTES)
                is_last = not more
                raw, at = raw[at:] + more, 0
        yield from self._table()

    def _keep(self, block: Any, starts: Any, ends: Any, found: int) -> None:
        """Keep what is wanted of so many records."""
        from tacenda.data.csv_kernels import cells_of

        records = np.arange(found)
        if self._only is not None:
            first, last = np.searchsorted(self._only, (self.done, self.done + found))
            records = self._only[first:last] - self.done
            self.finished = bool(last == len(self._only))
        if len(records):
            wanted = self._wanted
            found_cells: list[Any] = [None] * len(wanted)

            def find(first: int, last: int) -> None:
                for at in range(first, last):
                    k = wanted[at]
                    codes, text, offsets = cells_of(block, starts[k], ends[k], records)
                    found_cells[at] = Coded(codes, Entries(text, offsets))

            in_parts(find, len(wanted), len(wanted) * len(records))
            names = (self._header[k] for k in wanted)
            self._pieces.append(dict(zip(names, found_cells, strict=True)))
            self._numbers.append(self.done + 1 + records)
        self.done += found

    def _table(self) -> Iterator[Table]:
        """What was kept since the last table, if anything."""
        if self._pieces:
            names = self._pieces[0]
            columns = {name: Coded.joined([one[name] for one in self._pieces]) for name in names}
            numbers = None if self._only is None else np.concatenate(self._numbers)
            yield Table(columns, self._first + 1, self._path.name, numbers)
        self._pieces, self._numbers, self._first = [], [], self.done


def _careful(
    path: Path,
    header: list[str],
    named: bool,
    wanted: list[int],
    only: Ints | None,
    rows: int,
    done: int,
    ragged: str,
) -> Iterator[Table]:
    """The tables after the first `done` records, by Python's csv; named: whether the file has a
    header line."""
    with _text(path) as stream:
        reader = _reader(stream)
        if named:
            _header(reader, path)
        for _ in islice(_records(reader, path), done):
            pass
        for block in _blocks(reader, rows, len(header), path, named, ragged):
            here: Any = range(len(block))
            if only is not None:
                first, last = np.searchsorted(only, (done, done + len(block)))
                here = only[first:last] - done
            if len(here):
                cells = block if only is None else [block[k] for k in here.tolist()]
                numbers = None if only is None else done + 1 + here
                columns = {header[k]: Coded.of([fields[k] for fields in cells]) for k in wanted}
                yield Table(columns, done + 1, path.name, numbers)
            done += len(block)
            if only is not None and last == len(only):
                return
        if not done:
            raise InputError(
                f"{path.name} holds a header but no records; export it again with its rows."
            )


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    with (
        _readable(path),
        open_binary(path) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as stream,
    ):
        yield stream


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:
        raise InputError(
            f"{path.name} must be UTF-8 text, but it holds bytes of another encoding; "
            "save it as UTF-8 (for instance: iconv -f latin1 -t utf-8)."
        ) from None
    except (gzip.BadGzipFile, EOFError):
        raise InputError(f"{path.name} is not a whole gzip file; fetch or pack it again.") from None


def _reader(stream: IO[str]) -> Any:
    first = stream.readline()
    return _csv_reader(chain([first], stream), _delimiter(first))


def _csv_reader(lines: Iterable[str], mark: str) -> Any:
    return csv.reader(lines, delimiter=mark, skipinitialspace=True, strict=True)


def _delimiter(header: str) -> str:
    """The most frequent of the usual separators in the header line."""
    return max(",;\t|", key=header.count)


def _header(reader: Any, path: Path) -> list[str] | None:
    """The first line that holds anything."""
    with _well_formed(reader, path):
        return next(filter(any, reader), None)


def _is_record(fields: list[str]) -> bool:
    """Whether a line is not empty: separators alone are a record without values."""
    return len(fields) > 1 or any(fields)


def _records(reader: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every record that is left."""
    with _well_formed(reader, path):
        for fields in reader:
            if _is_record(fields):
                yield reader.line_num, fields


def _blocks(
    reader: Any, rows: int, width: int, path: Path, named: bool, ragged: str
) -> Iterator[list[list[str]]]:
    """The fields of the records that are left, in blocks of at most `rows`."""
    while True:
        with _well_formed(reader, path):
            block = list(islice(reader, rows))
        if not block:
            return
        found = [fields for fields in block if _is_record(fields)]
        if found and set(map(len, found)) != {width}:
            if ragged == "error":
                _refuse_ragged(width, path, named)
            found = [fields if len(fields) == width else [""] * width for fields in found]
        if found:
            yield found


@contextmanager
def _well_formed(reader: Any, path: Path) -> Iterator[None]:
    try:
        yield
    except csv.Error:
        raise InputError(
            f"{path.name} is not well-formed CSV near line {reader.line_num}: "
            "look for a stray or unclosed quote there."
        ) from None


def header_of(path: Path, names: Sequence[str] | None) -> tuple[list[str], str, int]:
    """(columns, separator, where the records begin, in bytes)."""
    with _readable(path), open_binary(path) as binary:
        begin = len(codecs.BOM_UTF8) if binary.read(3) == codecs.BOM_UTF8 else 0
    with _text(path) as stream:
        first = stream.readline()
        mark = _delimiter(first)
        if names is not None:
            return list(names), mark, begin
        used: list[str] = []
        lines = (used.append(line) or line for line in chain([first], stream))  # type: ignore[func-returns-value]
        found = _header(_csv_reader(lines, mark), path)
        return _checked_header(found, path), mark, begin + len("".join(used).encode())


def _checked_header(fields: list[str] | None, path: Path) -> list[str]:
    if fields is None:
        raise InputError(f"{path.name} holds no header line; its first line must name the columns.")
    names = [name.strip() for name in fields]
    if not all(names):
        raise InputError(
            f"column {names.index('') + 1} of {path.name} has no name in the header line; name it."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"the header of {path.name} names {twice!r} twice; column names must be distinct."
        )
    return names


def _refuse_ragged(width: int, path: Path, named: bool) -> None:
    """Reads the file again, to name the first line with another number of fields."""
    with _text(path) as stream:
        reader = _reader(stream)
        if named:
            _header(reader, path)
        for line, fields in _records(reader, path):
            if len(fields) != width:
                raise InputError(
                    f"line {line} of {path.name} has {len(fields)} fields where the header has "
                    f"{width}; look for a missing or unquoted separator."
                )


def unpacked_size(path: Path) -> int:
    """About how many bytes of text a file holds."""
    return path.stat().st_size * (PACKED if path.suffix in (".gz", ".bz2") else 1)


def refuse_other_kinds(path: Path) -> None:
    """One sentence for a file that is not CSV: what it is, and what to do."""
    found = _OTHERS.get(path.suffix.lower())
    if found is None:
        with path.open("rb") as stream:
            start = stream.read(4)
        found = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if found is not None:
        what, remedy = found
        raise InputError(
            f"{path.name} must be a CSV or Parquet file, but is {what}; {remedy.format(path)}."
        )
