"""
A regression with its whole path
================================

Least squares releases the second moment of the records once and then takes a few Newton steps.
Every other strength of the regulariser follows from what was released, at no further cost.
"""

# %%
# Ten features, of which three matter.

import matplotlib.pyplot as plt
import numpy as np

import tacenda as tc

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(8000, 10))
truth = np.array([3.0, -2.0, 1.0] + [0.0] * 7)
y = X @ truth + rng.normal(size=8000)

model = tc.PrivateLasso(
    epsilon=2.0, bounds=(-1, 1), target_bounds=(-10, 10), n_nodes=10, random_state=0
)
model.fit(X, y)
print(model.privacy_)

# %%
# The path: from strong regularisation, where only the largest coefficients stay, to weak.

strengths = np.geomspace(1e-4, 0.1, 40)
coefficients = model.path(strengths).coef
figure, axes = plt.subplots(layout="constrained")
for k in range(10):
    axes.semilogx(
        strengths,
        coefficients[:, k],
        color=f"C{k}" if k < 3 else "0.6",
        linewidth=2 if k < 3 else 1,
    )
    if k < 3:
        axes.axhline(truth[k], color=f"C{k}", linestyle=":", linewidth=1)
axes.set(
    title="One fit, every strength", xlabel="strength of the l1 regulariser", ylabel="coefficient"
)
plt.show()
