"""Every way in gives the model that scikit-learn and statsmodels give, in the original units.

Without privacy and without a regulariser, coefficients, probabilities and the log-likelihood agree
to 1e-5, with categories, an intercept and weights. With privacy they tend to the same as epsilon
grows, for every loss.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.regression.quantile_regression import QuantReg

import tacenda as tc
from cli_tools import tacenda
from node_stage import Crowd, small_contract
from tacenda.data.encoding import encode, encode_features
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda.estimators import (
    PrivateDiscreteHazard,
    PrivateLogisticRegression,
    PrivateOrdinalClassifier,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from tacenda.estimators.export import load_model
from tacenda.evaluation.declared_design import design_of
from tacenda.evaluation.of_runs import run_coefficients
from tacenda.planning.no_privacy import without_privacy
from tacenda.questions.facts import Facts
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.member_records import checked_schema, problem_of
from tacenda_node.peer.run_plan import facts_of
from tacenda_node.setup.drafting import with_schema

Floats = NDArray[Any]
N = 1200
CLOSE = 1e-5
LOW, HIGH = np.array([20.0, -3.0, 0, 0]), np.array([80.0, 5.0, 1, 1])
NAMES = ("age", "dose", "ward is 'b'", "ward is 'c'", "intercept")
BETA = np.array([0.02, -0.4, 0.8, -0.5])


@cache
def table() -> dict[str, Any]:
    """Records of four quantities, of which two are a category's contrasts, with a target for each
    loss and weights from 0 to 2."""
    rng = np.random.default_rng(11)
    ward = rng.integers(0, 3, N)
    X = np.column_stack([rng.uniform(20, 80, N), rng.uniform(-3, 5, N), ward == 1, ward == 2])
    score = X @ BETA - 0.6
    three = np.column_stack([score, 0.5 * score[::-1], np.zeros(N)]) + rng.gumbel(size=(N, 3))
    return {
        "X": X,
        "ward": np.array(["a", "b", "c"])[ward],
        "weights": rng.integers(0, 3, N).astype(float),
        "logistic": (rng.uniform(size=N) < expit(score)).astype(int),
        "multinomial": three.argmax(axis=1),
        "squared": np.clip(4 * score + rng.normal(size=N), -20, 20),
        "poisson": np.minimum(rng.poisson(np.exp(0.7 * score)), 60).astype(float),
        "negative-binomial": np.minimum(
            rng.poisson(np.exp(0.7 * score) * rng.gamma(2.0, 0.5, N)), 60
        ).astype(float),
        "ordinal": np.digitize(score + rng.logistic(size=N), [-0.7, 0.6, 1.6]),
        "time": rng.exponential(np.exp(-0.6 * score)) * 2,
    }


def likelihood(loss: str, scores: Floats, y: Floats) -> Floats:
    """Log-likelihood of each record, up to a constant."""
    if loss == "logistic":
        return np.asarray(log_expit(np.where(y == 1, scores, -scores)))
    if loss == "multinomial":
        return scores[np.arange(len(y)), y] - np.log(np.exp(scores).sum(axis=1))
    if loss == "squared":
        return -0.5 * (y - scores) ** 2
    if loss == "poisson":
        return y * scores - np.exp(scores)
    rate, a = np.exp(scores), 0.5
    return y * np.log(a * rate / (1 + a * rate)) - np.log1p(a * rate) / a


@cache
def reference(loss: str, weighted: bool) -> Floats:
    """(5,), or (2, 5) against the last class: coefficients and intercept by statsmodels."""
    own = table()
    X, w = sm.add_constant(own["X"], prepend=False), own["weights"] if weighted else np.ones(N)
    if loss == "multinomial":
        again = np.repeat(np.arange(N), w.astype(int))
        model = sm.MNLogit(2 - own[loss][again], X[again])  # the base is its class 0
        found = model.fit(disp=False, method="newton", tol=1e-14, maxiter=100).params.T
        return np.asarray(found[::-1])
    family = {
        "logistic": sm.families.Binomial(),
        "squared": sm.families.Gaussian(),
        "poisson": sm.families.Poisson(),
        "negative-binomial": sm.families.NegativeBinomial(alpha=0.5),
    }[loss]
    fitted = sm.GLM(own[loss], X, family=family, freq_weights=w).fit(tol=1e-14, maxiter=300)
    return np.asarray(fitted.params)


def estimator(loss: str, epsilon: float | None, **more: Any) -> Any:
    common = {"bounds": (LOW, HIGH), "strength": 0.0, "n_nodes": 4, **more}
    if epsilon is not None:
        common |= {"random_state": 0}
    kinds = {
        "logistic": lambda: PrivateLogisticRegression(epsilon, classes=(0, 1), **common),
        "multinomial": lambda: PrivateLogisticRegression(epsilon, classes=(0, 1, 2), **common),
        "squared": lambda: PrivateRidge(epsilon, target_bounds=(-20, 20), **common),
        "poisson": lambda: PrivatePoissonRegressor(epsilon, count_bound=60, **common),
        "negative-binomial": lambda: PrivatePoissonRegressor(
            epsilon, count_bound=60, dispersion=0.5, **common
        ),
    }
    return kinds[loss]()


def shown(coef: Any, intercept: Any) -> Floats:
    """Coefficients and intercepts; of several classes against the last."""
    both = np.column_stack([np.atleast_2d(coef), np.atleast_1d(intercept)])
    return both[0] if len(both) == 1 else both[:-1] - both[-1]


def same(found: Floats, wanted: Floats, loss: str, weighted: bool, close: float = CLOSE) -> None:
    own = table()
    X = sm.add_constant(own["X"], prepend=False)
    size = np.append(HIGH - LOW, 1.0)  # in units of the effect over the declared range
    np.testing.assert_allclose(found * size, wanted * size, rtol=close, atol=close)
    scores = [X @ np.atleast_2d(b).T for b in (found, wanted)]
    if loss == "multinomial":
        scores = [np.column_stack([s, np.zeros(N)]) for s in scores]
    else:
        scores = [s[:, 0] for s in scores]
    w = own["weights"] if weighted else np.ones(N)
    total = [float(w @ likelihood(loss, s, own[loss])) for s in scores]
    assert total[0] == pytest.approx(total[1], rel=close)
    if loss in ("logistic", "multinomial"):
        a, b = (expit(s) if s.ndim == 1 else np.exp(s) / np.exp(s).sum(1)[:, None] for s in scores)
        np.testing.assert_allclose(a, b, atol=close)


LOSSES = ("logistic", "multinomial", "squared", "poisson", "negative-binomial")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_estimators_with_bounds(loss: str, weighted: bool) -> None:
    own = table()
    model = estimator(loss, None, weight_bound=2.0)
    model.fit(own["X"], own[loss], sample_weight=own["weights"] if weighted else None)
    same(shown(model.coef_, model.intercept_), reference(loss, weighted), loss, weighted)
    if loss == "logistic":
        X = sm.add_constant(own["X"], prepend=False)
        chance = expit(X @ reference(loss, weighted))
        np.testing.assert_allclose(model.predict_proba(own["X"])[:, 1], chance, atol=CLOSE)


def schema_for(loss: str) -> Schema:
    label: dict[str, Any] = {"name": "y"}
    if loss in ("logistic", "multinomial"):
        label["classes"] = ["0", "1", "2"][: 2 if loss == "logistic" else 3]
    else:
        if loss == "squared":
            label |= {"low": -20, "high": 20, "scale_to": "symmetric"}
        else:
            label |= {"low": 0, "high": 60, "typical": TYPICAL}
    return Schema.build(
        columns=[
            {"kind": "numeric", "name": "age", "low": 20, "high": 80},
            {"kind": "numeric", "name": "dose", "low": -3, "high": 5, "scale_to": "symmetric"},
            {"kind": "categorical", "name": "ward", "levels": ["a", "b", "c"]},
        ],
        label=label,
        intercept=True,
    )


def columns(loss: str) -> dict[str, Any]:
    own = table()
    return {
        "age": own["X"][:, 0],
        "dose": own["X"][:, 1],
        "ward": own["ward"].astype(object),
        "y": own[loss].astype(str).astype(object) if own[loss].dtype == int else own[loss],
    }


# Counts are learnt in units of a typical one, in which a dispersion of 0.5 is 1
TYPICAL = 2.0
OPTIONS: dict[str, dict[str, float]] = {
    "poisson": {},
    "negative-binomial": {"dispersion": 0.5 * TYPICAL},
}


def in_order(rows: Any) -> Floats:
    """Coefficients of a table in the order of NAMES; of several classes against the last."""
    outputs = list(dict.fromkeys(sorted(row.output or "" for row in rows)))
    found = {(row.output or "", row.feature): row.coefficient for row in rows}
    both = np.array([[found[output, name] for name in NAMES] for output in outputs])
    return both[0] if len(both) == 1 else both[:-1] - both[-1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_problem_of_rows_that_a_schema_encodes(loss: str, weighted: bool) -> None:
    schema, own = schema_for(loss), table()
    data = encode(schema, columns(loss))
    shards = tc.data.partition.by_sizes(data.X, data.y, [N // 4] * 4)
    parts = tc.data.partition.by_sizes(data.X, own["weights"], [N // 4] * 4)
    bound = {"label_bound": 60 / TYPICAL} if loss in OPTIONS else {}  # schemas know it
    problem = tc.Problem(
        shards,
        loss=tc.losses.by_name(loss, **OPTIONS.get(loss, {}), **bound),
        strength=0.0,
        row_scale=data.row_scale,
        classes=None if data.classes is None else range(len(data.classes)),
        weights=[w for _, w in parts] if weighted else None,
        weight_bound=2.0,
    )
    method = without_privacy(Facts.of(problem))
    result = tc.simulate(problem, tc.graph.ring(4), method, progress=False)
    rows = run_coefficients(result, data.feature_names, schema, data.classes).rows
    same(in_order(rows), reference(loss, weighted), loss, weighted)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_file_a_schema_and_the_command_line(loss: str, tmp_path: Path) -> None:
    schema_for(loss).write(tmp_path / "s.toml")
    write_table(tmp_path / "t.csv", loss)
    config: dict[str, Any] = {
        "data": {"file": str(tmp_path / "t.csv"), "schema": str(tmp_path / "s.toml")},
        "network": {"nodes": 4},
        "problem": {"loss": loss, "loss_options": OPTIONS.get(loss, {}), "strength": 0.0},
        "privacy": {"private": False},
        "run": {"folder": str(tmp_path / "run")},
    }
    fitted = tc.fit(config, progress=False)
    same(in_order(fitted.coefficients().rows), reference(loss, False), loss, False)
    if loss == "logistic":
        out = tmp_path / "p.csv"
        told = tacenda("predict", tmp_path / "run", "--data", tmp_path / "t.csv", "--out", out)
        assert told.exit_code == 0, told.output
        with out.open(encoding="utf-8") as file:
            chances = [float(list(row.values())[-1]) for row in csv.DictReader(file)]
        X = sm.add_constant(table()["X"], prepend=False)
        np.testing.assert_allclose(chances, expit(X @ reference(loss, False)), atol=CLOSE)


def write_table(path: Path, loss: str, rows: slice = slice(None)) -> None:
    write_cells(path, columns(loss), rows)


def write_cells(path: Path, cells: dict[str, Any], rows: slice = slice(None)) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerows(zip(*(map(repr_of, cells[name][rows]) for name in cells), strict=True))


def repr_of(cell: Any) -> str:
    return cell if isinstance(cell, str) else repr(float(cell))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_contract_and_the_rows_of_its_members(loss: str, tmp_path: Path) -> None:
    """What members sum is the objective of the contract: its minimum is the same model."""
    schema = schema_for(loss)
    schema.write(tmp_path / "schema.toml")
    sizes = [300, 400, 500]
    terms = with_schema(
        {
            "problem": {
                "loss": loss,
                "strength": 1e-3,
                **({"loss_options": OPTIONS[loss]} if loss in OPTIONS else {}),
            }
        },
        schema,
    )
    contract = small_contract(3, **terms)
    assert checked_schema(contract, tmp_path / "schema.toml") == schema
    constants = facts_of(contract).constants
    assert (constants.data_norm, constants.strength) == (1.0, 1e-3)
    data = encode(schema, columns(loss), strict=True)
    shards = tc.data.partition.by_sizes(data.X, data.y, sizes)
    members = [problem_of(contract, m, *own) for m, own in zip(sizes, shards, strict=True)]
    for member in members:
        assert member.constants.strength * member.constants.regulariser.l2 == pytest.approx(
            constants.strong_convexity
        )
    # Without the regulariser, and each record counting once
    weights = np.array(sizes) / N

    def objective(w: Floats) -> float:
        parts = [
            m.objective(w) - m.strength * float(m.regulariser.value(w[None])[0]) for m in members
        ]
        return float(weights @ parts)

    wanted = reference(loss, False)
    d, outputs = len(data.feature_names), members[0].n_outputs
    design = design_of(schema, loss)

    def weights_of(values: Floats) -> Floats:
        """A model that shows these values, the one of least length."""
        both = np.atleast_2d(values)
        if outputs > 1:
            both = np.vstack([both, np.zeros(both.shape[1])])
        found = np.linalg.lstsq(design.matrix, both.T - design.offset[:, None], rcond=None)[0]
        return np.asarray(found.T.reshape(-1))

    best = weights_of(wanted)
    least = objective(best)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1):  # a minimum, up to rounding
        for _ in range(20):
            assert objective(best + size * rng.normal(size=outputs * d)) >= least - 1e-9
    if loss == "squared":
        return
    from_above = minimize(objective, np.zeros(outputs * d), method="L-BFGS-B").fun
    assert least <= from_above + 1e-9


@pytest.mark.parametrize("weighted", [False, True])
def test_ordinal_is_the_logistic_of_all_thresholds(weighted: bool) -> None:
    own = table()
    y, w = own["ordinal"], own["weights"] if weighted else np.ones(N)
    stacked = np.vstack([np.hstack([own["X"], np.tile(np.eye(3)[k], (N, 1))]) for k in range(3)])
    above = np.concatenate([(y > k).astype(float) for k in range(3)])
    family = sm.families.Binomial()
    fitted = sm.GLM(above, stacked, family=family, freq_weights=np.tile(w, 3)).fit(tol=1e-14)
    model = PrivateOrdinalClassifier(
        None, bounds=(LOW, HIGH), strength=0.0, classes=range(4), n_nodes=4, weight_bound=2.0
    ).fit(own["X"], y, sample_weight=w if weighted else None)
    np.testing.assert_allclose(model.coef_, fitted.params[:4], rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(-model.thresholds_, fitted.params[4:], rtol=CLOSE, atol=CLOSE)
    # A known limit: it is consistent for the proportional odds model, not its likelihood's maximum
    odds = OrderedModel(y, own["X"], distr="logit").fit(method="bfgs", disp=False, maxiter=500)
    if not weighted:
        assert np.abs(model.coef_ / odds.params[:4] - 1).max() < 0.15


@pytest.mark.parametrize("weighted", [False, True])
def test_hazard_is_the_logistic_of_person_periods(weighted: bool) -> None:
    own, periods = table(), (1.0, 2.0, 4.0)
    time = np.minimum(own["time"], 4.0)
    event = (own["time"] <= 4.0).astype(int)
    w = own["weights"] if weighted else np.ones(N)
    rows, answers, counts = [], [], []
    for i in range(N):
        for t, end in enumerate(periods):
            here = event[i] == 1 and time[i] <= end
            rows.append([*own["X"][i], *np.eye(3)[t]])
            answers.append(float(here))
            counts.append(w[i])
            if here or time[i] < end:
                break
    model = PrivateDiscreteHazard(
        periods, None, bounds=(LOW, HIGH), strength=0.0, n_nodes=4, weight_bound=2.0
    )
    model.fit(own["X"], np.column_stack([time, event]), sample_weight=w if weighted else None)
    glm = sm.GLM(answers, np.array(rows), family=sm.families.Binomial(), freq_weights=counts)
    params = glm.fit(tol=1e-14).params
    np.testing.assert_allclose(model.coef_, params[:4], rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(model.intercept_, params[4:], rtol=CLOSE, atol=CLOSE)


# ---- ordered classes and times: a record is several rows of one logistic loss
PERIODS = (1.0, 2.0, 4.0)
OF_SEVERAL_ROWS = ("ordinal", "discrete-hazard")


def several_schema(loss: str) -> Schema:
    """The declarations, with an ordered label or times until an event."""
    shared: dict[str, Any] = {"columns": list(schema_for("squared").columns), "intercept": True}
    if loss == "ordinal":
        label = {"name": "y", "classes": ["0", "1", "2", "3"], "ordered": True}
        return Schema.build(label=label, **shared)
    survival = {"time": "time", "event": "event", "happened": ["1"], "points": list(PERIODS)}
    return Schema.build(survival=survival, **shared)


def several_columns(loss: str) -> dict[str, Any]:
    own = table()
    cells = {name: columns("squared")[name] for name in ("age", "dose", "ward")}
    if loss == "ordinal":
        return {**cells, "y": own["ordinal"].astype(str).astype(object)}
    happened = (own["time"] <= PERIODS[-1]).astype(int).astype(str).astype(object)
    return {**cells, "time": np.minimum(own["time"], PERIODS[-1]), "event": happened}


@cache
def several_reference(loss: str) -> Floats:
    """(7,): coefficients, and the intercept of each threshold or period, by statsmodels."""
    own = table()
    rows, answers = [], []
    for x, level, time in zip(own["X"], own["ordinal"], own["time"], strict=True):
        for t in range(3):
            row = [*x, *np.eye(3)[t]]
            if loss == "ordinal":
                rows.append(row)
                answers.append(float(level > t))
            elif time > ([0.0, *PERIODS])[t]:  # at risk
                rows.append(row)
                answers.append(float(time <= PERIODS[t]))
    found = sm.GLM(answers, np.array(rows), family=sm.families.Binomial()).fit(tol=1e-14)
    return np.asarray(found.params)


def several_in_order(rows: Any) -> Floats:
    """Coefficients in the order of NAMES, then the intercepts in their own."""
    found = {row.feature: row.coefficient for row in rows if row.feature != "intercept"}
    own = [row.coefficient for row in rows if row.feature == "intercept"]
    return np.array([*(found[name] for name in NAMES[:-1]), *own])


def several_file(loss: str, tmp_path: Path, epsilon: float | None) -> Any:
    several_schema(loss).write(tmp_path / "s.toml")
    write_cells(tmp_path / "t.csv", several_columns(loss))
    config: dict[str, Any] = {
        "data": {"file": str(tmp_path / "t.csv"), "schema": str(tmp_path / "s.toml")},
        "network": {"nodes": 4},
        "problem": {"strength": 0.0 if epsilon is None else 1e-9},
        "privacy": {"private": False} if epsilon is None else {"epsilon": epsilon},
        "run": {"folder": str(tmp_path / "run"), "seeds": [0]},
    }
    return tc.fit(config, progress=False)


@pytest.mark.parametrize("loss", OF_SEVERAL_ROWS)
def test_several_rows_by_a_file_a_schema_and_the_command_line(loss: str, tmp_path: Path) -> None:
    found = several_in_order(several_file(loss, tmp_path, None).coefficients().rows)
    size = np.append(HIGH - LOW, np.ones(3))
    np.testing.assert_allclose(found * size, several_reference(loss) * size, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("loss", OF_SEVERAL_ROWS)
def test_several_rows_by_a_schema_at_a_large_epsilon(loss: str, tmp_path: Path) -> None:
    found = several_in_order(several_file(loss, tmp_path, 10_000.0).coefficients().rows)
    assert distance(found, several_reference(loss)) < 0.01


@pytest.mark.parametrize("loss", OF_SEVERAL_ROWS)
def test_several_rows_by_a_contract_and_the_rows_of_its_members(loss: str) -> None:
    """The sum of what members add is least at statsmodels' model."""
    schema, sizes = several_schema(loss), [300, 400, 500]
    contract = small_contract(3, **with_schema({"problem": {"loss": loss}}, schema))
    data = encode(schema, several_columns(loss), strict=True)
    shards = tc.data.partition.by_sizes(data.X, data.y, sizes)
    members = [problem_of(contract, m, *own) for m, own in zip(sizes, shards, strict=True)]
    weights = np.array(sizes) / N

    def objective(w: Floats) -> float:
        parts = [
            m.objective(w) - m.strength * float(m.regulariser.value(w[None])[0]) for m in members
        ]
        return float(weights @ parts)

    # In each threshold or period the score is that of a record in the encoded features
    wanted, X = several_reference(loss), table()["X"]
    rows = np.asarray(data.X)[:, :-1]
    c = float(np.asarray(data.X)[0, -1])
    parts = [X @ wanted[:4] + own for own in wanted[4:]]
    bare = np.linalg.lstsq(np.column_stack([rows, np.full(N, c)]), parts[0], rcond=None)[0]
    best = np.concatenate([bare[:-1], bare[-1] + (wanted[4:] - wanted[4]) / c])
    least, rng = objective(best), np.random.default_rng(0)
    for size in (1e-3, 0.1):
        for _ in range(20):
            assert objective(best + size * rng.normal(size=best.size)) >= least - 1e-9
    assert least <= minimize(objective, np.zeros(best.size), method="L-BFGS-B").fun + 1e-9


