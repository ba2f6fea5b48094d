"""Models that see a record as several rows: one for each threshold of an ordered label, or for each
period of a survival time.

Row t of a record has the record's features and a constant of its own, c e_t, so that one logistic
loss learns coefficients that all rows share and T intercepts. A record always has exactly T rows,
those that do not count with weight 0, so that the number of rows says nothing; and the T rows are
those of one person (`Problem(persons=..., records_per_person=T)`): the guarantee is for the whole
record. The mean over T m rows moves by at most T 2G/(T m) when a record changes, as much as that of
any other loss of m records with this G.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from tacenda._types import Array, Floats, Ints
from tacenda.data.features import is_sparse
from tacenda.errors import UnsupportedError
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.placement import place
from tacenda.estimators.scaling import Scaling
from tacenda.evaluation.coefficients import CoefficientTable
from tacenda.runtime.result import RunResult


class StackedModel(PrivateLinearModel):
    """Coefficients that are shared by the T rows of a record, and T intercepts."""

    fit_intercept = True
    _stacked = True
    _rows_each: int

    def _fit_stacked(
        self,
        rows: Any,
        answers: Array,
        nodes: Any,
        scaling: Scaling,
        weights: Floats | None,
        weight_bound: float,
    ) -> Self:
        """Run on rows (N, p + 1) with their constant, answers (N, T) of 0 and 1, and weights (N, T)
        from 0 to weight_bound."""
        self._check_split(nodes)
        count, each = answers.shape
        self._rows_each = each
        if nodes is None:  # all rows of a record go to one node
            nodes = np.empty(count, np.int64)
            numbers = np.arange(count)
            shards, _ = place(numbers[:, None], numbers, None, self.n_nodes, self.graph)
            for node, (_, own) in enumerate(shards):
                nodes[own] = node
        owner = np.repeat(np.asarray(nodes), each)
        table = stacked_rows(rows, each)
        more: dict[str, Any] = {}
        if each > 1:
            ids = np.repeat(np.arange(count), each)
            shards, _ = place(table, ids, owner, self.n_nodes, self.graph)
            # Every record has T rows, so these counts are those of the records, T times
            sizes: Any = [len(own) for _, own in shards]
            if self.public_sizes is not None:
                sizes = np.broadcast_to(self.public_sizes, (len(shards),)) * float(each)
            more = {
                "persons": [own for _, own in shards],
                "records_per_person": each,
                "one_record": True,
                "public_sizes": sizes,
            }
        return self._fit(
            table,
            answers.ravel(),
            owner,
            scaling,
            "logistic",
            "l2",
            None,
            None if weights is None else weights.ravel(),
            weight_bound,
            None,
            clip_norm=None if self.epsilon is None else self.clip_norm,
            classes=(0, 1),
            **more,
        )

    def _keep(self, result: RunResult, scaling: Scaling, topology: Any) -> None:
        if result.privacy is not None and self._rows_each > 1:
            result = replace(result, privacy=replace(result.privacy, one_record=True))
        super()._keep(result, _StackedScaling(scaling, self._rows_each), topology)  # type: ignore[arg-type]

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        self.node_coef_, self.node_intercept_ = node_coef[:, 0], node_intercept[:, 0]
        self.coef_ = self.node_coef_.mean(axis=0)
        self.intercept_ = self.node_intercept_.mean(axis=0)

    def _standard_errors(
        self, result: RunResult, scaling: Any
    ) -> tuple[Array | None, Array | None]:
        if result.noise_std is None:
            return None, None
        p = len(scaling.plain.scale)
        std = np.asarray(result.noise_std, float).reshape(-1)
        return std[None, :p] * np.abs(scaling.plain.scale), None

    @property
    def coef_table_(self) -> CoefficientTable:
        """Coefficients by feature name in the original units, the largest effects over the declared
        bounds first, with the standard error that the privacy noise adds, where it is known."""
        return self._coefficients(intercepts=False)

    def _shared_scores(self, X: Any) -> Floats:
        """(N,) X @ coef_, without an intercept."""
        return np.asarray(self._scores(X)[:, 0] - self.intercept_[0])

    def to_sklearn(self) -> Any:
        """Refused: scikit-learn has no such model."""
        raise UnsupportedError(
            f"to_sklearn is not for {type(self).__name__}: scikit-learn has no such model; "
            "use export(path), whose files hold the coefficients."
        )


class _StackedScaling:
    """Weights (..., p + T) of stacked rows in the user's scale."""

    def __init__(self, plain: Scaling, each: int) -> None:
        self.plain, self.each = plain, each
        self.scale, self.centre, self.constant = plain.scale, plain.centre, plain.constant
        self.feature_map = plain.feature_map

    def back(self, w: Array) -> tuple[Floats, Floats]:
        """(coef (..., p), intercepts (..., T))."""
        w = np.asarray(w, float)
        p = len(self.scale)
        coef = w[..., :p] * self.scale
        constant = 1.0 if self.constant is None else self.constant
        return coef, w[..., p:] * constant - (coef @ self.centre)[..., None]


def stacked_rows(rows: Any, each: int) -> Any:
    """(N T, p + T): each row (u, b) as T rows (u, b e_t)."""
    count, p = rows.shape[0], rows.shape[1] - 1
    which: Ints = np.repeat(np.arange(count), each)
    if is_sparse(rows):
        from scipy import sparse

        constants = rows[:, [p]].toarray().ravel()
        at = (np.arange(count * each), np.tile(np.arange(each), count))
        block = sparse.coo_array((constants[which], at), shape=(count * each, each))
        return sparse.csr_array(sparse.hstack([rows[which][:, :p], block], format="csr"))
    found = np.zeros((count * each, p + each), rows.dtype)
    found[:, :p] = rows[which, :p]
    found[np.arange(count * each), p + np.tile(np.arange(each), count)] = rows[which, p]
    return found
