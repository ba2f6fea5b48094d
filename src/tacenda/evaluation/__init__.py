"""How good a model is, in the measures that people read, and what its coefficients say.

measures       accuracy, ROC AUC, F1, log loss, R2, RMSE and others, from labels and scores
figures        confusion matrix, ROC and precision-recall points, calibration, residuals
coefficients   a model's weights by feature name, in the original units, with the standard error
               that the privacy noise adds

private        measures with intervals from noisy counts that were released once

Measures and figures read the records that they are given, without noise. Coefficients follow from
the released model alone, private measures from released counts alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.evaluation.coefficients import Coefficient, CoefficientTable, coefficient_table
    from tacenda.evaluation.declared_design import design_of
    from tacenda.evaluation.of_runs import run_coefficients
    from tacenda.evaluation.private import PrivateEvaluation, PrivateMeasure

_HOMES = {
    "Coefficient": "coefficients",
    "CoefficientTable": "coefficients",
    "PrivateEvaluation": "private",
    "PrivateMeasure": "private",
    "coefficient_table": "coefficients",
    "design_of": "declared_design",
    "run_coefficients": "of_runs",
}

__all__ = [
    "Coefficient",
    "CoefficientTable",
    "PrivateEvaluation",
    "PrivateMeasure",
    "coefficient_table",
    "design_of",
    "run_coefficients",
]

__getattr__ = lazily(__name__, _HOMES)
