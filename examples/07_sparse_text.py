"""
Sparse data with many features
==============================

Texts as counts of words: thousands of features, few of them in each record. Sparse matrices stay
sparse from the file to the gradient.
"""

# %%
# 20,000 short texts of 2,000 words; some words speak for one of two topics.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import tacenda as tc

rng = np.random.default_rng(0)
texts, words, length = 20_000, 2_000, 12
popularity = 1 / np.arange(1, words + 1) ** 0.8
leaning = rng.normal(size=words)
y = rng.integers(0, 2, texts)
columns = np.empty((texts, length), int)
for label in (0, 1):
    chance = popularity * np.exp(leaning * (1 if label else -1))
    columns[y == label] = rng.choice(words, ((y == label).sum(), length), p=chance / chance.sum())
X = sp.csr_matrix(
    (np.ones(texts * length), columns.ravel(), np.arange(0, texts * length + 1, length)),
    shape=(texts, words),
)
X.sum_duplicates()
X = sp.csr_matrix(X.multiply(1 / np.sqrt(X.multiply(X).sum(axis=1))))  # rows of norm 1
print(X.shape, f"{X.nnz / texts:.1f} words in a text")

# %%
# ``bounds="norm"`` says that rows are already of norm 1 at most.

train, test = slice(0, 16_000), slice(16_000, None)
epsilons = [0.5, 1.0, 2.0, 4.0]
models = [
    tc.PrivateLogisticRegression(
        epsilon=epsilon, bounds="norm", classes=(0, 1), n_nodes=20, random_state=0
    ).fit(X[train], y[train])
    for epsilon in epsilons
]
scores = [model.score(X[test], y[test]) for model in models]
print({epsilon: round(score, 3) for epsilon, score in zip(epsilons, scores, strict=True)})

# %%
# Frequent words are learned well, rare ones drown in noise: each has too few records behind it.

model = models[-1]
figure, axes = plt.subplots(layout="constrained")
axes.scatter(leaning, model.coef_[0], c=np.log10(popularity), s=6)
axes.set(
    title="What was learned of each word",
    xlabel="true leaning of the word",
    ylabel="private coefficient",
)
figure.colorbar(axes.collections[0], label="log10 of the word's popularity")
plt.show()
