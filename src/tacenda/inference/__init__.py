"""What a model says about the population: estimates with intervals for records and privacy noise,
p-values with their conditions, and whether nodes are alike.

newton       from released sums to coefficients with their covariance: pure functions
statistics   what records are asked: gradient, curvature and spread of their loss
scales       how large the loss's derivatives are, asked first, so that noise fits them
result       `Inference`: estimates, intervals, p-values and the conditions
design       what is declared, and which coefficients a question will show, before it is charged
asking       `intervals`: of a run that tells them already, or by one more question
alike        `heterogeneity`: are the nodes' populations alike?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.inference.alike import Heterogeneity, heterogeneity
    from tacenda.inference.asking import from_released, intervals
    from tacenda.inference.design import Design, Forecast, forecast
    from tacenda.inference.newton import Estimate, Information, one_step
    from tacenda.inference.result import Condition, Inference, holm
    from tacenda.inference.scales import LossScales
    from tacenda.inference.statistics import GradientMoments

__all__ = [
    "Condition",
    "Design",
    "Estimate",
    "Forecast",
    "GradientMoments",
    "Heterogeneity",
    "Inference",
    "Information",
    "LossScales",
    "forecast",
    "from_released",
    "heterogeneity",
    "holm",
    "intervals",
    "one_step",
]

__getattr__ = lazily(
    __name__,
    {
        "Condition": "result",
        "Design": "design",
        "Estimate": "newton",
        "Forecast": "design",
        "GradientMoments": "statistics",
        "Heterogeneity": "alike",
        "Inference": "result",
        "Information": "newton",
        "LossScales": "scales",
        "forecast": "design",
        "from_released": "asking",
        "heterogeneity": "alike",
        "holm": "result",
        "intervals": "asking",
        "one_step": "newton",
    },
)
