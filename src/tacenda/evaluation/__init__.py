"""How good a model is, in the measures that people read, and what its coefficients say.

measures       accuracy, ROC AUC, F1, log loss, R2, RMSE and others, from labels and scores
figures        confusion matrix, ROC and precision-recall points, calibration, residuals
coefficients   a model's weights by feature name, in the original units, with the standard error
               that the privacy noise adds
model_files    a model and its public description, from a run folder or an exported model

Measures and figures read the records that they are given, without noise. Coefficients follow from
the released model alone.
"""