# ---- quantiles: no likelihood, so their own minimiser is found by Newton's method
LEVEL, WIDTH = 0.7, 0.05  # the width in units of half the label's range, 20
QUANTILE = {"level": LEVEL, "width": WIDTH}


@cache
def least_pinball(weighted: bool, width: float = WIDTH) -> Floats:
    """(5,) where the pinball loss with its kink spread evenly over 2h is least."""
    own, h = table(), width * 20
    X, y = sm.add_constant(own["X"], prepend=False), own["squared"]
    w = own["weights"] if weighted else np.ones(N)
    b = np.linalg.lstsq(X, y, rcond=None)[0]
    for _ in range(100):
        below = np.clip((X @ b - y + h) / (2 * h), 0.0, 1.0)
        bent = w * ((below > 0) & (below < 1)) / (2 * h)
        step = np.linalg.solve((X * bent[:, None]).T @ X, X.T @ (w * (below - LEVEL)))
        b = b - step
        if np.abs(step).max() < 1e-13:
            return np.asarray(b)
    raise AssertionError("Newton's method did not end")


def same_quantiles(found: Floats, weighted: bool) -> None:
    size = np.append(HIGH - LOW, 1.0)
    wanted = least_pinball(weighted)
    np.testing.assert_allclose(found * size, wanted * size, rtol=CLOSE, atol=20 * CLOSE)


