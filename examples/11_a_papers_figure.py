"""
A paper's figure, small
=======================

Gauthier et al. (2020) compare noise whose variance falls from round to round (CDP-ADMM) with
constant noise (DDP-ADMM) on a Lasso over fifty agents. Here the figure is made at the same true
(epsilon, delta) for both, with fewer seeds; ``tacenda experiment run cdp-lasso --full`` makes the
whole one.
"""

# %%
# Fifty agents with fifty records each.

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc

data = tc.data.make_sparse_regression(nodes=50, records=50, features=8)
problem = tc.Problem(
    tc.data.partition.even(data.X, data.y, 50),
    loss="squared",
    regulariser="l1",
    loss_scale=2.0,
    strength=0.01,
    data_norm=10.0,
    clip_norm=5.0,
)
graph = tc.graph.random_regular(50, 4, seed=1)
methods = {
    "CDP-ADMM": tc.algorithms.CDPADMM(penalty=4.0, proximal=1.0, variance_decay=0.99),
    "DDP-ADMM": tc.algorithms.DDPADMM(penalty=4.0, proximal=1.0),
}

# %%
# The paper's measure is the distance of all agents' models from the optimum, relative to its
# length: means over three seeds. Falling noise is behind at first and better at the end.

figure, axes = plt.subplots(layout="constrained")
for name, algorithm in methods.items():
    for level, style in ((5.0, ":"), (20.0, "-")):
        courses = []
        for seed in range(3):
            run = tc.simulate(
                problem,
                graph,
                algorithm,
                rounds=200,
                privacy=tc.Privacy(level, 1e-5),
                seed=seed,
                record_every=5,
                metrics=("distance",),
                reference="optimum",
            )
            rows = run.history.rows
            courses.append([row["distance"] for row in rows])
        axes.semilogy(
            [row["round"] for row in rows],
            np.mean(courses, axis=0),
            style,
            color="C0" if name == "CDP-ADMM" else "C1",
            label=f"{name}, epsilon {level:g}",
        )
axes.set(title="A Lasso over fifty agents", xlabel="round", ylabel="normalised error of all agents")
figure.legend(loc="outside right center")
plt.show()
