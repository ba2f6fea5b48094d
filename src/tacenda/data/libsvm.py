"""LIBSVM text files: sparse ones as CSR, dense ones straight into one array."""

from __future__ import annotations

import bz2
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from tacenda._types import Array, Ints
from tacenda.checks import whole
from tacenda.data.dataset import Dataset
from tacenda.data.features import row_norms, scale_rows
from tacenda.data.lazy_rows import LazyRows
from tacenda.errors import InputError, StateError

# Bytes of text parsed at a time on the way into a dense array.
CHUNK_TEXT = 2**23


def load_libsvm(
    path: str | Path,
    n_features: int | None = None,
    *,
    classes: Sequence[str] | None = None,
    norm: float | None = None,
    dtype: Any = np.float64,
    name: str | None = None,
    lazy: bool = False,
) -> Dataset:
    r"""Read a LIBSVM file (plain, .gz or .bz2) as a sparse matrix.

    Parameters
    ----------
    path : str or Path
        The file.
    n_features : int or None, default=None
        Should be declared: without it the largest index in the file is used, and the notes say
        so.
    classes : sequence of str or None, default=None
        As written in the file, in order: y holds codes into them; without, y is the file's own
        number.
    norm : float or None, default=None
        To which rows are clipped.
    dtype : data-type, default=float64
        Of X.
    name : str or None, default=None
        Name of the data set; the file's own by default.
    lazy : bool, default=False
        Read the labels only. X is a `LazyRows`, which goes through the file once more for the rows
        that are wanted; `n_features` must then be given.

    Raises
    ------
    InputError
        If a line cannot be read; the message names it.

    Examples
    --------
    >>> import os, tempfile
    >>> import tacenda as tc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.svm")
    ...     with open(path, "w") as file:
    ...         _ = file.write("+1 1:0.5 3:0.2\n-1 2:0.1\n")
    ...     data = tc.data.load_libsvm(path, 3, classes=["-1", "+1"])
    >>> data.X.shape, data.y.tolist()
    ((2, 3), [1, 0])
    """
    path = existing(path)
    from sklearn.datasets import load_svmlight_file

    if lazy:
        if n_features is None:
            raise InputError(f"n_features must be declared for {path.name} to be read lazily.")
        return _lazily(path, n_features, None, True, classes, norm, dtype, name)
    with open_binary(path) as stream:
        X, y = _parsed(load_svmlight_file, stream, path, n_features=n_features, dtype=dtype)
    notes = (
        []
        if n_features is not None
        else [f"the number of features ({X.shape[1]}) was read from the file"]
    )
    if norm is not None:
        X = scale_rows(X, norm, in_place=True)
    return _dataset(X, y, classes, norm, name or path.stem, notes)


def load_libsvm_dense(
    path: str | Path,
    n_features: int,
    *,
    rows: int | None = None,
    classes: Sequence[str] | None = None,
    norm: float | None = None,
    dtype: Any = np.float32,
    name: str | None = None,
    lazy: bool = False,
) -> Dataset:
    r"""Read a LIBSVM file into one dense array, a chunk at a time: no second copy.

    Parameters
    ----------
    path : str or Path
        The file (plain, .gz or .bz2).
    n_features : int
        Number of columns.
    rows : int or None, default=None
        Reads only this many records; else the lines are counted in a first pass.
    classes : sequence of str or None, default=None
        As in `load_libsvm`.
    norm : float or None, default=None
        To which rows are clipped.
    dtype : data-type, default=float32
        Of X.
    name : str or None, default=None
        Name of the data set; the file's own by default.
    lazy : bool, default=False
        Read the labels only, as in `load_libsvm`.

    Raises
    ------
    InputError
        If a line cannot be read; the message names it.

    Examples
    --------
    >>> import os, tempfile
    >>> import tacenda as tc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.svm")
    ...     with open(path, "w") as file:
    ...         _ = file.write("+1 1:0.5 2:0.2\n-1 1:0.1 2:0.3\n")
    ...     data = tc.data.load_libsvm_dense(path, 2, classes=["-1", "+1"])
    >>> data.X.shape
    (2, 2)
    """
    path, p = existing(path), whole("n_features", n_features, least=1)
    from sklearn.datasets import load_svmlight_file

    if lazy:
        most = None if rows is None else whole("rows", rows, least=1)
        return _lazily(path, p, most, False, classes, norm, dtype, name)
    n = _count_lines(path) if rows is None else whole("rows", rows, least=1)
    X, y, done = np.zeros((n, p), dtype), np.empty(n), 0
    for text in _text_chunks(path):
        block, labels = _parsed(
            load_svmlight_file, io.BytesIO(text), path, n_features=p, dtype=dtype
        )
        take = min(len(labels), n - done)
        block[:take].toarray(out=X[done : done + take])
        y[done : done + take] = labels[:take]
        done += take
        if done == n:
            break
    X, y = X[:done], y[:done]
    if norm is not None and done:
        scale_rows(X, norm, in_place=True)
    return _dataset(X, y, classes, norm, name or path.stem, [])


