"""
An audit that attacks
=====================

A claim about privacy can be attacked: run the algorithm many times on two data sets that differ in
one record, and guess which one it was. Success of the guesses bounds epsilon from below.
"""

# %%
# The noise that a paper prints for dual variable perturbation claims epsilon 1; correct noise for
# the same epsilon is attacked in the same way.

import matplotlib.pyplot as plt

import tacenda as tc

printed = tc.audit("dvp", privacy=tc.Privacy.from_paper(alpha=1.0), rounds=1, trials=8000, seed=1)
print(printed.summary())
correct = tc.audit("cdpadmm", privacy=tc.Privacy(1.0, 1e-5), rounds=5, trials=4000, seed=1)
print(correct.summary())

# %%
# A lower bound above the claim disproves it. One below proves nothing: another attack may do
# better.

figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
for row, found in enumerate((printed, correct)):
    axes.plot([found.lower_bound, found.true_epsilon], [row, row], "-", color="0.6", zorder=0)
    axes.plot(found.lower_bound, row, "o", color="C1", label="attack: at least" if row else None)
    axes.plot(found.claimed[0], row, "|", markersize=24, color="C3", label="claim" if row else None)
    axes.plot(found.true_epsilon, row, "s", color="C0", label="accountant" if row else None)
axes.set_yticks([0, 1], ["as published", "correct"])
axes.set(title="Claims under attack", xlabel="epsilon", xlim=(0, 2.2), ylim=(-0.6, 1.6))
figure.legend(loc="outside right center")
plt.show()
