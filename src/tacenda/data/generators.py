"""Generated data sets whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.checks import between, positive, whole
from tacenda.data.dataset import Dataset
from tacenda.data.features import chunks, rows_of_a_chunk, scale_rows
from tacenda.data.lazy_rows import Generated, LazyRows
from tacenda.errors import InputError


def make_classification(
    n: int = 1000,
    features: int = 20,
    difficulty: float = 0.3,
    seed: int = 0,
    classes: int = 2,
    *,
    lazy: bool = False,
) -> Dataset:
    """Generate records of norm at most 1, labelled by a linear rule and then blurred.

    Rows are normal of standard deviation 1/sqrt(features), clipped to norm 1. The class is the
    largest of `classes` linear scores; with probability `difficulty` it is then replaced by a
    uniform draw. So the best rule is right with probability 1 - difficulty (1 - 1/classes):
    difficulty 0 is separable, 1 is chance.

    Parameters
    ----------
    n : int, default=1000
        Number of records.
    features : int, default=20
        Number of features.
    difficulty : float, default=0.3
        From 0 to 1.
    seed : int, default=0
        The same seed gives the same data.
    classes : int, default=2
        Number of classes, at least 2.
    lazy : bool, default=False
        X is a `LazyRows`: features are made again, for some records only, when they are read.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.make_classification(100, 5, seed=0).X.shape
    (100, 5)
    """
    n = whole("n", n, least=1)
    p = whole("features", features, least=1)
    k = whole("classes", classes, least=2)
    difficulty = between("difficulty", difficulty, 0.0, 1.0, open_ends=False)
    rng = np.random.default_rng(whole("seed", seed))

    def pieces(rng: np.random.Generator) -> Iterator[Array]:
        for x in _normal_pieces(rng, n, p):
            yield scale_rows(x / math.sqrt(p), 1.0, in_place=True)

    X, again = _made(n, p, rng, pieces, lazy)
    # Two classes are one direction and its opposite,
    # so that the truth is a single vector as in the problem.
    w = rng.standard_normal((1, p)) if k == 2 else rng.standard_normal((k, p))
    scores = (x @ w.T for x in again())
    y = np.concatenate([s[:, 0] > 0 if k == 2 else s.argmax(axis=1) for s in scores])
    y = y.astype(np.int64)
    blurred = rng.random(n) < difficulty
    y[blurred] = rng.integers(k, size=int(blurred.sum()))
    names = tuple(f"x{j}" for j in range(p))
    return Dataset(
        X, y, names, tuple(str(c) for c in range(k)), "classification", norm=1.0, truth=w.ravel()
    )


def make_sparse_regression(
    nodes: int = 50,
    records: int = 50,
    features: int = 8,
    nonzero: int | None = None,
    noise_variance: float = 0.1,
    seed: int = 0,
    *,
    lazy: bool = False,
) -> Dataset:
    """Generate the Lasso example of Gauthier et al. (2020): y = X theta + w.

    X is standard normal, theta ~ N(0, I) and w ~ N(0, noise_variance). Rows are not bounded: `norm`
    is None, so a private run must clip gradients.

    Parameters
    ----------
    nodes : int, default=50
        Number of agents.
    records : int, default=50
        Records of each.
    features : int, default=8
        Number of features.
    nonzero : int or None, default=None
        How many entries of theta are kept, the others are 0; None keeps all, as in the paper.
    noise_variance : float, default=0.1
        Variance of w.
    seed : int, default=0
        The same seed gives the same data.
    lazy : bool, default=False
        X is a `LazyRows`: features are made again, for some records only, when they are read.

    Returns
    -------
    Dataset
        `Dataset.nodes` (nodes * records,) tells each record's agent, `truth` is theta.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.make_sparse_regression(nodes=3, records=4, nonzero=2).X.shape
    (12, 8)
    """
    k = whole("nodes", nodes, least=1)
    m = whole("records", records, least=1)
    p = whole("features", features, least=1)
    kept = p if nonzero is None else whole("nonzero", nonzero)
    if kept > p:
        raise InputError(f"nonzero must be at most features = {p}, not {kept}.")
    noise_std = math.sqrt(positive("noise_variance", noise_variance, zero=True))
    rng = np.random.default_rng(whole("seed", seed))
    theta = rng.standard_normal(p)
    theta[rng.permutation(p)[kept:]] = 0.0
    X, again = _made(k * m, p, rng, lambda rng: _normal_pieces(rng, k * m, p), lazy)
    y = np.concatenate([x @ theta for x in again()]) + noise_std * rng.standard_normal(k * m)
    names = tuple(f"x{j}" for j in range(p))
    return Dataset(
        X, y, names, None, "sparse-regression", nodes=np.repeat(np.arange(k), m), truth=theta
    )


def make_epsilon_like(
    rows: int = 10_000,
    features: int = 2000,
    seed: int = 0,
    accuracy: float = 0.9,
    spectrum: float = 1.0,
    *,
    lazy: bool = False,
) -> Dataset:
    """Generate a stand-in for LIBSVM's `epsilon`: dense float32 rows of norm 1.

    The k-th coordinate carries a share of the rows' energy that is proportional to k^-spectrum.
    Filled in place chunk by chunk, so the peak memory is X (rows * features * 4 bytes) and one
    chunk. The label is the sign of u + s v with u the standardised score and v normal; s = tan(pi
    (1 - accuracy)) makes the best linear rule right with about that probability.

    How steep the real file is, is not known here. Of sets that are at hand, with columns
    standardised and rows scaled to norm 1 as `epsilon` has them, the eigenvalues of the second
    moment fall like k^-0.8 (Adult, 104 features), k^-1.05 (digits), k^-1.07 (patches of a
    photograph), k^-1.2 (wine) and k^-1.7 (breast cancer), fitted over the first half of them.

    Parameters
    ----------
    rows : int, default=10000
        Number of records.
    features : int, default=2000
        Number of features.
    seed : int, default=0
        The same seed gives the same data.
    accuracy : float, default=0.9
        Of the best linear rule, above 0.5 and at most 1.
    spectrum : float, default=1.0
        How fast the energy falls over the coordinates, at least 0; 0 spreads it evenly, which
        makes the problem far better conditioned than any of the sets above.
    lazy : bool, default=False
        X is a `LazyRows`: features are made again, for some records only, when they are read.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.make_epsilon_like(100, features=20).X.dtype
    dtype('float32')
    """
    n, p = whole("rows", rows, least=1), whole("features", features, least=2)
    s = math.tan(math.pi * (1.0 - between("accuracy", accuracy, 0.5, 1.0)))
    rng = np.random.default_rng(whole("seed", seed))
    w: Array = rng.standard_normal(p)
    w /= np.linalg.norm(w)
    share = np.arange(1.0, p + 1) ** -positive("spectrum", spectrum, zero=True)
    spread = np.sqrt(share / share.sum())
    unit, flat = float(np.linalg.norm(spread * w)), spectrum == 0
    scales = spread.astype(np.float32)
    w32 = w.astype(np.float32)

    def drawn(rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        for size in _sizes(n, p, 4):
            x = rng.standard_normal((size, p), dtype=np.float32)
            if not flat:
                x *= scales
            x /= np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
            yield x, (x @ w32) / unit + s * rng.standard_normal(size) > 0

    begin, y, done = deepcopy(rng), np.empty(n, np.int64), 0
    source = Generated((n, p), np.dtype(np.float32), lambda: (x for x, _ in drawn(deepcopy(begin))))
    X: Any = LazyRows(source) if lazy else np.empty(source.shape, source.dtype)
    for x, labels in drawn(rng):
        part = slice(done, done + len(x))
        y[part] = labels
        if not lazy:
            X[part] = x
        done += len(x)
    names = tuple(f"x{j}" for j in range(p))
    return Dataset(X, y, names, ("-1", "+1"), "epsilon-like", norm=1.0, truth=w)


def _sizes(n: int, p: int, itemsize: int) -> list[int]:
    """Records of each piece in which rows are made; always the same ones, whoever wants which."""
    rows = rows_of_a_chunk(p, itemsize)
    return [min(rows, n - a) for a in range(0, n, rows)]


def _normal_pieces(rng: np.random.Generator, n: int, p: int) -> Iterator[Array]:
    for size in _sizes(n, p, 8):
        yield rng.standard_normal((size, p))


def _made(
    n: int,
    p: int,
    rng: np.random.Generator,
    pieces: Callable[[np.random.Generator], Iterator[Array]],
    lazy: bool,
) -> tuple[Any, Callable[[], Iterator[Array]]]:
    """(X, what gives its pieces again); `rng` has then drawn them."""
    begin = deepcopy(rng)
    source = Generated((n, p), np.dtype(np.float64), lambda: pieces(deepcopy(begin)))
    X: Any = LazyRows(source) if lazy else np.empty((n, p))
    done = 0
    for x in pieces(rng):
        if not lazy:
            X[done : done + len(x)] = x
        done += len(x)
    return X, source.pieces if lazy else lambda: (X[part] for part in chunks(X))
