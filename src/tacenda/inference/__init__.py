"""What a model says about the population: estimates with intervals for records and privacy noise,
p-values with their conditions, and whether nodes are alike.

one_step        from released sums to coefficients with their covariance: pure functions
statistics      what records are asked: gradient, curvature and spread of their loss
inference       `Inference`: estimates, intervals, p-values and the conditions
intervals       `intervals`: of a run that tells them already, or by one more question
heterogeneity   `heterogeneity`: are the nodes' populations alike?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.inference.heterogeneity import Heterogeneity, heterogeneity
    from tacenda.inference.inference import Condition, Inference, holm
    from tacenda.inference.intervals import from_released, intervals
    from tacenda.inference.one_step import Estimate, Information, one_step
    from tacenda.inference.statistics import GradientMoments

__all__ = [
    "Condition",
    "Estimate",
    "GradientMoments",
    "Heterogeneity",
    "Inference",
    "Information",
    "from_released",
    "heterogeneity",
    "holm",
    "intervals",
    "one_step",
]

__getattr__ = lazily(
    __name__,
    {
        "Condition": "inference",
        "Estimate": "one_step",
        "GradientMoments": "statistics",
        "Heterogeneity": "heterogeneity",
        "Inference": "inference",
        "Information": "one_step",
        "from_released": "intervals",
        "heterogeneity": "heterogeneity",
        "holm": "inference",
        "intervals": "intervals",
        "one_step": "one_step",
    },
)
