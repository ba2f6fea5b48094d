"""
Reading the privacy statement and the ledger
============================================

Every result says what it guarantees, composed from what was charged. A lasting ledger keeps count
over many runs and refuses the one that would exceed the budget.
"""

# %%
# One run, and what it promises.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc
from tacenda.privacy.lasting.ledger_store import LedgerStore

data = tc.data.make_classification(2000, 6, difficulty=0.2, seed=0)
problem = tc.Problem(
    tc.data.partition.even(data.X, data.y, 10, seed=0), strength=1e-2, classes=(0, 1)
)
file = Path(tempfile.mkdtemp()) / "ledger.db"
with LedgerStore(file) as ledger:
    ledger.set_budget("study", epsilon=2.0, delta=1e-5)


def run(seed):
    return tc.simulate(
        problem,
        tc.graph.ring(10),
        tc.algorithms.CDPADMM(),
        30,
        tc.Privacy(epsilon=0.7, delta=1e-5),
        seed,
        ledger=file,
        dataset="study",
        record_every=0,
    )


first = run(0)
print(first.privacy)

# %%
# One point of (epsilon, delta) is not all: the whole curve is the guarantee.

deltas = np.geomspace(1e-10, 1e-2, 60)
curve = first.privacy.curve()
figure, axes = plt.subplots(layout="constrained")
axes.semilogx(deltas, [curve.epsilon(delta) for delta in deltas])
axes.plot(1e-5, first.privacy.epsilon, "o", color="C1", label="stated")
axes.set(title="The privacy curve of one run", xlabel="delta", ylabel="epsilon")
axes.legend()
plt.show()

# %%
# Further runs on the same records add up, to less than the sum, until one is refused.

spent = []
for seed in range(1, 8):
    with LedgerStore(file) as ledger:
        spent.append(ledger.spent("study").curve.epsilon(1e-5))
    try:
        run(seed)
    except tc.errors.BudgetError as refused:
        print(refused)
        break

figure, axes = plt.subplots(layout="constrained")
axes.plot(range(1, len(spent) + 1), spent, "o-", label="spent")
axes.plot(range(1, len(spent) + 1), 0.7 * np.arange(1, len(spent) + 1), ":", label="plain sum")
axes.axhline(2.0, color="C3", label="budget")
axes.set(title="Many runs on the same records", xlabel="runs", ylabel="epsilon at delta 1e-5")
axes.legend()
plt.show()
