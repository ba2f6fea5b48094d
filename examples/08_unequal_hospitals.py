"""
Twenty hospitals of unequal size
================================

A university hospital has a hundred times the patients of a village practice. Alone, a small one
cannot learn a private model at all; together all of them can.
"""

# %%
# Sizes follow a power law; the largest node holds most of the records.

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc

data = tc.data.make_classification(6000, 8, difficulty=0.2, seed=0)
shards = tc.data.partition.by_sizes(data.X[:5000], data.y[:5000], "power", n=20, seed=0)
sizes = [len(y) for _, y in shards]
X_test, y_test = data.X[5000:], data.y[5000:]
print(sizes)

# %%
# Together: ``nodes`` names the holder of each record.

X = np.concatenate([x for x, _ in shards])
y = np.concatenate([labels for _, labels in shards])
holder = np.repeat(np.arange(20), sizes)
settings = {"epsilon": 1.0, "bounds": "norm", "classes": (0, 1), "random_state": 0}
together = tc.PrivateLogisticRegression(**settings).fit(X, y, nodes=holder)
joint = together.score(X_test, y_test)

# %%
# Alone: each hospital by itself, with the same budget.

alone = [
    tc.PrivateLogisticRegression(**settings, n_nodes=1).fit(x, labels).score(X_test, y_test)
    for x, labels in shards
]
figure, axes = plt.subplots(layout="constrained")
axes.semilogx(sizes, alone, "o", label="each alone")
axes.axhline(joint, color="C2", label="all together")
axes.set(
    title="Alone and together",
    xlabel="records of the hospital",
    ylabel="accuracy on fresh records",
    ylim=(0.3, 0.9),
)
axes.legend()
plt.show()
