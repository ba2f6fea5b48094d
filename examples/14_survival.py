"""
Survival curves and a hazard ratio
==================================

One released table of counts gives Kaplan-Meier curves by group, numbers at risk, medians and a
log-rank test. A second question gives a hazard ratio.
"""

# %%
# Relapse-free days of 8,000 patients in four hospitals. The time points are declared.

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc

rng = np.random.default_rng(0)
n = 8000
arm = rng.choice(["control", "treated"], n)
relapse = rng.exponential(np.where(arm == "treated", 1700, 1100))
censored = rng.uniform(300, 2500, n)
patients = {
    "arm": arm,
    "days": np.minimum(relapse, censored).round(),
    "event": np.where(relapse <= censored, "1", "0"),
}
schema = tc.data.Schema(
    name="trial",
    label={"name": "event", "classes": ["0", "1"]},
    columns=[{"kind": "categorical", "name": "arm", "levels": ["control", "treated"]}],
    survival={"time": "days", "event": "event", "points": list(range(200, 2001, 200))},
)
found = tc.survival(schema, patients, tc.Privacy(1.0), by="arm", nodes=4, seed=0)
print(found.log_rank)

# %%
# Bands cover privacy noise and sampling.

figure, axes = plt.subplots(layout="constrained")
for name in ("control", "treated"):
    curve = found.survival(name)
    axes.fill_between(found.points, curve.low, curve.high, alpha=0.25, linewidth=0)
    axes.plot(found.points, curve.value, "o-", label=name)
axes.set(xlabel="days", ylabel="without relapse", ylim=(0, 1))
axes.legend()
plt.show()

# %%
# The hazard ratio of the treatment. Without noise these records give 0.61 (0.58 to 0.65).

ratio = tc.hazard_ratios(schema, patients, tc.Privacy(4.0), columns=["arm"], nodes=4, seed=0)
for effect in ratio.effects:
    print(f"{effect.name}: {effect.ratio:.2f} ({effect.low:.2f} to {effect.high:.2f})")
