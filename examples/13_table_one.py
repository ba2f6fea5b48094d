"""
Who is in the data: a private Table 1
=====================================

Before a model, a consortium asks whom it has. One release of counts and sums answers with a whole
table, under one budget, and every number has an interval.
"""

# %%
# The schema says what is publicly known: levels and bounds. Four hospitals hold the records.

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc

rng = np.random.default_rng(0)
n = 8000
arm = rng.choice(["control", "treated"], n)
patients = {
    "arm": arm,
    "age": np.where(arm == "treated", rng.normal(63, 9, n), rng.normal(58, 9, n)).round(),
    "stage": rng.choice(["I", "II", "III"], n, p=[0.5, 0.3, 0.2]),
    "relapse": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
}
schema = tc.data.Schema(
    name="patients",
    label={"name": "relapse", "classes": ["no", "yes"]},
    columns=[
        {"kind": "categorical", "name": "arm", "levels": ["control", "treated"]},
        {"kind": "numeric", "name": "age", "low": 18, "high": 100},
        {"kind": "categorical", "name": "stage", "levels": ["I", "II", "III"]},
    ],
)
found = tc.describe(schema, patients, tc.Privacy(1.0), by="arm", nodes=4, seed=0)
for column, what in [("age", "mean"), ("age", "quantile 0.5"), ("stage", "I"), ("relapse", "yes")]:
    cells = dict(zip(found.groups, found.row(column, what).cells, strict=False))
    arms = [cells[arm] for arm in ("control", "treated")]
    told = (f"{cell.value:.4g} ({cell.low:.4g} to {cell.high:.4g})" for cell in arms)
    print(f"{column} {what}".ljust(18), *(text.ljust(24) for text in told))
print("the whole table: found.markdown, found.save('table.html')")

# %%
# The arms differ in age, which the intervals show in spite of the noise.

figure, axes = plt.subplots(layout="constrained")
for place, (group, cell) in enumerate(
    zip(found.groups, found.row("age", "mean").cells, strict=False)
):
    if group in ("control", "treated"):
        low, high = cell.value - cell.low, cell.high - cell.value
        axes.errorbar(cell.value, place, xerr=[[low], [high]], fmt="o", capsize=4)
axes.set(
    yticks=[0, 1],
    yticklabels=["control", "treated"],
    ylim=(-0.6, 1.6),
    xlabel="mean age, with 95 % interval for noise and sampling",
)
plt.show()
