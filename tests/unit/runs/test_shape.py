"""What header and declarations show to be wrong is refused before any record is read."""

import numpy as np
import pytest

import tacenda as tc
from tacenda.data import readers
from tacenda.data.draft import Draft
from tacenda.data.quantiles import private_bounds
from tacenda.errors import InputError
from tacenda.runs.read import build
from tacenda.runs.shape import public_shape

SCHEMA = """
intercept = true
[label]
name = "ill"
classes = ["no", "yes"]
[[columns]]
kind = "numeric"
name = "age"
low = 0
high = 100
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = "".join(f"{rng.integers(100)},{'yes' if k % 3 else 'no'}\n" for k in range(300))
    (tmp_path / "t.csv").write_text("age,ill\n" + rows)
    for name, schema in (
        ("good", SCHEMA),
        ("column", SCHEMA.replace('"age"', '"years"')),
        ("label", SCHEMA.replace('"ill"', '"sick"')),
    ):
        (tmp_path / f"{name}.toml").write_text(schema)

    def unread(*_, **__):
        raise AssertionError("records were read")

    monkeypatch.setattr(readers, "iter_csv", unread)
    return tmp_path


def config(files, schema="good", **sections):
    data = {"file": str(files / "t.csv"), "schema": str(files / f"{schema}.toml")}
    return {"data": data, "network": {"nodes": 4}, **sections}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"schema": "column"}, r"t.csv lacks the schema's columns \['years'\]"),
        ({"schema": "label"}, r"t.csv lacks the schema's columns \['sick'\]"),
        ({"privacy": {"epsilon": -1.0}}, "epsilon must be a number above 0"),
        ({"privacy": {"delta": 2.0}}, "delta must be"),
        ({"privacy": {"adjacency": "add-remove"}}, "does not keep a promise"),
        ({"algorithm": {"name": "nonsense"}}, "algorithm must be one of"),
        ({"algorithm": {"name": "dpdda", "foo": 1}}, "hyperparameter of DPDDA must be one of"),
        ({"algorithm": {"name": "auto", "step": 1.0}}, "chooses its own hyperparameters"),
        ({"prepare": {"name": "whitening"}}, "prepare must be left out"),
        ({"problem": {"loss": "nonsense"}}, "loss must be one of"),
        ({"problem": {"loss": "squared"}}, "does not fit the label"),
        ({"problem": {"strength": -1.0}}, "strength must be"),
        ({"network": {"graph": "nonsense", "nodes": 4}}, "network.graph must be one of"),
        ({"network": {"partition": "column"}}, "needs a node_column"),
        ({"run": {"rounds": 0}}, "run.rounds: input should be greater than or equal to 1"),
        ({"run": {"folder": __file__}}, "is a file; choose another place"),
    ],
)
def test_of_a_run(files, wrong, words):
    with pytest.raises(InputError, match=words):
        tc.fit(config(files, **wrong), progress=False)


def test_what_is_right_goes_on_to_the_records(files):
    with pytest.raises(AssertionError, match="records were read"):
        tc.fit(config(files), progress=False)


def test_of_the_other_commands(files):
    table, schema = files / "t.csv", tc.data.Schema.read(files / "column.toml")
    with pytest.raises(InputError, match=r"lacks the schema's columns \['years'\]"):
        tc.data.encode(schema, table)
    with pytest.raises(InputError, match=r"lacks the schema's columns \['years'\]"):
        public_shape(build(config(files, "column")))
    for wrong in ({"label": "nope"}, {"drop": ["nope"]}, {"log": ["nope"]}, {"node": "nope"}):
        with pytest.raises(InputError, match="must be a column of t.csv, not 'nope'"):
            Draft.of(table, **wrong)
    book = {"ledger": files / "l.db", "dataset": "us", "delta": 1e-5, "columns": ["years"]}
    with pytest.raises(InputError, match="t.csv lacks the column 'years'"):
        private_bounds(schema, table, epsilon=1.0, **book)
    with pytest.raises(InputError, match="epsilon must be a number above 0"):
        private_bounds(schema, table, epsilon=-1.0, **book)
