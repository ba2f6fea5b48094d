"""Named data sets: `load("adult")`, `load("a9a")`, `load("epsilon", path=...)`,
and scikit-learn's bundled ones."""

from __future__ import annotations

import inspect
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.checks import one_of
from tacenda.data import generators, sources
from tacenda.data.dataset import Dataset
from tacenda.data.features import within_unit_norm
from tacenda.data.libsvm import load_libsvm, load_libsvm_dense
from tacenda.errors import InputError

# Fourteen attributes, each at most one 1
A9A_NORM = math.sqrt(14)


@dataclass(frozen=True)
class PublicShape:
    """What is public about a data set before it is read.

    classes: 0 for a regression. norm: bound on a row's norm, None where there is none. row_scale:
    by how much the rows are divided.
    """

    records: int
    features: int
    classes: int
    norm: float | None = 1.0
    row_scale: float = 1.0

    def with_intercept(self) -> PublicShape:
        """The shape after a constant was added, inside the norm bound."""
        scale = 1.0 if self.norm is None else math.hypot(self.norm, 1.0)
        return replace(self, features=self.features + 1, row_scale=scale)


@dataclass(frozen=True)
class NamedSet:
    """A named data set: a line about it, its loader, and its public shape by the loader's options.
    A loader without the option `intercept` leaves the constant to its callers."""

    about: str
    load: Callable[..., Dataset]
    shape: Callable[[dict[str, Any]], PublicShape]

    @property
    def options(self) -> set[str]:
        """The options of the loader."""
        return set(inspect.signature(self.load).parameters)

    def public_shape(self, options: Mapping[str, Any], intercept: bool) -> PublicShape:
        """The shape with these options of the loader, with or without a constant."""
        own = "intercept" in self.options
        given = {**options, "intercept": intercept} if own else options
        bound = inspect.signature(self.load).bind(**given)
        bound.apply_defaults()
        found = self.shape(bound.arguments)
        return found.with_intercept() if intercept and not own else found


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
    try:
        return named_set(name).load(**options)
    except TypeError as error:
        if "unexpected keyword" in str(error) or "required" in str(error):
            raise InputError(f"data set {name!r} does not take these options: {error}.") from None
        raise


def named_set(name: str | None, where: str = "data set") -> NamedSet:
    """The data set of this name; where: what an error calls the name."""
    return SETS[one_of(where, name, SETS)]


def _adult(
    *,
    encoding: str = "public",
    split: str = "all",
    intercept: bool = False,
    sparse: bool = False,
    dtype: Any = np.float64,
) -> Dataset:
    from tacenda.data.adult import load_adult

    return load_adult(
        encoding=encoding, split=split, intercept=intercept, sparse=sparse, dtype=dtype
    )


def _adult_shape(given: dict[str, Any]) -> PublicShape:
    from tacenda.data.adult import adult_schema

    records, extra = 30_162 if given["split"] == "official" else 45_222, given["intercept"]
    if given["encoding"] == "papers":
        return PublicShape(records, 104 + extra, 2)
    return PublicShape(records, 105 + extra, 2, row_scale=adult_schema(intercept=extra).row_scale)


def _a9a(
    *, intercept: bool = False, sparse: bool = True, norm: float = A9A_NORM, dtype: Any = np.float64
) -> Dataset:
    """32,561 records, 123 features, rows shortened to `norm` (none by default) and divided by it;
    `test` has the 16,281 others."""
    parts = [_a9a_part(name, intercept, sparse, norm, dtype) for name in ("a9a", "a9a.t")]
    return parts[0].with_test(parts[1])


def _a9a_part(name: str, intercept: bool, sparse: bool, norm: float, dtype: Any) -> Dataset:
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


def _bundled_set(name: str, about: str, records: int, features: int, classes: int) -> NamedSet:
    """A set that scikit-learn carries."""

    def shape(given: dict[str, Any]) -> PublicShape:
        p = features + given["intercept"]
        return PublicShape(records, p, classes, row_scale=math.sqrt(p))

    size = f"{records:,} x {features}, {about} (bundled with scikit-learn)"
    return NamedSet(size, partial(_bundled, name), shape)


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


SETS: dict[str, NamedSet] = {
    "adult": NamedSet(
        "UCI Adult, income above 50K; encodings 'public' (declared schema) "
        "and 'papers' (104 features)",
        _adult,
        _adult_shape,
    ),
    "a9a": NamedSet(
        "LIBSVM a9a: Adult in 123 binary features, CSR, with its own test part",
        _a9a,
        lambda o: PublicShape(
            32_561, 123 + o["intercept"], 2, row_scale=math.hypot(o["norm"], o["intercept"])
        ),
    ),
    "epsilon": NamedSet(
        "LIBSVM epsilon, 400,000 x 2,000 dense, from a local file (path=...)",
        _epsilon,
        lambda o: PublicShape(o["rows"] or 400_000, 2000, 2),
    ),
    "breast_cancer": _bundled_set("breast_cancer", "two classes", 569, 30, 2),
    "digits": _bundled_set("digits", "ten classes", 1_797, 64, 10),
    "wine": _bundled_set("wine", "three classes", 178, 13, 3),
    "iris": _bundled_set("iris", "three classes", 150, 4, 3),
    "diabetes": _bundled_set("diabetes", "regression", 442, 10, 0),
    "classification": NamedSet(
        "generated: a linear rule with a chosen difficulty",
        generators.make_classification,
        lambda o: PublicShape(o["n"], o["features"], o["classes"]),
    ),
    "sparse-regression": NamedSet(
        "generated: the Lasso example of CDP-ADMM, 50 agents x 50 records x 8",
        generators.make_sparse_regression,
        lambda o: PublicShape(o["nodes"] * o["records"], o["features"], 0, norm=None),
    ),
    "epsilon-like": NamedSet(
        "generated: unit rows, 2,000 features, float32, any number of rows",
        generators.make_epsilon_like,
        lambda o: PublicShape(o["rows"], o["features"], 2),
    ),
}
# name -> one line for `tacenda datasets`
NAMES: dict[str, str] = {name: one.about for name, one in SETS.items()}
