"""
A first private model
=====================

Twenty hospitals hold 250 patients each. They may not pool the records, and learn one logistic
regression together, at epsilon 1 for the whole fit.
"""

# %%
# The records: age and daily minutes of exercise, and who fell ill.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import tacenda as tc

rng = np.random.default_rng(0)
X = rng.uniform([18, 0], [90, 200], size=(5000, 2))
risk = 0.05 * (X[:, 0] - 54) - 0.02 * (X[:, 1] - 100)
y = np.where(risk + rng.logistic(size=5000) > 0, "ill", "well")

# %%
# Bounds and classes are declared: they are what everybody knows about ages and minutes. Bounds that
# are read off the data would tell something about the oldest patient.

model = tc.PrivateLogisticRegression(
    epsilon=1.0,
    delta=1e-5,
    bounds=([18, 0], [90, 200]),
    classes=("ill", "well"),
    n_nodes=20,
    random_state=0,
)
model.fit(X, y)
print("accuracy", round(model.score(X, y), 3))
print(model.privacy_)

# %%
# Next to the same model without any privacy, from scikit-learn on the pooled records, the private
# line between ill and well hardly moves.

pooled = LogisticRegression().fit(X, y)
print("pooled, without privacy", round(pooled.score(X, y), 3))

ages = np.array([18.0, 90.0])
figure, axes = plt.subplots(layout="constrained")
for label, colour in (("ill", "tab:red"), ("well", "tab:blue")):
    some = np.flatnonzero(y == label)[:250]
    axes.scatter(*X[some].T, s=8, alpha=0.5, label=label, color=colour)
for name, fitted, style in (("private", model, "-"), ("pooled", pooled, "--")):
    (a, b), c = fitted.coef_[0], fitted.intercept_[0]
    axes.plot(ages, -(c + a * ages) / b, style, color="0.5", label=name)
axes.set(
    title="The line between ill and well", xlabel="age", ylabel="minutes of exercise", ylim=(0, 200)
)
figure.legend(loc="outside right center")
plt.show()
