"""Named data sets: `load("adult")`, `load("a9a")`, `load("epsilon", path=...)`,
and scikit-learn's bundled ones."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.checks import one_of
from tacenda.data import sources
from tacenda.data.dataset import Dataset
from tacenda.data.features import within_unit_norm
from tacenda.errors import InputError

# Fourteen attributes, each at most one 1
A9A_NORM = math.sqrt(14)
# name -> one line for `tacenda datasets`
NAMES: dict[str, str] = {
    "adult": (
        "UCI Adult, income above 50K; encodings 'public' (declared schema) "
        "and 'papers' (104 features)"
    ),
    "a9a": "LIBSVM a9a: Adult in 123 binary features, CSR, with its own test part",
    "epsilon": "LIBSVM epsilon, 400,000 x 2,000 dense, from a local file (path=...)",
    "breast_cancer": "569 x 30, two classes (bundled with scikit-learn)",
    "digits": "1,797 x 64, ten classes (bundled with scikit-learn)",
    "wine": "178 x 13, three classes (bundled with scikit-learn)",
    "iris": "150 x 4, three classes (bundled with scikit-learn)",
    "diabetes": "442 x 10, regression (bundled with scikit-learn)",
    "classification": "generated: a linear rule with a chosen difficulty",
    "sparse-regression": "generated: the Lasso example of CDP-ADMM, 50 agents x 50 records x 8",
    "epsilon-like": "generated: unit rows, 2,000 features, float32, any number of rows",
}


def load(name: str, **options: Any) -> Dataset:
    """Load a data set by its name.

    Parameters
    ----------
    name : str
        A name of `tacenda.data.NAMES`.
    **options : object
        Those of its loader, for instance `encoding="papers"` for adult; `lazy=True` for the sets
        that may be large: epsilon and the generated ones.

    Returns
    -------
    Dataset
        Features, labels and what is known about them.

    Raises
    ------
    InputError
        If there is no such name, or its file cannot be fetched.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.load("breast_cancer").classes is not None
    True
    """
    one_of("data set", name, NAMES)
    loaders: dict[str, Callable[..., Dataset]] = {"adult": _adult, "a9a": _a9a, "epsilon": _epsilon}
    if name in ("classification", "sparse-regression", "epsilon-like"):
        from tacenda.data import generators

        loader: Callable[..., Dataset] = getattr(generators, f"make_{name.replace('-', '_')}")
    else:
        loader = loaders.get(name, lambda **kw: _bundled(name, **kw))
    try:
        return loader(**options)
    except TypeError as error:
        if "unexpected keyword" in str(error) or "required" in str(error):
            raise InputError(f"data set {name!r} does not take these options: {error}.") from None
        raise


def _adult(**options: Any) -> Dataset:
    from tacenda.data.adult import load_adult

    return load_adult(**options)


def _a9a(
    *, intercept: bool = False, sparse: bool = True, norm: float = A9A_NORM, dtype: Any = np.float64
) -> Dataset:
    """32,561 records, 123 features, rows shortened to `norm` (none by default) and divided by it;
    `test` has the 16,281 others."""
    parts = [_a9a_part(name, intercept, sparse, norm, dtype) for name in ("a9a", "a9a.t")]
    return parts[0].with_test(parts[1])


def _a9a_part(name: str, intercept: bool, sparse: bool, norm: float, dtype: Any) -> Dataset:
    from tacenda.data.libsvm import load_libsvm

    content = sources.local_bytes(name)
    if content is None:
        raise sources.Unavailable(
            f"data set 'a9a' is not here: {sources.where_to_put('a9a', 'a9a.t')}."
        )
    # scikit-learn reads a file faster than it reads bytes already in memory, and a9a is small.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a9a"
        path.write_bytes(content)
        data = load_libsvm(path, 123, classes=("-1", "+1"), dtype=dtype)
    X = data.X if sparse else data.X.toarray()
    names = data.feature_names
    notes = ["the quantile cuts behind a9a's binary features were read from the data"]
    X, names, scale = within_unit_norm(X, names, norm, intercept=intercept)
    return Dataset(X, data.y, names, data.classes, "a9a", notes, norm=1.0, row_scale=scale)


def _epsilon(
    *,
    path: str | Path | None = None,
    rows: int | None = None,
    dtype: Any = np.float32,
    lazy: bool = False,
) -> Dataset:
    """The LIBSVM text (epsilon_normalized, plain, .gz or .bz2) into one array of float32, rows
    clipped to norm 1."""
    from tacenda.data.libsvm import load_libsvm_dense

    places = [
        folder / f"epsilon_normalized{end}"
        for folder in sources.folders()
        for end in ("", ".gz", ".bz2")
    ]
    found = (
        Path(path)
        if path is not None
        else next((place for place in places if place.is_file()), None)
    )
    if found is None:
        raise sources.Unavailable(
            "data set 'epsilon' is read from a local file only (12 GB of text): give path=..., "
            f"or {sources.where_to_put('epsilon_normalized')}; load('epsilon-like', "
            "rows=...) generates a stand-in."
        )
    return load_libsvm_dense(
        found,
        2000,
        rows=rows,
        classes=("-1", "1"),
        norm=1.0,
        dtype=dtype,
        name="epsilon",
        lazy=lazy,
    )


def _bundled(name: str, *, intercept: bool = False, dtype: Any = np.float64) -> Dataset:
    """A set that scikit-learn carries: columns over their largest magnitude, hence in [-1, 1], and
    rows divided by the largest norm that they can have."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    X: Any = np.asarray(bunch.data, dtype)
    top = np.abs(X).max(axis=0)
    X = X / np.where(top > 0, top, 1.0)
    names = tuple(str(feature) for feature in bunch.feature_names)
    X, names, scale = within_unit_norm(X, names, math.sqrt(X.shape[1]), intercept=intercept)
    notes = ["the maxima by which columns are divided were read from the data"]
    if name == "diabetes":
        low, high = bunch.target.min(), bunch.target.max()
        notes.append("the bounds by which the target is scaled to [-1, 1] were read from the data")
        y = (2.0 * bunch.target - low - high) / (high - low)
        return Dataset(X, y, names, None, name, notes, norm=1.0, row_scale=scale)
    classes, y = tuple(str(c) for c in bunch.target_names), bunch.target.astype(np.int64)
    return Dataset(X, y, names, classes, name, notes, norm=1.0, row_scale=scale)
