"""Most values in a corner of the declared range: told once, with consequence and remedy, to the
holder of the data alone."""

import warnings

import numpy as np
import pytest

from tacenda import data
from tacenda.data.spread import squeezed, used_share
from tacenda.data.table import Table

rng = np.random.default_rng(0)
N = 1000
INCOME = np.exp(rng.normal(10, 0.8, N))


def schema(**fields):
    column = {"kind": "numeric", "name": "income", "low": 0, "high": 5e6, **fields}
    return data.Schema.build(columns=[column], label={"name": "y", "classes": ["a", "b"]})


def table(values=INCOME):
    return {"income": values, "y": ["a", "b"] * (len(values) // 2)}


def test_the_warning_names_consequence_and_remedies():
    with pytest.warns(data.SqueezedColumnWarning) as caught:
        found = data.encode(schema(), table())
    text = str(caught[0].message)
    assert len(caught) == 1 and "90 % of the values of 'income'" in text
    assert (
        "[0, 5e+06]" in text and "hardly sees" in text and "'log1p'" in text and "high = " in text
    )
    assert "read from the data: it is for you alone" in text
    # Notes go into run folders; what was seen of the values must not.
    assert not any("income" in note for note in found.notes)


@pytest.mark.parametrize(
    "fields", [{"high": 2e5}, {"transform": "log1p"}, {"transform": "cyclic", "period": 1e6}]
)
def test_sensible_bounds_and_transforms_are_quiet(fields):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.encode(schema(**fields), table())


def test_nothing_is_said_on_a_real_node_or_of_few_records():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.encode(schema(), table(), strict=True)
        data.encode(schema(), table(INCOME[:150]))


def test_a_value_that_most_share_is_left_aside():
    mostly_zero = np.where(rng.random(N) < 0.7, 0.0, rng.uniform(0, 5e6, N))
    assert squeezed(schema(), Table.of(table(mostly_zero))) == []
    assert len(squeezed(schema(), Table.of(table(mostly_zero / 1000)))) == 1


def test_the_share_is_that_of_the_shortest_interval():
    # By hand: 90 of 100 values within 0.89 of an even grid, all shifts alike
    assert used_share(np.arange(1000) / 1000) == pytest.approx(0.899)
    crowded = np.concatenate([0.5 + 0.01 * rng.random(900), rng.random(100)])
    assert used_share(crowded) < 0.011


def test_many_columns_make_one_warning():
    columns = [{"kind": "numeric", "name": f"c{k}", "low": 0, "high": 1e9} for k in range(9)]
    wide = data.Schema.build(columns=columns, label={"name": "y", "classes": ["a", "b"]})
    cells = {f"c{k}": INCOME for k in range(9)}
    with pytest.warns(
        data.SqueezedColumnWarning, match="The same holds for 6 more columns"
    ) as caught:
        data.encode(wide, {**cells, "y": ["a", "b"] * (N // 2)})
    assert len(caught) == 1


def test_a_number_to_predict_is_looked_at_too():
    label = {"name": "pay", "low": 0, "high": 1e8, "scale_to": "symmetric"}
    s = data.Schema.build(
        columns=[{"kind": "numeric", "name": "x", "low": 0, "high": 1}], label=label
    )
    (sentence,) = squeezed(s, Table.of({"x": rng.random(N), "pay": INCOME}))
    assert "'pay'" in sentence and "lost in the noise" in sentence and "log1p" not in sentence


def test_a_column_of_a_few_values_is_not_squeezed() -> None:
    assert used_share(np.repeat([0.0, 1.0], [490, 510])) is None
    assert used_share(np.repeat([0.0, 0.01, 1.0], [10, 480, 510])) is None
