"""
Choosing epsilon
================

Smaller epsilon, more noise. What that costs depends on how many records there are: the same budget
hurts a small study and goes unnoticed in a large one.
"""

# %%
# Accuracy on fresh records, for three sizes of the same study on ten nodes.

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc

data = tc.data.make_classification(13_000, 10, difficulty=0.2, seed=1)
X_fresh, y_fresh = data.X[8000:], data.y[8000:]
epsilons = [0.1, 0.3, 1.0, 3.0]
sizes = [500, 2000, 8000]
accuracy = np.empty((len(sizes), len(epsilons)))
for i, size in enumerate(sizes):
    for k, epsilon in enumerate(epsilons):
        scores = [
            tc.PrivateLogisticRegression(
                epsilon=epsilon, bounds="norm", classes=(0, 1), n_nodes=10, random_state=seed
            )
            .fit(data.X[:size], data.y[:size])
            .score(X_fresh, y_fresh)
            for seed in range(2)
        ]
        accuracy[i, k] = np.mean(scores)

figure, axes = plt.subplots(layout="constrained")
for size, line in zip(sizes, accuracy, strict=True):
    axes.semilogx(epsilons, line, "o-", label=f"{size} records")
axes.set(
    title="What a budget achieves",
    xlabel="epsilon of the whole fit",
    ylabel="accuracy on fresh records",
)
axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axes.legend()
plt.show()

# %%
# What an epsilon means for one person: somebody reads every message and knows every record but
# this one, about which two values are possible. No method of guessing is right more often than
# the curve says; a coin gives one half.

grid = np.geomspace(0.03, 10, 50)
figure, axes = plt.subplots(layout="constrained")
axes.semilogx(grid, 1 / (1 + np.exp(-grid)))
axes.axhline(0.5, color="0.5", linestyle=":", linewidth=1)
axes.set(
    title="What an adversary can guess",
    xlabel="epsilon (delta = 0)",
    ylabel="chance of the best guess",
)
plt.show()
