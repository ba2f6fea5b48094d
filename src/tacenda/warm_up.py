"""Kernels compiled beside a first run, by processes of their own: `python -m tacenda.warm_up`.

A first run on float64 records of two classes needs about twenty kernels, at a few tenths of a
second each. While it loads, reads and plans, others compile them from the last one needed to the
first, into the cache that all share; the run compiles what it needs and does not find there. On two
cores they meet about in the middle; with three others, most is there when it is first needed.
Nobody waits for another, and what each of them compiles is the same code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

MOST = 3  # processes beside a run: what there is to compile is not worth starting more
# Types of arguments, as letters: n whole number, f float, b truth value, - None; arrays as
# letter and dimensions, contiguous, with ' where they are only read: i int64, s int32, u uint64,
# f float64; a bundle as its name in BUNDLES, a colon and its fields, with commas between them
_NODES = "n n f2' f1 f f1"
_COLUMNS, _BOUNDS = "Columns:f2',f1,f,f1", "Bounds:f,f,f,n,n"
BUNDLES = {"Columns": "questions.kernels.rows", "Bounds": "questions.kernels.moments"}
KERNELS = (  # in the order in which a run needs them
    ("questions.kernels.eigen", "_rotate", "f2 f2 n"),
    ("questions.kernels.gradient", "are_positions", "i1' n"),
    ("questions.kernels.moments", "integer_moments", f"n n {_COLUMNS} i1 i1 {_BOUNDS} f1 f1' i2"),
    ("privacy.noise.streams", "release_normal", "n n u1 i1 n n f2 f1 f2 f1 f2"),
    ("privacy.noise.streams", "edge_words", "n n u1 i1 i1 f1 n n u2"),
    ("graph.kernels", "breadth_first", "i1' i1' n i1 i1"),
    ("graph.kernels", "add_up", "i1 i1 i1"),
    ("runtime.kernels", "branch_sums", "i1 i1 i1 u2"),
    ("questions.kernels.mapping", "mapped_rows", "n n f2' i1 i1 i1 f2' f f2"),
    ("questions.kernels.rows", "all_within", "f1' f"),
    ("runtime.kernels", "branch_means", "i1 i1 i1 f1 f1 f2 f"),
    ("questions.kernels.gradient", "integer_sums", f"{_NODES} i1 i1 f2 - n - f f1' i2"),
    ("questions.kernels.gradient", "margins", "n n f2' i1 i1 i1 i1 f2 n f2"),
    ("row_kernels", "combined", "n n 4f 4f1 n f2' f2' f2' f2' f2"),
    (
        "questions.kernels.gradient",
        "gradients",
        f"{_NODES} i1 i1 i1 i1 i1 i1' f2' - n - f f1 f f b f2 f2",
    ),
    ("runtime.kernels", "row_sums", "n n i1 i1' s1' f1' f2' f2"),
    ("losses.compiled", "slopes_of", "n - f1' f1' f1"),
    ("losses.compiled", "curvatures_of", "n - f1' f1' f1"),
    ("questions.kernels.moments", "second_moments", f"n n {_COLUMNS} i1 i1 {_BOUNDS} f1 f2"),
)


def kernel(module: str, name: str) -> Any:
    """The compiled function of that name."""
    return getattr(import_module(f"tacenda.{module}"), name)


def signature(letters: str) -> tuple[Any, ...]:
    """The types that KERNELS names."""
    from numba import types

    scalars = {"n": types.int64, "f": types.float64, "b": types.boolean, "-": types.none}
    elements = {"i": types.int64, "s": types.int32, "u": types.uint64, "f": types.float64}

    def named(bundle: str) -> Any:
        return getattr(import_module(f"tacenda.{BUNDLES[bundle]}"), bundle)

    def one(word: str) -> Any:
        if word in scalars:
            return scalars[word]
        if word[0].isdigit():
            return types.UniTuple(one(word[1:]), int(word[0]))
        if ":" in word:
            name, fields = word.split(":")
            return types.BaseTuple.from_types(map(one, fields.split(",")), named(name))
        return types.Array(elements[word[0]], int(word[1]), "C", readonly=word.endswith("'"))

    return tuple(one(word) for word in letters.split())


def compile_all(turn: int = 0, of: int = 1) -> None:
    """Every kernel, or of several processes the part of one; from the last one that a run needs to
    the first. Those kept already are loaded only."""
    for module, name, letters in KERNELS[::-1][turn::of]:
        kernel(module, name).compile(signature(letters))


def is_warm() -> bool:
    """Whether this program's kernels were compiled before, by a look at one of them."""
    gradients = kernel("questions.kernels.gradient", "gradients")
    source = Path(gradients.py_func.__code__.co_filename)
    kept = Path(gradients.stats.cache_path).glob(f"{source.stem}.gradients-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in kept)


@contextmanager
def beside() -> Iterator[None]:
    """Within it, other processes compile, if kernels are missing and there are cores for them."""
    count = min(MOST, _cores() - 1) if sys.executable else 0
    helpers: list[subprocess.Popen[bytes]] = []
    try:
        if count > 0 and not is_warm():
            with suppress(OSError):  # no process to be had: the run compiles alone
                for turn in range(count):
                    helpers.append(_helper(turn, count))
        yield
    finally:
        for helper in helpers:
            helper.terminate()
        for helper in helpers:
            helper.wait()


def _helper(turn: int, of: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # -P: nothing of this folder
        [sys.executable, "-P", "-m", "tacenda.warm_up", str(turn), str(of)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    compile_all(*map(int, sys.argv[1:]))
