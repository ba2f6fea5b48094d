"""The private records of all nodes in one table, with one file for each kind of answer."""

from __future__ import annotations

from tacenda.questions.store.store import DenseStore, SparseStore, Store

__all__ = ["DenseStore", "SparseStore", "Store"]
