"""`python -m benchmarks.bounds`: what bounds, levels and transforms cost or give, as a markdown
table. The records are made up: loans with heavy-tailed incomes, codes, an identifier and an hour.

Every row is encoded by another schema of the same file, and learnt without noise (scikit-learn) and
at (1, 1e-5) over 10 nodes by `PrivateLogisticRegression`, untuned; the area under the ROC curve of
4,000 records set aside, the mean of two seeds. Private bounds leave the model what they do not
spend.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import data

EPSILON, DELTA, NODES, SEEDS, TEST = 1.0, 1e-5, 10, 2, 4_000


def loans(count: int = 20_000, seed: int = 5) -> dict[str, Any]:
    """The records: whether a loan was paid back, and what was known before."""
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(10.3, 0.7, count))
    income[:20] *= 60
    debt = np.where(rng.random(count) < 0.6, 0, np.round(np.exp(rng.normal(7.5, 1.2, count))))
    age, hour = rng.integers(18, 90, count), rng.integers(0, 24, count)
    effects = {101: 1.2, 102: -1.3, 205: 0.9, 310: -0.8, 317: 1.4, 440: -1.1, 512: 0.2}
    branch = rng.choice(list(effects), count)
    region, children = rng.choice(["01", "02", "07", "11"], count), rng.poisson(1.1, count)
    score = 1.6 * (np.log(income) - 10.3) - 0.175 * np.log1p(debt) + 0.02 * (age - 50)
    score += np.vectorize(effects.get)(branch) + np.cos(2 * np.pi * (hour - 3) / 24)
    paid = rng.random(count) < 1 / (1 + np.exp(0.2 * children - score))
    return {
        "loan_id": 100_000 + np.arange(count),
        "income": np.where(rng.random(count) < 0.03, np.nan, np.round(income, 2)),
        "debt": debt,
        "age": age,
        "branch": branch,
        "hour": hour,
        "region": region.astype(object),
        "children": children,
        "paid": np.where(paid, "yes", "no").astype(object),
    }


def extremes(draft: data.Draft) -> data.Schema:
    """The draft with the bounds of all values, as drafts were before."""
    reach = {column.name: column.all_within for column in draft.columns}
    columns = []
    for column in draft.schema.columns:
        if isinstance(column, data.NumericColumn):
            low, high = reach[column.name] or (column.low, column.high)
            columns.append(column.model_copy(update={"low": low, "high": high}))
        else:
            columns.append(column)
    return draft.schema.model_copy(update={"columns": tuple(columns)})


def with_hour_and_gaps(schema: data.Schema) -> data.Schema:
    """The hour as a circle, and one more feature where the income is missing."""
    hour = data.NumericColumn(name="hour", low=0, high=24, transform="cyclic", period=24)
    columns = {column.name: column for column in schema.columns}
    columns["hour"] = hour
    columns["income"] = columns["income"].model_copy(update={"missing_indicator": True})
    return schema.model_copy(update={"columns": tuple(columns.values())})


def private(schema: data.Schema, table: dict[str, Any]) -> data.PrivateBounds:
    with tempfile.TemporaryDirectory() as folder:
        return data.private_bounds(
            schema,
            table,
            ledger=Path(folder) / "ledger",
            dataset="loans",
            epsilon=EPSILON,
            delta=DELTA,
        )


def areas(schema: data.Schema, table: dict[str, Any], epsilon: float) -> tuple[int, float, float]:
    """Features, and the areas under the ROC curve without noise and with it."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    from tacenda.estimators import PrivateLogisticRegression

    found = data.encode(schema, table)
    rows = found.X * schema.row_scale  # as encoded; the estimator divides by it again
    order = np.random.default_rng(0).permutation(found.n_records)
    test, train = order[:TEST], order[TEST:]
    X, y = rows[train], found.y[train]

    def area(model: Any) -> float:
        return float(roc_auc_score(found.y[test], model.decision_function(rows[test])))

    plain = area(LogisticRegression(C=1e3, fit_intercept=False, max_iter=500).fit(X, y))
    noisy = [
        area(
            PrivateLogisticRegression(
                epsilon=epsilon,
                delta=DELTA,
                n_nodes=NODES,
                bounds="norm",
                data_norm=schema.row_scale,
                fit_intercept=False,
                random_state=seed,
            ).fit(X, y)
        )
        for seed in range(SEEDS)
    ]
    return found.n_features, plain, float(np.mean(noisy))


def main() -> None:
    warnings.simplefilter("ignore")
    table = loans()

    def draft(**told: Any) -> data.Draft:
        return data.Draft.of(table, label="paid", **told)

    codes_as_numbers = draft(numeric=["branch", "region", "children", "loan_id"])
    log = draft(log=["income", "debt"], numeric=["children"]).schema
    bounded = private(draft().schema, table)
    both = private(with_hour_and_gaps(log), table)
    rows = [
        ("extremes as bounds, codes as numbers", extremes(codes_as_numbers), EPSILON),
        ("extremes as bounds, codes as levels", extremes(draft()), EPSILON),
        ("bounds of 99 % read from the data: the draft", draft().schema, EPSILON),
        ("private bounds", bounded.schema, bounded.epsilon_left),
        ("log1p of income and debt, bounds of 99 %", log, EPSILON),
        ("... and a cyclic hour, an indicator of gaps", with_hour_and_gaps(log), EPSILON),
        ("... with private bounds", both.schema, both.epsilon_left),
    ]
    print("| schema | features | no noise | epsilon 1 |\n| --- | ---: | ---: | ---: |")
    for name, schema, epsilon in rows:
        width, plain, noisy = areas(schema, table, epsilon)
        print(f"| {name} | {width} | {plain:.3f} | {noisy:.3f} |", flush=True)


if __name__ == "__main__":
    main()
