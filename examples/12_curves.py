"""
Curves instead of lines
=======================

An additive model learns a curve for each number and a step for each level. Knots come from the
declared bounds, never from the data. The bands show the privacy noise.
"""

# %%
# The risk is high for the young and for the old, and rises with the dose. A straight line cannot
# show the first.

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc

rng = np.random.default_rng(0)
age, dose = rng.uniform(18, 90, 20_000), rng.uniform(0, 10, 20_000)
score = ((age - 54) / 18) ** 2 - 1.5 + 0.25 * (dose - 5)
ill = rng.random(20_000) < 1 / (1 + np.exp(-score))
records = np.column_stack([age, dose])

bounds = ([18, 0], [90, 10])
shared = {"bounds": bounds, "classes": (False, True), "n_nodes": 10, "random_state": 0}
lines = tc.PrivateLogisticRegression(epsilon=1.0, **shared).fit(records, ill)
curves = tc.PrivateAdditiveClassifier(epsilon=1.0, **shared).fit(records, ill)
print("lines", round(lines.score(records, ill), 3), "curves", round(curves.score(records, ill), 3))
print(curves.privacy_)

# %%
# Each shape is what its column adds to the log-odds, with a 95 % band for the noise. The dotted
# line is the truth.

truth = {"x0": ((age - 54) / 18) ** 2, "x1": 0.25 * dose}
figure, panels = plt.subplots(1, 2, layout="constrained", sharey=True)
for shape, column, axes in zip(
    sorted(curves.shapes_, key=lambda s: s.column), records.T, panels, strict=True
):
    x, y, band = np.array(shape.x), shape.y[0], 1.96 * shape.noise[0]
    real, order = truth[shape.column], np.argsort(column)
    axes.fill_between(x, y - band, y + band, alpha=0.25, linewidth=0)
    axes.plot(x, y)
    axes.plot(column[order], (real - real.mean())[order], ":", color="0.5")
    axes.set(title={"x0": "age", "x1": "dose"}[shape.column])
panels[0].set(ylabel="added to the log-odds")
plt.show()
