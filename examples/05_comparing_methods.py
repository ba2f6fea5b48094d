"""
Comparing methods at the same epsilon
==========================================

All methods get the same (epsilon, delta) of the whole run, composed from what they really release,
and settings that the planner chooses for each of them from the same public facts.
"""

# %%
# One call describes the data, the network, the budget and the methods; the same as a TOML file is
# what ``tacenda compare`` takes.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tacenda as tc

compared = tc.compare(
    {
        "data": {
            "name": "classification",
            "options": {"n": 4000, "features": 10, "difficulty": 0.2},
            "test_fraction": 0.25,
        },
        "network": {"graph": "random-regular:20,4,seed=0"},
        "privacy": {"epsilon": 1.0},
        "compare": [{"name": name} for name in ("auto", "gossipgd", "cdpadmm", "ipadmm", "dpdda")],
        "run": {"seeds": [0, 1, 2], "folder": str(Path(tempfile.mkdtemp()) / "run")},
    }
)

# %%
# The table holds the references too: without privacy, and what needs no data at all. Bars are means
# over three seeds, lines the range.

rows = [row for row in compared.table if row.get("test_accuracy") is not None]
for row in rows:
    print(f"{row['label']:24} {row['test_accuracy']:.3f}")
figure, axes = plt.subplots(figsize=(6.4, 0.4 * len(rows) + 1), layout="constrained")
for k, row in enumerate(reversed(rows)):
    axes.barh(k, row["test_accuracy"], color="C0" if row.get("epsilon") else "0.6")
    if "test_accuracy_range" in row:
        axes.plot(row["test_accuracy_range"], [k, k], color="C1", linewidth=3)
axes.set_yticks(range(len(rows)), [row["label"] for row in reversed(rows)])
axes.set(title="Methods at epsilon 1", xlabel="accuracy on test records", xlim=(0.4, 1))
plt.show()
