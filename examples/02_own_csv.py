"""
Your own CSV, with a schema
===========================

A file of your own needs a schema: what is public about its columns. The schema decides how cells
become numbers, so that nothing has to be read from anybody's record.
"""

# %%
# Six hospitals, one file; the column ``site`` says who holds a record.

import csv
import random
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tacenda as tc

folder = Path(tempfile.mkdtemp())
random.seed(0)
with (folder / "patients.csv").open("w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["age", "pressure", "smoker", "site", "ill"])
    for k in range(6000):
        age, pressure = random.uniform(20, 90), random.gauss(125, 15)
        smoker = random.choice(["yes", "no"])
        risk = 0.05 * (age - 55) + 0.04 * (pressure - 125) + (1.0 if smoker == "yes" else -1.0)
        ill = "yes" if random.gauss(risk, 1) > 0 else "no"
        rows.writerow([round(age), round(pressure), smoker, f"hospital {k % 6}", ill])

# %%
# The schema can be drafted from the file (``tacenda schema draft``) and then corrected; here it is
# written from public knowledge.

(folder / "patients.toml").write_text("""
name = "patients"
node_column = "site"
intercept = true

[label]
name = "ill"
classes = ["no", "yes"]

[[columns]]
kind = "numeric"
name = "age"
low = 0
high = 110
scale_to = "symmetric"

[[columns]]
kind = "numeric"
name = "pressure"
low = 70
high = 200
scale_to = "symmetric"

[[columns]]
kind = "categorical"
name = "smoker"
levels = ["no", "yes"]
""")

# %%
# One run over six nodes. A dict of the same sections as a TOML file describes it.

fitted = tc.fit(
    {
        "data": {
            "file": str(folder / "patients.csv"),
            "schema": str(folder / "patients.toml"),
            "test_fraction": 0.2,
        },
        "network": {"graph": "complete"},
        "privacy": {"epsilon": 1.0},
        "run": {"folder": str(folder / "run")},
    }
)
print(fitted.result.privacy)
print(sorted(path.name for path in fitted.path.iterdir()))

# %%
# The model has one coefficient for each encoded feature.

data = tc.data.encode(tc.data.Schema.read(folder / "patients.toml"), folder / "patients.csv")
figure, axes = plt.subplots(layout="constrained")
axes.barh(list(data.feature_names), fitted.result.model)
axes.axvline(0, color="0.5", linewidth=1)
axes.set(title="The model of six hospitals", xlabel="coefficient of the scaled feature")
plt.show()
