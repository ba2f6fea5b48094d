"""Losses of several yes-or-no questions about one record, which share its features.

Question t of a record with features u and the constant b is the row (u, b e_t), so that one
logistic loss learns coefficients that all questions share and T intercepts. `Problem` makes these
rows: exactly T of each record, so that their number says nothing, with zeros for a question that is
not asked of it. The guarantee is for a whole record, which is T rows. The mean over T m rows moves
by at most T 2G/(T m) when a record changes, as much as that of any other loss with this G.

The outcome of a record is one of K ordered cells. A model tells, at each of T cuts, the chance to
lie beyond it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda._types import Array, Flags, Floats, Ints
from tacenda.losses.logistic import Logistic


@dataclass(frozen=True)
class Stacked(Logistic):
    """The logistic loss of T questions about each record; scores of a record have shape (N, T)."""

    stacked: ClassVar[bool] = True

    @property
    def of_a_row(self) -> Logistic:
        """The logistic loss."""
        return Logistic()

    @staticmethod
    @abstractmethod
    def questions(cells: int) -> int:
        """T, of outcomes with so many cells."""

    @staticmethod
    @abstractmethod
    def answers(cell: Ints, t: int) -> tuple[Flags, Flags]:
        """(N, T) whether each question is asked, and whether its answer is yes."""

    @staticmethod
    @abstractmethod
    def cells(asked: Flags, yes: Flags) -> Ints:
        """(N,) the outcome that these answers mean."""

    @staticmethod
    @abstractmethod
    def beyond(scores: Array) -> Floats:
        """(N, T) the chance to lie beyond each cut, falling along the cuts."""

    @staticmethod
    @abstractmethod
    def lowest(scores: Array) -> Floats:
        """(N,) what ranks records: the larger, the earlier the outcome."""

    def of_records(self, scores: Array, cell: Ints) -> Floats:
        """(N,) the mean loss of each record's T rows, without noise."""
        asked, yes = self.answers(np.asarray(cell, np.int64), scores.shape[1])
        each = np.where(asked, self.value(scores, np.where(yes, 1.0, -1.0)), np.log(2.0))
        return np.asarray(each.mean(axis=1))


def outcome_rows(rows: Array, asked: Flags) -> Floats:
    """(N T, p - 1 + T): each row (u, b) as T rows (u, b e_t), zeros where a question is not asked.

    rows: shape (N, p), dense. asked: shape (N, T).
    """
    count, t = asked.shape
    found = np.zeros((count, t, rows.shape[1] - 1 + t), rows.dtype)
    found[:, :, : rows.shape[1] - 1] = rows[:, None, :-1]
    found[:, range(t), range(rows.shape[1] - 1, rows.shape[1] - 1 + t)] = rows[:, -1:]
    found[~asked] = 0.0
    return found.reshape(count * t, -1)


def sparse_outcome_rows(rows: Any, asked: Flags) -> Any:
    """The same of a sparse matrix."""
    from scipy import sparse

    count, t = asked.shape
    at = np.arange(count * t)
    which, one = at // t, asked.ravel().astype(rows.dtype)
    constants = rows[:, [rows.shape[1] - 1]].toarray().ravel()
    block = sparse.coo_array((constants[which], (at, at % t)), shape=(count * t, t))
    found = sparse.hstack([rows[which][:, :-1], block], format="csr")
    found = sparse.csr_array(sparse.dia_array((one[None], [0]), shape=(count * t,) * 2) @ found)
    found.eliminate_zeros()
    return found


def record_weights(model: Array, t: int) -> Floats:
    """(T, p): the weights of each question's score on a record's own features, the constant last.

    model: shape (p - 1 + T,).
    """
    shared, last = np.split(np.asarray(model, np.float64).reshape(-1), [-t])
    return np.column_stack([np.tile(shared, (t, 1)), last])


def stated_weights(about: Mapping[str, Any], values: Array) -> Floats:
    """(K, p) of a run's model, or of what there is one of for each weight, on a record's own
    features: (T, p) of T questions. about: the run's settings of its problem."""
    each, found = int(about.get("rows_each", 1)), np.asarray(values, float)
    return record_weights(found, each) if each > 1 else found.reshape(-1, int(about["n_features"]))