def _lazily(
    path: Path,
    n_features: int,
    rows: int | None,
    sparse: bool,
    classes: Sequence[str] | None,
    norm: float | None,
    dtype: Any,
    name: str | None,
) -> Dataset:
    """Labels of the first `rows` records, and where their features are."""
    from sklearn.datasets import load_svmlight_file

    labels: list[Array] = []
    left = rows
    for lines in _line_chunks(path):
        # Of each line its first word alone, the label
        bare = b"\n".join(line.split(None, 1)[0] for line in lines[:left])
        labels.append(_parsed(load_svmlight_file, io.BytesIO(bare), path, n_features, dtype)[1])
        left = None if left is None else left - len(lines[:left])
        if left == 0:
            break
    y = np.concatenate(labels) if labels else np.empty(0)
    found = LibsvmRows(path, (len(y), n_features), np.dtype(dtype), sparse, norm, y)
    return _dataset(LazyRows(found), y, classes, norm, name or path.stem, [])


@dataclass(frozen=True, eq=False)
class LibsvmRows:
    """The rows of a LIBSVM file that can be gone through again; y (n,): its labels."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    sparse: bool
    norm: float | None
    y: Array

    def blocks(self, positions: Ints) -> Iterator[Any]:
        """The rows at these rising positions, some at a time."""
        from sklearn.datasets import load_svmlight_file

        done = 0
        for lines in _line_chunks(self.path):
            first, last = np.searchsorted(positions, (done, done + len(lines)))
            if last > first:
                own = positions[first:last]
                text = io.BytesIO(b"\n".join(lines[k] for k in (own - done).tolist()))
                X, y = _parsed(load_svmlight_file, text, self.path, self.shape[1], self.dtype)
                if not np.array_equal(y, self.y[own]):
                    raise StateError(
                        f"{self.path.name} gave other records when it was read again; leave the "
                        "file as it is while it is used."
                    )
                X = X if self.sparse else X.toarray()
                yield X if self.norm is None else scale_rows(X, self.norm, in_place=True)
            if last == len(positions):
                return
            done += len(lines)


def existing(path: str | Path, remedy: str = "") -> Path:
    """`path`, if it is a file that holds something; `remedy` says what else helps."""
    path = Path(path).expanduser()
    if path.is_dir():
        files = sorted(p.name for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
        holds = f"it holds {', '.join(files[:3])}{', ...' if files[3:] else ''}" if files else ""
        raise InputError(
            f"path must be a file, but {str(path)!r} is a folder"
            f"{f' ({holds})' if holds else ', and holds no file'}; name one file in it."
        )
    if not path.is_file():
        raise InputError(f"the file {str(path)!r} is not there; check its name and folder{remedy}.")
    if path.stat().st_size == 0:
        raise InputError(f"the file {str(path)!r} is empty (0 bytes); export it again.")
    return path


def open_binary(path: Path) -> IO[bytes]:
    """A file's bytes, unpacked by its ending (.gz, .bz2)."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return bz2.open(path, "rb") if path.suffix == ".bz2" else path.open("rb")


def _parsed(
    parse: Any, stream: Any, path: Path, n_features: int | None, dtype: Any
) -> tuple[Any, Array]:
    # Multilabel targets ("1,2 3:1") and stray text both end here; scikit-learn's own message may
    # quote the file.
    try:
        X, y = parse(stream, n_features=n_features, dtype=dtype, zero_based=False)
    except (ValueError, IndexError) as error:
        largest = re.search(
            r"n_features was set to \d+, but input file contains (\d+) features", str(error)
        )
        if largest:
            least = largest.group(1)
            raise InputError(
                f"n_features must be at least {least} for {path.name}, not {n_features}."
            ) from None
        raise InputError(
            f"{path.name} is not a LIBSVM file with indices from 1 (lines 'label index:value "
            "...'); read tables with tacenda.data.read_table."
        ) from None
    return X, y


def _dataset(
    X: Any, y: Array, classes: Sequence[str] | None, norm: float | None, name: str, notes: list[str]
) -> Dataset:
    if not len(y):
        raise InputError(f"{name} holds no records; check that it is the right file.")
    if classes is not None:
        y = _codes(y, classes)
    if norm is None and not isinstance(X, LazyRows) and row_norms(X).max() <= 1.0:
        notes = [
            *notes,
            "that no row is longer than 1 was read from the data; "
            "declare norm=1.0 to make it public",
        ]
    names = tuple(f"f{j + 1}" for j in range(X.shape[1]))
    return Dataset(X, y, names, None if classes is None else tuple(classes), name, notes, norm=norm)


def _codes(y: Array, classes: Sequence[str]) -> Ints:
    values = np.array([float(c) for c in classes])
    hits = y[:, None] == values[None, :]
    wrong = np.flatnonzero(~hits.any(axis=1))
    if len(wrong):
        raise InputError(
            f"record {wrong[0] + 1} has a label outside classes = {list(classes)}; "
            "declare it there."
        )
    codes: Ints = hits.argmax(axis=1).astype(np.int64)
    return codes


def _count_lines(path: Path) -> int:
    return sum(sum(1 for line in text.split(b"\n") if line.strip()) for text in _text_chunks(path))


def _line_chunks(path: Path) -> Iterator[list[bytes]]:
    """Lines with a record, without comments, some at a time."""
    for text in _text_chunks(path):
        lines = (line.split(b"#", 1)[0].strip() for line in text.split(b"\n"))
        if found := [line for line in lines if line]:
            yield found


def _text_chunks(path: Path) -> Iterator[bytes]:
    """Blocks of whole lines."""
    with open_binary(path) as stream:
        rest = b""
        while block := stream.read(CHUNK_TEXT):
            text, newline, tail = (rest + block).rpartition(b"\n")
            rest = tail
            if newline:
                yield text + b"\n"
        if rest.strip():
            yield rest + b"\n"
