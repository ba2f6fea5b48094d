"""The additive estimators: classes, numbers and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacenda.estimators.additive import AdditiveModel
from tacenda.estimators.base import handed_on
from tacenda.estimators.classifiers import PrivateLogisticRegression
from tacenda.estimators.counts import PrivatePoissonRegressor
from tacenda.estimators.docstrings import documented
from tacenda.estimators.regressors import PrivateRidge
from tacenda.privacy.settings import Privacy


@documented
class PrivateAdditiveClassifier(AdditiveModel, PrivateLogisticRegression):
    """Additive classification over a network of private data holders.

    Each number becomes a curve (32 hat functions with a smoothness prior, on knots over its
    declared range), each category a step for each level; their sum is the log-odds of two classes,
    or the scores of several. It is a convex problem, and as private as a linear model.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateLogisticRegression : A straight line for each number.
    PrivateAdditiveRegressor : The same for numbers.

    Notes
    -----
    A missing value is a level of its own in every column.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from tacenda.estimators import PrivateAdditiveClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(20, 80, 6000), "ward": rng.choice(["n", "s"], 6000)})
    >>> y = (abs(X.age - 50) + 9 * rng.logistic(size=6000) > 15).astype(int)
    >>> model = PrivateAdditiveClassifier(
    ...     bounds={"age": (20, 80)}, levels={"ward": ["n", "s"]}, classes=(0, 1), random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.63)
    True
    """

    _sklearn_name = "LogisticRegression"

    def __init__(
        self,
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        breaks: Mapping[str, Sequence[float]] | None = None,
        atoms: Mapping[str, Sequence[float]] | None = None,
        log: Sequence[str] | None = None,
        cyclic: Mapping[str, float] | None = None,
        pairs: Sequence[tuple[str, str]] | None = None,
        monotone: Mapping[str, str] | None = None,
        linear: Sequence[str] | None = None,
        functions: int | None = None,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        clip_norm: float | None = None,
        strength: float | str = "auto",
        classes: Sequence[Any] | None = None,
        class_weight: Mapping[Any, float] | None = None,
        weight_bound: float = 1.0,
        n_nodes: int | None = None,
        graph: Any = None,
        algorithm: Any = "auto",
        rounds: int | None = None,
        prepare: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        public_sizes: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(**handed_on(locals(), super().__init__))
        self.levels, self.breaks, self.atoms, self.log = levels, breaks, atoms, log
        self.cyclic, self.pairs, self.monotone = cyclic, pairs, monotone
        self.linear, self.functions = linear, functions


@documented
class PrivateAdditiveRegressor(AdditiveModel, PrivateRidge):
    """Additive least squares over a network of private data holders.

    As `PrivateAdditiveClassifier`, for numbers: the sum of the curves is the expected target.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateRidge : A straight line for each number.
    PrivateAdditivePoissonRegressor : The same for counts.

    Notes
    -----
    A missing value is a level of its own in every column.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateAdditiveRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (6000, 2))
    >>> y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=6000)
    >>> model = PrivateAdditiveRegressor(bounds=(-1, 1), target_bounds=(0, 1), random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.5)
    True
    """

    _sklearn_name = "Ridge"

    def __init__(
        self,
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        target_bounds: Any = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        breaks: Mapping[str, Sequence[float]] | None = None,
        atoms: Mapping[str, Sequence[float]] | None = None,
        log: Sequence[str] | None = None,
        cyclic: Mapping[str, float] | None = None,
        pairs: Sequence[tuple[str, str]] | None = None,
        monotone: Mapping[str, str] | None = None,
        linear: Sequence[str] | None = None,
        functions: int | None = None,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        clip_norm: float | None = None,
        strength: float | str = "auto",
        weight_bound: float = 1.0,
        n_nodes: int | None = None,
        graph: Any = None,
        algorithm: Any = "auto",
        rounds: int | None = None,
        prepare: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        public_sizes: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(**handed_on(locals(), super().__init__))
        self.levels, self.breaks, self.atoms, self.log = levels, breaks, atoms, log
        self.cyclic, self.pairs, self.monotone = cyclic, pairs, monotone
        self.linear, self.functions = linear, functions


@documented
class PrivateAdditivePoissonRegressor(AdditiveModel, PrivatePoissonRegressor):
    """Additive Poisson regression of counts over a network of private data holders.

    As `PrivateAdditiveClassifier`, for counts: the sum of the curves is the logarithm of the rate.

    {parameters}

    {attributes}

    See Also
    --------
    PrivatePoissonRegressor : A straight line for each number.
    PrivateAdditiveRegressor : The same for targets that are no counts.

    Notes
    -----
    A missing value is a level of its own in every column.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateAdditivePoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (6000, 2))
    >>> y = rng.poisson(np.exp(2 * np.abs(X[:, 0])))
    >>> model = PrivateAdditivePoissonRegressor(
    ...     bounds=(-1, 1), count_bound=20, typical_count=3, random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.15)
    True
    """

    _sklearn_name = "PoissonRegressor"

    def __init__(
        self,
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
        count_bound: float | None = None,
        typical_count: float | None = None,
        dispersion: float = 0.0,
        bounds: Any = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        breaks: Mapping[str, Sequence[float]] | None = None,
        atoms: Mapping[str, Sequence[float]] | None = None,
        log: Sequence[str] | None = None,
        cyclic: Mapping[str, float] | None = None,
        pairs: Sequence[tuple[str, str]] | None = None,
        monotone: Mapping[str, str] | None = None,
        linear: Sequence[str] | None = None,
        functions: int | None = None,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        clip_norm: float | None = None,
        strength: float | str = "auto",
        weight_bound: float = 1.0,
        n_nodes: int | None = None,
        graph: Any = None,
        algorithm: Any = "auto",
        rounds: int | None = None,
        prepare: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        public_sizes: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(**handed_on(locals(), super().__init__))
        self.levels, self.breaks, self.atoms, self.log = levels, breaks, atoms, log
        self.cyclic, self.pairs, self.monotone = cyclic, pairs, monotone
        self.linear, self.functions = linear, functions
