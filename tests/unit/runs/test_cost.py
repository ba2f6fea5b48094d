"""The public half of a run: shapes are the true ones,
and what a dry run says is what a run then costs."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from tacenda.algorithms import TreeGD, Whitened, Whitening
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.errors import InputError
from tacenda.formats.text import toml
from tacenda.runs import read
from tacenda.runs.choice import resolved
from tacenda.runs.cost import cost, public_run
from tacenda.runs.objects import graph_of, regular_degree
from tacenda.runs.private_run import private_run
from tacenda.runs.sections import RunConfig
from tacenda.runs.shape import public_shape
from tacenda.runtime.simulate import simulate

SMALL = {"name": "classification", "options": {"n": 90, "features": 4}}


@pytest.mark.parametrize(
    "name",
    ["breast_cancer", "digits", "wine", "iris", "diabetes", "classification", "sparse-regression"],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_declared_shapes_are_the_true_ones(name: str, intercept: bool) -> None:
    config = read.build(
        {
            "data": {"name": name, "intercept": intercept},
            "network": {"nodes": 5, "partition": "even"},
            "problem": {"data_norm": 100.0 if name == "sparse-regression" else None},
        }
    )
    shape, private = public_shape(config), private_run(config)
    assert shape.sizes.tolist() == private.problem.sizes.tolist()
    assert shape.features == private.problem.n_features
    assert shape.classes == (0 if private.dataset.classes is None else len(private.dataset.classes))
    assert shape.norm == private.dataset.norm
    assert shape.row_scale == pytest.approx(private.dataset.row_scale)


@pytest.mark.parametrize(
    "network",
    [
        {"nodes": 6, "sizes": "power"},
        {"nodes": 6, "sizes": "lognormal", "partition_seed": 3},
        {"sizes": [10, 20, 60]},
        {"graph": "grid", "rows": 2, "columns": 3},
        {"graph": "hypercube", "dimension": 3},
        {"graph": "erdos-renyi:7,0.7,seed=1"},
        {"nodes": 5, "partition": "feature-shift"},
        {"graph": "small-world", "nodes": 8, "degree": 4, "probability": 0.2},
    ],
)
def test_sizes_and_graphs_follow_the_declaration(network: dict) -> None:
    config = read.build({"data": SMALL, "network": network})
    private = private_run(config)
    assert public_shape(config).sizes.tolist() == private.problem.sizes.tolist()
    assert private.graph.n == private.problem.n_nodes


@pytest.mark.filterwarnings("ignore::tacenda.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::tacenda.runtime.simulate.GraphWarning")
@pytest.mark.parametrize(
    ("name", "prepare"),
    [*((name, "none") for name in ALGORITHMS), ("treegd", "whitening"), ("pvp", "whitening")],
)
def test_a_dry_run_says_what_the_run_then_costs(name: str, prepare: str) -> None:
    squares = ALGORITHMS[name].needs.squared_loss
    values = {
        "prepare": {"name": prepare},
        "data": {"name": "diabetes"} if squares else SMALL,
        "network": {"graph": "star", "nodes": 6},
        "algorithm": {"name": name},
        "problem": {"strength": 0.01, **({"loss": "squared", "clip_norm": 0.5} if squares else {})},
        "privacy": {"epsilon": 3.0, "private": ALGORITHMS[name].private},
        "run": {"rounds": 4, "finish_mixing": 3},
    }
    config = read.build(values)
    public = public_run(config)
    said, choice, private = cost(public, public.choices[0]), public.choices[0], private_run(config)
    result = simulate(
        private.problem, private.graph, choice.method, None, public.privacy, 0, record_every=0
    )
    assert (said.messages, said.bytes) == (result.messages, result.bytes)
    if result.privacy is not None:
        assert said.statement is not None
        assert said.statement.epsilon == pytest.approx(result.privacy.epsilon, rel=1e-9)
        assert said.statement.epsilon <= 3.0 * (1 + 1e-9)
        assert len(said.statement.charges) == len(result.privacy.charges)


def test_what_prepares_the_records_is_kept_in_the_resolved_file() -> None:
    values = {
        "data": SMALL,
        "network": {"nodes": 6},
        "algorithm": {"name": "treegd", "step_size": 0.5},
        "prepare": {"name": "whitening", "share": 0.3},
        "run": {"rounds": 3},
    }
    config = read.build(values)
    found = public_run(config).choices
    wrapped = found[0].method.algorithm
    assert wrapped == Whitened(TreeGD(step_size=0.5), Whitening(share=0.3))
    assert (found[0].label, found[0].method.finish_mixing) == ("whitened-treegd", 0)
    full = resolved(config, found)
    again = read.build(tomllib.loads(toml(full.to_plain())))
    assert again == full
    assert public_run(again).choices[0].method.algorithm == wrapped
    listed = read.build({**values, "compare": [{"name": "treegd"}, {"name": "ipadmm"}]})
    chosen = public_run(listed).choices
    assert [choice.method.algorithm.name for choice in chosen] == ["whitened", "whitened"]
    assert [c.method.algorithm for c in public_run(resolved(listed, chosen)).choices] == [
        choice.method.algorithm for choice in chosen
    ]


def test_auto_decides_by_itself_how_records_are_prepared() -> None:
    config = read.build({"data": SMALL, "prepare": {"name": "whitening"}})
    with pytest.raises(InputError, match="prepare must be left out"):
        public_run(config)


def test_auto_is_planned_from_public_facts_and_resolves_to_itself() -> None:
    config = read.build({"data": SMALL, "network": {"nodes": 6}, "privacy": {"epsilon": 3.0}})
    public = public_run(config)
    assert public.choices[0].method.reasons
    full = resolved(config, public.choices)
    again = public_run(full).choices[0]
    assert again.method.algorithm == public.choices[0].method.algorithm
    assert full.run.rounds == again.method.rounds == public.choices[0].method.rounds
    assert resolved(full, public_run(full).choices) == full


def test_a_comparison_resolves_each_of_its_own() -> None:
    config = read.build(
        {
            "data": SMALL,
            "network": {"nodes": 6},
            "compare": [{"name": "auto"}, {"name": "ipadmm", "rounds": 3, "penalty": 0.2}],
        }
    )
    full = resolved(config, public_run(config).choices)
    assert [c.label for c in full.compare] == ["auto", "ipadmm"]
    assert full.compare[1].rounds == 3 and full.compare[1].hyperparameters["penalty"] == 0.2
    assert resolved(full, public_run(full).choices) == full


def test_splitting_keeps_every_record_once() -> None:
    config = read.build({"data": {**SMALL, "test_fraction": 0.2}, "network": {"nodes": 4}})
    private = private_run(config)
    assert private.test is not None
    both = np.concatenate([private.dataset.X, private.test[0]])
    whole = private_run(read.build({"data": SMALL, "network": {"nodes": 4}})).dataset.X
    assert len(private.test[1]) == 18
    assert np.array_equal(np.sort(both[:, 0]), np.sort(whole[:, 0]))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"data": {}}, "names no data"),
        ({"data": SMALL, "network": {"nodes": 91}}, "at most the number of records"),
        (
            {"data": SMALL, "network": {"graph": "ring", "degree": 3}},
            "network.degree does not belong",
        ),
        ({"data": SMALL, "network": {"graph": "rin"}}, "Did you mean 'ring'"),
        ({"data": SMALL, "network": {"graph": "ring:5", "sizes": [45, 45]}}, "has 5 nodes"),
        ({"data": SMALL, "problem": {"loss": "huber"}}, "does not fit the label"),
        ({"data": SMALL, "problem": {"loss_options": {"delta": 1.0}}}, "takes no options"),
        (
            {
                "data": SMALL,
                "network": {"graph": "complete", "nodes": 1},
                "privacy": {"adjacency": "add-remove"},
            },
            "public_size",
        ),
        (
            {"data": SMALL, "algorithm": {"name": "auto", "penalty": 1.0}},
            "chooses its own hyperparameters",
        ),
        (
            {"data": SMALL, "algorithm": {"name": "ipadmm", "penalti": 1.0}},
            "Did you mean 'penalty'",
        ),
        ({"data": SMALL, "algorithm": {"name": "admm"}}, "private algorithms are"),
        (
            {"data": SMALL, "algorithm": {"name": "dpadmm"}, "network": {"graph": "ring"}},
            "joined to all others",
        ),
        ({"data": SMALL, "compare": [{"name": "ipadmm"}, {"name": "ipadmm"}]}, "both called"),
        ({"data": {"name": "adlt"}}, "Did you mean 'adult'"),
    ],
)
def test_impossible_runs_are_refused_before_any_record(values: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        public_run(read.build(values))


def test_sparse_files_with_empty_rows(tmp_path) -> None:
    file = tmp_path / "d.svm"
    file.write_text(
        "".join(
            f"{'+1' if k % 2 else '-1'} {1 + k % 7}:0.5 300:2\n" if k % 5 else "-1\n"
            for k in range(100)
        )
    )
    config = read.build(
        {
            "data": {"file": str(file), "features": 300, "labels": ["-1", "+1"]},
            "network": {"nodes": 4},
        }
    )
    private, shape = private_run(config), public_shape(config)
    assert shape.sizes.tolist() == private.problem.sizes.tolist() == [25] * 4
    assert (shape.features, shape.classes, private.problem.n_features) == (301, 2, 301)
    with pytest.raises(InputError, match="features"):
        read.build({"data": {"file": str(file)}})


def test_graphs_carry_the_names_of_the_holders() -> None:
    network = read.build({"network": {"graph": "ring"}}).network
    assert list(graph_of(network, ("north", "south", "west")).labels) == ["north", "south", "west"]


@pytest.mark.parametrize("n", range(2, 12))
def test_a_regular_graph_of_the_default_degree_exists(n: int) -> None:
    degree = regular_degree(n)
    assert 0 < degree < n or n == 1
    assert n * degree % 2 == 0


def test_shared_noise_needs_a_stated_coalition() -> None:
    values = {
        "data": SMALL,
        "network": {"nodes": 6},
        "algorithm": {"name": "gossipgd"},
        "run": {"rounds": 3},
    }
    with pytest.raises(InputError, match=r"privacy\.coalition"):
        public_run(read.build({**values, "privacy": {"coalition": "all"}}))
    public = public_run(read.build({**values, "privacy": {"coalition": 2}}))
    statement = cost(public, public.choices[0]).statement
    assert statement is not None and statement.curve().coalition == 2
    planned = public_run(
        read.build({"data": SMALL, "network": {"nodes": 6}, "privacy": {"coalition": "all"}})
    )
    assert planned.choices[0].method.algorithm.traits.shared_noise is None


def test_noise_on_a_file_of_ones_own_is_fresh_unless_seeds_are_given() -> None:
    own = {"data": {"file": "mine.csv", "schema": "mine.toml"}}
    assert RunConfig.model_validate(own).run.fresh_noise is True
    assert RunConfig.model_validate({**own, "run": {"seeds": [3]}}).run.fresh_noise is False
    assert RunConfig.model_validate({"data": {"name": "adult"}}).run.fresh_noise is False
    # As a resumed run reads it
    again = RunConfig.model_validate(RunConfig.model_validate(own).to_plain())
    assert again.run.fresh_noise is True
