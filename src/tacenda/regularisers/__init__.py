"""Regularisers R(w): penalties of this package, of mapped records, and of users."""

from tacenda.regularisers.base import Regulariser
from tacenda.regularisers.custom import CustomRegulariser
from tacenda.regularisers.generalised_lasso import GeneralisedLasso
from tacenda.regularisers.on_mapped import Unmapped, WeightedL2, mapped
from tacenda.regularisers.penalties import L1, L2, ElasticNet, NoRegulariser
from tacenda.regularisers.registry import by_name, divided, names, register

__all__ = [
    "L1",
    "L2",
    "CustomRegulariser",
    "ElasticNet",
    "GeneralisedLasso",
    "NoRegulariser",
    "Regulariser",
    "Unmapped",
    "WeightedL2",
    "by_name",
    "divided",
    "mapped",
    "names",
    "register",
]