def quantile_regressor(epsilon: float | None, width: float = WIDTH, **more: Any) -> Any:
    how: dict[str, Any] = {"quantile": LEVEL, "width": width, "target_bounds": (-20, 20), **more}
    return PrivateQuantileRegressor(epsilon, bounds=(LOW, HIGH), n_nodes=4, **how)


@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_by_the_estimator(weighted: bool) -> None:
    own = table()
    model = quantile_regressor(None, strength=0.0, weight_bound=2.0)
    model.fit(own["X"], own["squared"], sample_weight=own["weights"] if weighted else None)
    same_quantiles(np.append(model.coef_, model.intercept_), weighted)


@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_by_a_problem_of_rows_that_a_schema_encodes(weighted: bool) -> None:
    schema, own = schema_for("squared"), table()
    data = encode(schema, columns("squared"))
    shards = tc.data.partition.by_sizes(data.X, data.y, [N // 4] * 4)
    parts = tc.data.partition.by_sizes(data.X, own["weights"], [N // 4] * 4)
    problem = tc.Problem(
        shards,
        loss=tc.losses.by_name("smoothed-quantile", **QUANTILE),
        strength=0.0,
        row_scale=data.row_scale,
        weights=[w for _, w in parts] if weighted else None,
        weight_bound=2.0,
    )
    method = without_privacy(Facts.of(problem))
    result = tc.simulate(problem, tc.graph.ring(4), method, progress=False)
    rows = run_coefficients(result, data.feature_names, schema, data.classes).rows
    same_quantiles(in_order(rows), weighted)


def quantile_file(tmp_path: Path, epsilon: float | None) -> Any:
    """By a file, a schema and a configuration, with privacy or without."""
    schema_for("squared").write(tmp_path / "s.toml")
    write_table(tmp_path / "t.csv", "squared")
    problem = {"loss": "smoothed-quantile", "loss_options": QUANTILE}
    config: dict[str, Any] = {
        "data": {"file": str(tmp_path / "t.csv"), "schema": str(tmp_path / "s.toml")},
        "network": {"nodes": 4},
        "problem": {**problem, "strength": 0.0 if epsilon is None else 1e-9},
        "privacy": {"private": False} if epsilon is None else {"epsilon": epsilon},
        "run": {"folder": str(tmp_path / "run"), "seeds": [0]},
    }
    return tc.fit(config, progress=False)


def test_quantiles_by_a_file_a_schema_and_the_command_line(tmp_path: Path) -> None:
    fitted = quantile_file(tmp_path, None)
    same_quantiles(in_order(fitted.coefficients().rows), False)
    out = tmp_path / "p.csv"
    told = tacenda("predict", tmp_path / "run", "--data", tmp_path / "t.csv", "--out", out)
    assert told.exit_code == 0, told.output
    with out.open(encoding="utf-8") as file:
        said = [float(list(row.values())[-1]) for row in csv.DictReader(file)]
    X = sm.add_constant(table()["X"], prepend=False)
    np.testing.assert_allclose(said, X @ least_pinball(False), atol=40 * CLOSE)


def test_quantiles_by_a_contract_and_the_rows_of_its_members(tmp_path: Path) -> None:
    schema, sizes = schema_for("squared"), [300, 400, 500]
    terms = with_schema(
        {
            "problem": {
                "loss": "smoothed-quantile",
                "loss_options": QUANTILE,
                "strength": 1e-3,
                "clip_norm": 1.0,
            }
        },
        schema,
    )
    contract = small_contract(3, **terms)
    data = encode(schema, columns("squared"), strict=True)
    shards = tc.data.partition.by_sizes(data.X, data.y, sizes)
    members = [problem_of(contract, m, *own) for m, own in zip(sizes, shards, strict=True)]
    design = design_of(schema, "smoothed-quantile")
    best = np.linalg.lstsq(design.matrix, least_pinball(False) - design.offset, rcond=None)[0]
    weights = np.array(sizes) / N

    def objective(w: Floats) -> float:
        parts = [
            m.objective(w) - m.strength * float(m.regulariser.value(w[None])[0]) for m in members
        ]
        return float(weights @ parts)

    least, rng = objective(best), np.random.default_rng(0)
    for size in (1e-3, 0.1):
        for _ in range(20):
            assert objective(best + size * rng.normal(size=best.size)) >= least - 1e-9
    assert least <= minimize(objective, np.zeros(best.size), method="L-BFGS-B").fun + 1e-9


def test_quantiles_tend_to_the_exact_ones() -> None:
    own = table()
    X, y = sm.add_constant(own["X"], prepend=False), own["squared"]
    exact = QuantReg(y, X).fit(q=LEVEL, p_tol=1e-12, max_iter=20000).params
    size = np.append(HIGH - LOW, 1.0)
    gaps = [np.abs((least_pinball(False, h) - exact) * size).max() for h in (WIDTH, WIDTH / 5)]
    assert gaps[1] < gaps[0] < 0.4  # of targets from -20 to 20: the known limit of the smoothing


@pytest.mark.parametrize("loss", ["logistic", "squared", "ordinal"])
def test_cells_outside_the_bounds_are_clipped_in_prediction(loss: str, tmp_path: Path) -> None:
    """By one rule: an estimator, its exported folder and a schema."""
    own = table()
    if loss == "ordinal":
        model: Any = PrivateOrdinalClassifier(None, bounds=(LOW, HIGH), classes=range(4), n_nodes=2)
    else:
        model = estimator(loss, None)
    model.fit(own["X"], own[loss])
    far = own["X"] + 100.0 * np.sign(own["X"] - (LOW + HIGH) / 2)
    near = np.clip(far, LOW, HIGH)
    ask = "predict" if loss == "squared" else "predict_proba"
    wanted = getattr(model, ask)(near)
    assert np.ptp(wanted) > 0
    for one in (model, load_model(model.export(tmp_path / "m"))):
        np.testing.assert_array_equal(getattr(one, ask)(far), wanted)
    cells = {"age": far[:, 0], "dose": far[:, 1], "ward": own["ward"].astype(object)}
    inside = {**cells, "age": near[:, 0], "dose": near[:, 1]}
    schema = schema_for("logistic")
    np.testing.assert_array_equal(encode_features(schema, cells), encode_features(schema, inside))


# ---- data with a norm and no bounds, and rows that may be shortened
@pytest.mark.parametrize("how", [{"bounds": "norm"}, {"bounds": (LOW, HIGH), "data_norm": 1.0}])
def test_shortened_rows_are_shortened_in_every_prediction(how: Any, tmp_path: Path) -> None:
    """The model that is fitted is the one that is used."""
    own = table()
    X = own["X"] / 40 if how["bounds"] == "norm" else own["X"]
    model = PrivateLogisticRegression(None, classes=(0, 1), strength=0.0, n_nodes=4, **how)
    model.fit(X, own["logistic"])
    if how["bounds"] == "norm":
        short = X * np.minimum(1.0, 1.0 / np.linalg.norm(X, axis=1))[:, None]
    else:
        u = (X - (LOW + HIGH) / 2) / ((HIGH - LOW) / 2)
        short = u * np.minimum(1.0, 1.0 / np.linalg.norm(u, axis=1))[:, None]
    assert (np.abs(short).max(axis=0) > 0).all()
    Z = sm.add_constant(short, prepend=False)
    params = sm.GLM(own["logistic"], Z, family=sm.families.Binomial()).fit(tol=1e-14).params
    chance = expit(Z @ params)
    assert chance.mean() == pytest.approx(own["logistic"].mean(), abs=1e-9)
    loaded = load_model(model.export(tmp_path / "m"))
    for other in (model, loaded, model.to_sklearn()):
        np.testing.assert_allclose(other.predict_proba(X)[:, 1], chance, atol=CLOSE)
    assert "original" not in model.coef_table_.units
    with pytest.raises(InputError, match="never shortened"):
        model.intervals(X, own["logistic"], epsilon=1.0)
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a", "b", "c", "d"], *X.tolist()])
    told = tacenda(
        "predict", tmp_path / "m", "--data", tmp_path / "t.csv", "--out", tmp_path / "p.csv"
    )
    assert told.exit_code == 0, told.output
    with (tmp_path / "p.csv").open(encoding="utf-8") as file:
        said = [float(list(row.values())[-1]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(said, chance, atol=CLOSE)


def test_a_schema_with_a_smaller_norm_predicts_what_it_fitted() -> None:
    schema = schema_for("logistic").model_copy(update={"row_norm": 1.2})
    data = encode(schema, columns("logistic"))
    kept = np.delete(data.X, 2, axis=1)  # the levels add up to the constant
    fitted = sm.GLM(data.y, kept, family=sm.families.Binomial()).fit(tol=1e-12)
    problem = tc.Problem(
        tc.data.partition.by_sizes(data.X, data.y, [N // 4] * 4),
        strength=0.0,
        row_scale=data.row_scale,
        classes=(0, 1),
    )
    method = without_privacy(Facts.of(problem))
    result = tc.simulate(problem, tc.graph.ring(4), method, progress=False)
    rows = encode_features(schema, columns("logistic"))
    chance = expit(rows @ result.model)
    np.testing.assert_allclose(chance, fitted.fittedvalues, atol=CLOSE)
    found = run_coefficients(result, data.feature_names, schema, data.classes)
    assert "original" not in found.units
    assert any("row_norm (1.2) shortens" in note for note in found.notes)


# ---- with privacy
# Largest distance in units of the largest effect over the declared range, at these two epsilons:
# what is left is noise. Measured in brackets
LARGE = (1000.0, 10_000.0)
AT_A_LARGE_EPSILON = {
    "logistic": (0.01, 0.005),  # (0.0038, 0.0013)
    "multinomial": (0.015, 0.005),  # (0.0041, 0.0010)
    "squared": (0.005, 0.005),  # (0.0002, 0.0001)
    "poisson": (0.04, 0.01),  # (0.0096, 0.0066)
    "negative-binomial": (0.05, 0.015),  # (0.0149, 0.0091)
    "ordinal": (0.015, 0.005),  # (0.0051, 0.0017)
    "hazard": (0.015, 0.005),  # (0.0056, 0.0016)
    "quantile": (0.015, 0.01),  # (0.0078, 0.0053)
}


def distance(found: Floats, wanted: Floats) -> float:
    """Of coefficients, the last column an intercept, over the largest effect."""
    size = HIGH - LOW
    off = np.abs((found - wanted)[..., :4] * size).max()
    return float(off / np.abs(wanted[..., :4] * size).max())


def fitted_with_and_without(loss: str, epsilon: float) -> tuple[Floats, Floats]:
    """Coefficients with privacy, and those of the maximum likelihood or of the same loss."""
    own = table()
    if loss in LOSSES:
        more = {"typical_count": 2.0} if loss in OPTIONS else {}
        model = estimator(loss, epsilon, strength=1e-9, **more).fit(own["X"], own[loss])
        return shown(model.coef_, model.intercept_), reference(loss, False)
    kinds: dict[str, Any] = {
        "ordinal": lambda e, **m: PrivateOrdinalClassifier(e, classes=range(4), **m),
        "hazard": lambda e, **m: PrivateDiscreteHazard((1.0, 2.0, 4.0), e, **m),
        "quantile": lambda e, **m: PrivateQuantileRegressor(
            e, quantile=0.7, width=0.05, target_bounds=(-20, 20), **m
        ),
    }
    time = np.column_stack([np.minimum(own["time"], 4.0), own["time"] <= 4.0])
    y = {"ordinal": own["ordinal"], "hazard": time, "quantile": own["squared"]}[loss]
    common = {"bounds": (LOW, HIGH), "n_nodes": 4}
    private = kinds[loss](epsilon, strength=1e-9, random_state=0, **common).fit(own["X"], y)
    plain = kinds[loss](None, strength=0.0, **common).fit(own["X"], y)  # equal to statsmodels above
    return np.asarray(private.coef_), np.asarray(plain.coef_)


@pytest.mark.parametrize("loss", AT_A_LARGE_EPSILON)
def test_estimators_tend_to_the_same_at_a_large_epsilon(loss: str) -> None:
    for epsilon, close in zip(LARGE, AT_A_LARGE_EPSILON[loss], strict=True):
        assert distance(*fitted_with_and_without(loss, epsilon)) < close


@pytest.mark.parametrize("loss", LOSSES)
def test_a_schema_and_the_command_line_at_a_large_epsilon(loss: str, tmp_path: Path) -> None:
    schema_for(loss).write(tmp_path / "s.toml")
    write_table(tmp_path / "t.csv", loss)
    config: dict[str, Any] = {
        "data": {"file": str(tmp_path / "t.csv"), "schema": str(tmp_path / "s.toml")},
        "network": {"nodes": 4},
        "problem": {"loss": loss, "loss_options": OPTIONS.get(loss, {}), "strength": 1e-9},
        "privacy": {"epsilon": 10_000.0},
        "run": {"folder": str(tmp_path / "run"), "seeds": [0]},
    }
    if loss == "squared":
        config["problem"]["clip_norm"] = 2.0
    fitted = tc.fit(config, progress=False)
    found = in_order(fitted.coefficients().rows)
    assert distance(found, reference(loss, False)) < BY_A_SCHEMA[loss]


def test_quantiles_by_a_schema_at_a_large_epsilon(tmp_path: Path) -> None:
    found = in_order(quantile_file(tmp_path, 10_000.0).coefficients().rows)
    assert distance(found, least_pinball(False)) < 0.015


# At epsilon 10,000
BY_A_SCHEMA = {"logistic": 0.01, "multinomial": 0.01, "squared": 0.01, "poisson": 0.01}
BY_A_SCHEMA |= {"negative-binomial": 0.02}


@pytest.mark.slow
def test_members_tend_to_the_same_at_a_large_epsilon(tmp_path: Path) -> None:
    """A signed contract, three processes, real noise under masks."""
    schema, sizes = schema_for("multinomial"), [400] * 3  # members count alike
    terms = with_schema({"problem": {"loss": "multinomial", "strength": 1e-9}}, schema)
    made = small_contract(
        3,
        rounds=80,
        graph="complete",
        algorithm={"name": "treegd"},
        prepare={"name": "whitening"},
        privacy={"epsilon": 10_000.0, "delta": 1e-5, "coalition": 1},
        **terms,
    ).to_plain()
    ends = np.cumsum(sizes)
    data = {}
    for member, size, end in zip(made["members"], sizes, ends, strict=True):
        member["size"] = size
        path = data[member["name"]] = tmp_path / f"{member['name']}.csv"
        write_table(path, "multinomial", slice(end - size, end))
    crowd = Crowd(tmp_path, Contract.build(made), schema=schema, data=data)
    crowd.start()
    crowd.finish(300)
    for result in crowd.stage.results().values():
        rows = run_coefficients(result, schema.feature_names, schema, schema.label.classes).rows
        assert distance(in_order(rows), reference("multinomial", False)) < 0.01
