"""What `fit` reads: records, weights, persons, a public sample and a start, each checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from tacenda import checks
from tacenda._types import Array
from tacenda.data.as_read import of_arrays
from tacenda.data.partition import broken_promise
from tacenda.errors import InputError
from tacenda.estimators.refusing import columns_named
from tacenda.estimators.scaling import Scaling, declared_bounds
from tacenda.estimators.warnings import warn_of_bounds
from tacenda.privacy.noise.persons import PUBLIC_KEY, person_names, persons_over
from tacenda.words import counted


class CheckedInputs(BaseEstimator):  # type: ignore[misc]
    """The part of a model that reads what its user passes."""

    def _checked_rows(self, X: Any, y: Any, **how: Any) -> tuple[Any, Any, Scaling]:
        """Validated X, y, and the scaling that the declarations give."""
        with columns_named(X):
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", **how
            )
        norm = None if self.data_norm is None else checks.positive("data_norm", self.data_norm)
        if self.bounds is None:
            warn_of_bounds(1.0 if norm is None else norm)
        scaling = Scaling.of(
            self._declared_bounds(X.shape[1]),
            X.shape[1],
            norm,
            bool(self.fit_intercept),
            hasattr(X, "tocsr"),
        )
        # A ledger knows named columns again as they are here, before they are scaled
        names = getattr(self, "feature_names_in_", None)
        self._as_read = None if names is None else of_arrays(X, names, y)
        return X, y, scaling

    def _declared_bounds(self, n_features: int) -> Any:
        """None, "norm" or the pair (low, high) of arrays."""
        if self.bounds is None or isinstance(self.bounds, str):
            return self.bounds
        return declared_bounds(self.bounds, self._feature_names(n_features))

    def _feature_names(self, p: int) -> list[str]:
        return [str(n) for n in getattr(self, "feature_names_in_", [f"x{j}" for j in range(p)])]

    def _persons(self, groups: Any, count: int, nodes: Any) -> tuple[Array, Any]:
        """(ids (N,), nodes (N,)): where no nodes are given, all records of a person go to one, by a
        draw that looks at the id alone."""
        ids = person_names(groups, "groups")
        if len(ids) != count:
            raise InputError(f"groups must hold one id per record ({count}), not {len(ids)}.")
        if nodes is not None:
            return ids, nodes
        if self.n_nodes is None:
            raise InputError(
                "n_nodes must be given with groups, or nodes to fit: by default it follows from "
                "the number of records, which is private where persons have several."
            )
        return ids, persons_over(ids, checks.whole("n_nodes", self.n_nodes, least=1), PUBLIC_KEY)

    def _check_split(self, nodes: Any) -> None:
        """Refuse an even split where it would break the guarantee."""
        count = 2 if self.n_nodes is None else self.n_nodes
        why = None if nodes is not None else broken_promise("even", self._relation, count)
        if why is not None:
            raise InputError(
                f"nodes must be given to fit under adjacency {self._relation!r} (or n_nodes=1): "
                f"{why}, and the guarantee would not hold."
            )

    def _sample_weights(self, sample_weight: Any, count: int) -> tuple[Any, float]:
        """(weights (N,) or None, their declared bound)."""
        bound = checks.positive("weight_bound", self.weight_bound)
        if sample_weight is None:
            return None, bound
        weights = np.asarray(sample_weight, float)
        if weights.shape != (count,):
            raise InputError(
                f"sample_weight must hold one number per record ({count}), "
                f"not shape {weights.shape}."
            )
        if not ((weights >= 0) & (weights <= bound)).all():
            raise InputError(
                f"sample_weight must lie from 0 to weight_bound={bound:g}, and some do not; "
                "declare a larger weight_bound from public knowledge, or clip the weights to it."
            )
        if not weights.any():
            raise InputError("sample_weight must not be zero for all records; give some a weight.")
        return weights, bound

    @staticmethod
    def _refuse_own_records(public: Any, X: Any) -> None:
        """The records themselves are no public sample; copies and parts of them are not noticed."""
        if isinstance(public, tuple | list) and any(part is X for part in public):
            raise InputError(
                "public must not be the private records themselves, which it would leave without "
                "protection; leave it out, or pass other records that are public."
            )

    def _public_rows(self, public: Any) -> tuple[Any, Any]:
        """The public sample's (X, y), checked like the private records."""
        try:
            X, y = public
        except (TypeError, ValueError):
            raise InputError(
                f"public must be a pair (X, y) of arrays, not {type(public).__name__}."
            ) from None
        found = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False
        )
        return found[0], found[1]

    def _start(self, init: Any, scaling: Scaling, outputs: int) -> Any:
        """The public model `init` as weights of scaled rows, (K, p) or (K, p + 1); None for none.

        init: a fitted model with coef_ and intercept_, a pair of both, or coef alone.
        """
        if init is None:
            return None
        if hasattr(init, "coef_"):
            coef, intercept = init.coef_, init.intercept_
        elif isinstance(init, tuple):
            coef, intercept = init if len(init) == 2 else (None, None)
        else:
            coef, intercept = init, 0.0
        try:
            coef = np.asarray(coef, float).reshape(outputs, -1)
            intercept = np.broadcast_to(np.ravel(np.asarray(intercept, float)), (outputs,))
        except (TypeError, ValueError):
            coef = np.zeros((0, 0))
        if coef.shape != (outputs, len(scaling.scale)) or not (
            np.isfinite(coef).all() and np.isfinite(intercept).all()
        ):
            raise InputError(
                "init must be a fitted linear model, a pair (coef, intercept) or coef alone, with "
                f"finite numbers for {counted(len(scaling.scale), 'feature')} and "
                f"{counted(outputs, 'output')}, not {type(init).__name__}."
            )
        return scaling.forth(*self._in_scaled_units(coef, intercept))

    def _in_scaled_units(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """coef (K, p) and intercept (K,) of the labels as they are learnt."""
        return coef, intercept
