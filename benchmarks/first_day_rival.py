"""Run by `first_day_tables.py` in diffprivlib's own environment: fits every (epsilon, seed) that
the file asks for, and writes predictions beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression

file = Path(sys.argv[1])
with np.load(file) as given:
    X, test, y = given["X"], given["test"], given["y"]
    bounds, asked = tuple(given["target_bounds"].tolist()), given["asked"].tolist()
found = {}
for k, (epsilon, seed) in enumerate(asked):
    if bounds[0] < bounds[1]:
        # Rows are within norm 1, so every feature is within [-1, 1]
        model = LinearRegression(
            epsilon=epsilon, bounds_X=(-1, 1), bounds_y=bounds, random_state=int(seed)
        ).fit(X, np.clip(y, *bounds))
        found[f"predicted{k}"], found[f"scores{k}"] = model.predict(test), np.zeros(0)
    else:
        model = LogisticRegression(
            epsilon=epsilon, data_norm=1.0, max_iter=2000, random_state=int(seed)
        ).fit(X, y)
        chances = model.predict_proba(test)
        found[f"predicted{k}"] = model.predict(test)
        found[f"scores{k}"] = chances if chances.shape[1] > 2 else chances[:, 1]
np.savez(file.with_name("found.npz"), **found)
