"""
Comparing methods at the same true epsilon
==========================================

All methods get the same (epsilon, delta) of the whole run, composed from what they really release.
"""

# %%
# One problem, one graph, several methods with settings that suit this problem.

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc

data = tc.data.make_classification(4000, 10, difficulty=0.2, seed=0)
problem = tc.Problem(
    tc.data.partition.even(data.X, data.y, 20, seed=0), strength=1e-3, classes=(0, 1)
)
graph = tc.graph.random_regular(20, 4, seed=0)
planned = tc.plan(200, 10, graph, epsilon=2.0, delta=1e-5, strength=1e-3)
methods = {
    "planned: " + type(planned.settings["algorithm"]).__name__: planned.settings,
    "GossipGD": {"algorithm": tc.algorithms.GossipGD(), "rounds": 60},
    "CDP-ADMM": {
        "algorithm": tc.algorithms.CDPADMM(penalty=0.1, proximal=1.0, variance_decay=0.98),
        "rounds": 60,
    },
    "DP-DDA": {"algorithm": tc.algorithms.DPDDA(), "rounds": 60},
}
runs = {
    name: tc.simulate(
        problem,
        graph,
        privacy=tc.Privacy(2.0, 1e-5),
        seed=0,
        metrics=("objective", "accuracy"),
        **settings,
    )
    for name, settings in methods.items()
}
for name, run in runs.items():
    print(f"{name:20} epsilon {run.privacy.epsilon:.3f}, {run.privacy.why or 'as asked'}")

# %%
# The course of the objective; the last point of each is what the run ends with.

figure, axes = plt.subplots()
for name, run in runs.items():
    rows = run.history.rows
    axes.plot([row["round"] for row in rows], [row["objective"] for row in rows], label=name)
axes.axhline(np.log(2), color="0.5", linestyle=":", linewidth=1)
axes.set(xlabel="round", ylabel="objective", ylim=(0.3, 0.8))
figure.legend(loc="outside right center")
plt.show()
