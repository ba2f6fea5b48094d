"""Convex losses of one record, one file each, and what each of them promises to the algorithms."""

from tacenda.losses.absolute_deviation import AbsoluteDeviation
from tacenda.losses.base import Loss
from tacenda.losses.custom import CustomLoss
from tacenda.losses.discrete_hazard import DiscreteHazard
from tacenda.losses.hinge import Hinge
from tacenda.losses.huber import Huber
from tacenda.losses.logistic import Logistic
from tacenda.losses.multiclass_hinge import MulticlassHinge
from tacenda.losses.multinomial import Multinomial
from tacenda.losses.negative_binomial import NegativeBinomial
from tacenda.losses.ordinal import Ordinal
from tacenda.losses.poisson import Poisson
from tacenda.losses.quantile import Quantile
from tacenda.losses.registry import by_name, names, register
from tacenda.losses.smoothed_hinge import SmoothedHinge
from tacenda.losses.smoothed_quantile import SmoothedQuantile
from tacenda.losses.squared import Squared

__all__ = [
    "AbsoluteDeviation",
    "CustomLoss",
    "DiscreteHazard",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "MulticlassHinge",
    "Multinomial",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Quantile",
    "SmoothedHinge",
    "SmoothedQuantile",
    "Squared",
    "by_name",
    "names",
    "register",
]
