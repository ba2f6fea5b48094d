"""What more would give, how much data a target needs, who must not collude, and the picture."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tacenda as tc
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.planning.needed import _search
from tacenda.planning.picture import draw
from tacenda.planning.what_if import Change, advice, denser_graph, of_same_kind

GRAPH = tc.graph.random_regular(12, 4, seed=0)


def test_what_if_asks_one_thing_at_a_time() -> None:
    plan = tc.plan(200, 10, GRAPH, 1.0)
    lines = {c.name.split(" (")[0]: c for c in plan.what_if()}
    assert lines["as planned"].factor == 1.0
    assert lines["twice the budget"].factor < 1 < lines["half the budget"].factor
    assert lines["twice the budget"].plan.epsilon == 2.0
    assert lines["twice the records at each member"].plan.facts.sizes.tolist() == [400.0] * 12
    more = lines["twice the members, each with as many records"].plan
    assert (more.facts.n, more.facts.sizes.sum(), more.topology.degrees.tolist()) == (
        24,
        4800,
        [4] * 24,
    )
    assert (
        lines["the same records over twice the members"].plan.facts.sizes.sum()
        == plan.facts.sizes.sum()
    )
    assert lines["a denser graph"].plan.topology.degrees.tolist() == [8] * 12
    for line in lines.values():
        fresh = tc.plan(line.plan.facts.sizes, 10, line.plan.topology, line.plan.epsilon)
        assert line.excess_risk == fresh.forecast.excess_risk
        assert json.loads(json.dumps(line.to_plain()))["rounds"] == fresh.rounds


def test_what_if_keeps_the_wish() -> None:
    """Independent noise, a fixed number of rounds and budgets of its own
    for each node stay what they were."""
    plan = tc.plan(100, 5, tc.graph.ring(5), [1.0, 1.0, 2.0, 1.0, 1.0], coalition=None, rounds=30)
    assert all(c.plan.rounds == 30 and c.plan.coalition is None for c in plan.what_if())
    assert plan.what_if()[1].plan.epsilon == (2.0, 2.0, 4.0, 2.0, 2.0)


def test_what_if_with_trials_compares_predictions() -> None:
    lines = tc.plan(100, 4, tc.graph.complete(4), 1.0, rounds=20).what_if(trials=1)
    assert all(c.prediction is not None for c in lines)
    assert lines[1].factor == pytest.approx(lines[1].excess_risk / lines[0].excess_risk)
    assert not any("denser" in c.name for c in lines)


def test_graphs_of_the_same_kind_and_denser_ones() -> None:
    assert of_same_kind(Topology.of(tc.graph.ring(5)), 10).name == "ring(10)"
    assert of_same_kind(Topology.of(tc.graph.star(5)), 10).degrees.max() == 9
    assert of_same_kind(Topology.of(tc.graph.torus(4, 4)), 32).degrees.tolist() == [4] * 32
    assert denser_graph(Topology.of(tc.graph.complete(5))) is None
    complete = denser_graph(Topology.of(tc.graph.ring(5)))
    assert complete is not None and complete.degrees.tolist() == [4] * 5


def test_advice_is_one_sentence_about_the_largest_gain() -> None:
    changes = tc.plan(200, 10, GRAPH, 1.0).what_if()
    best = min(changes, key=lambda c: c.factor)
    sentence = advice(changes)
    assert sentence.lower().startswith(best.name.split(" (")[0])
    assert sentence.endswith(".") and "\n" not in sentence
    assert "None of these" in advice(changes[:1])


def test_the_best_change_is_named_wherever_it_stands() -> None:
    plan = tc.plan(200, 10, GRAPH, 1.0)
    names = ("As planned", "Twice", "Half", "a denser graph (4 neighbours)", "More")
    for best in range(1, 5):
        factors = [1.0, *(0.3 if k == best else 0.95 for k in range(1, 5))]
        found = [Change(n, plan, f) for n, f in zip(names, factors, strict=True)]
        said = advice(found)
        assert said.lower().startswith(f"{names[best]} would help most: 0.3 times".lower())
        assert ("a denser graph would hardly help" in said) == (best != 3)


def test_records_needed_is_the_least_number() -> None:
    found = tc.records_needed(10, GRAPH, 1.0, target_excess=0.01, trials=0)

    def risk(m: float) -> float:
        return tc.plan(round(m), 10, GRAPH, 1.0).forecast.excess_risk

    assert risk(found.per_node) <= 0.01 < risk(found.per_node / 1.12)
    assert found.total == 12 * found.per_node and str(found.per_node) in found.explain()


def test_records_needed_by_trials() -> None:
    graph = tc.graph.complete(5)
    risk = tc.records_needed(4, graph, 1.0, target_excess=0.02, trials=2)
    assert risk.prediction is not None and risk.prediction.excess_risk.mean <= 0.02
    score = tc.records_needed(4, graph, 1.0, target_accuracy=0.7, trials=2)
    assert score.prediction is not None and score.prediction.accuracy is not None
    assert score.prediction.accuracy.mean >= 0.7
    assert score.to_plain()["total"] == score.total
    with pytest.raises(InputError, match="cannot be met"):
        tc.records_needed(4, graph, 1.0, target_accuracy=0.999)
    with pytest.raises(InputError, match="exactly one"):
        tc.records_needed(4, graph, 1.0)


@pytest.mark.parametrize("least", [2, 3, 57, 100, 101, 4321])
def test_search_finds_the_threshold(least: int) -> None:
    asked: list[int] = []

    def enough(m: int) -> bool:
        asked.append(m)
        return m >= least

    found = _search(enough, 100, "it")
    assert least <= found <= max(least + 1, 1.11 * least)
    assert len(asked) == len(set(asked)) <= 20
    with pytest.raises(InputError, match="is not met"):
        _search(lambda m: False, 100, "it")


def test_time_and_privacy_by_hand() -> None:
    plan = tc.plan(200, 10, GRAPH, 1.0, 1e-5, regulariser="elastic-net")
    exchanges = plan.rounds * plan.algorithm.mixings + plan.method.finish_mixing
    assert plan.exchanges == exchanges and plan.messages == 12 * 4 * exchanges
    assert plan.seconds(0.1, 1000.0) == pytest.approx(exchanges * (0.1 + 8 * 10 * 4 / 1000))
    assert plan.mu == pytest.approx(0.26805, abs=1e-5)
    curve = dict(plan.privacy_curve())
    assert curve[1e-5] == pytest.approx(1.0, abs=1e-6)
    assert list(curve.values()) == sorted(curve.values())


def test_adversaries_match_the_covariance_by_brute_force() -> None:
    """Node i against Q:
    Delta^2 T times the i-th diagonal entry of the inverse covariance of what Q cannot compute."""
    graph = tc.graph.random_regular(8, 4, seed=1)
    plan = tc.plan([100.0] * 4 + [150.0] * 4, 6, graph, 1.0, regulariser="elastic-net")
    assert plan.coalition == 1
    c, topology = plan.algorithm.correlation, plan.topology
    moved = plan.facts.gradient_sensitivity()
    adjacency = topology.adjacency().toarray()

    def worst(members: tuple[int, ...]) -> float:
        kept = [i for i in range(8) if i not in members]
        rest = adjacency[np.ix_(kept, kept)]
        inverse = np.linalg.inv(np.eye(len(kept)) + c * c * (np.diag(rest.sum(axis=1)) - rest))
        return float(np.max(moved[kept] * np.sqrt(np.diag(inverse))))

    of_size = [max(worst(q) for q in combinations(range(8), k)) for k in range(4)]
    neighbours = max(worst(tuple(np.flatnonzero(adjacency[i]))) for i in range(8))
    found = plan.adversaries()
    expected = [
        0.26805 * value / of_size[1]
        for value in (*of_size, neighbours, max(worst(q) for q in combinations(range(8), 7)))
    ]
    assert [a.mu for a in found] == pytest.approx(expected, rel=1e-4)
    assert [a.promised for a in found] == [True, True, False, False, False, False]
    assert found[1].epsilon == pytest.approx(1.0, abs=1e-3)
    assert all(a.exact for a in found)


def test_adversaries_of_masked_values_by_components() -> None:
    """Node i against Q: hidden among its component of the graph without Q, by brute force."""
    import networkx as nx

    graph = nx.barbell_graph(4, 1)
    plan = tc.plan([100.0] * 4 + [150.0] * 5, 6, graph, 1.0, coalition=0)
    assert plan.algorithm.traits.masks
    moved = plan.facts.gradient_sensitivity()

    def worst(members: tuple[int, ...]) -> float:
        rest = graph.subgraph(set(graph) - set(members))
        parts = [(part, len(part)) for part in nx.connected_components(rest)]
        return max(moved[i] / np.sqrt(size) for part, size in parts for i in part)

    of_size = [max(worst(q) for q in combinations(range(9), k)) for k in range(4)]
    found = plan.adversaries()
    expected = [0.26805 * value / of_size[0] for value in of_size]
    assert [a.mu for a in found[:4]] == pytest.approx(expected, rel=1e-4)
    assert [a.mu for a in found[4:]] == pytest.approx(
        [0.26805 * moved.max() / of_size[0]] * 2, rel=1e-4
    )
    assert [a.promised for a in found] == [True] + [False] * 5


def test_time_on_a_tree_by_hand() -> None:
    """A path of 3: depth 1, the middle sends up to nobody and down to two."""
    plan = tc.plan(200, 10, tc.graph.path(3), 1.0)
    assert plan.sums == 22 and plan.messages == 22 * 2 * 2
    assert plan.bytes == 8 * 4 * (10 * 21 + 66)
    assert plan.exchanges == 2 * 22
    rows = 8 * (10 * 21 + 66) * 3 / 1000
    assert plan.seconds(0.1, 1000.0) == pytest.approx(44 * 0.1 + 2 * rows)


def test_independent_noise_fears_no_coalition() -> None:
    found = tc.plan(100, 5, GRAPH, 1.0, coalition=None).adversaries()
    assert {round(a.epsilon, 6) for a in found} == {1.0}
    assert all(a.promised for a in found)


def test_large_slow_graphs_are_seen_through_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact leverage is not even asked for on a ring of 700; on a well-mixing graph it is."""
    from tacenda.planning import candidates

    asked: list[int] = []

    def leverage(topology: Topology, coalition: int) -> None:
        asked.append(topology.n)

    monkeypatch.setattr(candidates, "shared_noise", leverage)
    options = {"regulariser": "elastic-net"}
    assert tc.plan(50, 20, tc.graph.ring(700), 1.0, **options).coalition is None
    assert asked == []
    graph = tc.graph.random_regular(700, 6, seed=0)
    assert tc.plan(50, 20, graph, 1.0).coalition == 1  # masked: components are quickly told
    assert asked == []
    tc.plan(50, 20, graph, 1.0, **options)
    assert asked == [700]


@pytest.mark.parametrize("graph", ["ring", "complete", "random_regular"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_a_quick_look_refuses_nothing_that_a_long_one_plans(
    graph: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of graphs of any size the plan is the same with it and without."""
    from tacenda.planning import candidates

    make = getattr(tc.graph, graph)
    found = []
    for n in (12, 30):
        topology = make(n, 4, seed=1) if graph == "random_regular" else make(n)
        for least in (0, 10**9):
            monkeypatch.setattr(candidates, "QUICK_LOOK", least)
            plan = tc.plan(80, 6, topology, epsilon, regulariser="elastic-net", max_rounds=400)
            found.append((plan.method, plan.coalition, plan.forecast.excess_risk))
    assert found[0] == found[1] and found[2] == found[3]


@pytest.mark.parametrize("ending", ["svg", "html"])
def test_the_picture_names_every_change(tmp_path: Path, ending: str) -> None:
    plan = tc.plan(200, 10, GRAPH, 1.0)
    text = draw(plan, plan.what_if(), tmp_path / f"plan.{ending}").read_text(encoding="utf-8")
    assert len(text) > 5000 and list(tmp_path.iterdir()) == [tmp_path / f"plan.{ending}"]
    if ending == "html":
        assert "twice the budget" in text
        for axis in ("forecast objective above the noise-free optimum", "delta", "epsilon"):
            assert f'"text":"{axis}"' in text
    with pytest.raises(InputError, match="plot must end"):
        draw(plan, plan.what_if(), tmp_path / "plan.txt")


def test_the_command_tells_all(tmp_path: Path) -> None:
    from tacenda.cli.app import app

    shape = [
        "plan",
        "--graph",
        "random-regular:12,4",
        "--records",
        "100",
        "--features",
        "5",
        "--epsilon",
        "2",
    ]
    wish = [
        *shape,
        "--trials",
        "1",
        "--target-excess",
        "0.05",
        "--plot",
        str(tmp_path / "plan.svg"),
    ]
    said = CliRunner().invoke(app, wish)
    assert said.exit_code == 0, said.output
    expected = (
        "Why:",
        "Predicted excess risk",
        "What more would give",
        "would help most",
        "Who must not collude",
        "records at each of 12",
    )
    assert [words for words in expected if words not in said.output] == []
    assert (tmp_path / "plan.svg").is_file()
    found = json.loads(CliRunner().invoke(app, [*shape, "--trials", "0", "--json"]).stdout)
    assert found["prediction"] is None and found["needed"] is None
    assert len(found["what_if"]) == 7 and len(found["adversaries"]) == 6 and found["advice"]
    kind = ["--records", "60", "--features", "30", "--public", "breast_cancer", "--trials", "1"]
    public = CliRunner().invoke(app, ["plan", "--nodes", "4", *kind])
    assert public.exit_code == 0, public.output
    assert "569 public ones" in public.output


def _people(folder: Path, rows: int) -> tuple[Path, Path]:
    from tacenda.data.draft import draft_schema

    table, schema = folder / "people.csv", folder / "people.toml"
    rng = np.random.default_rng(0)
    age, red = rng.integers(20, 90, rows), rng.integers(0, 2, rows)
    ill = age + 10 * red + rng.normal(0, 8, rows) > 60
    lines = [
        f"{a},{'red' if r else 'green'},{'yes' if i else 'no'}"
        for a, r, i in zip(age, red, ill, strict=True)
    ]
    table.write_text("\n".join(["age,colour,ill", *lines]) + "\n")
    schema.write_text(
        draft_schema(table, label="ill").to_toml().replace("confirmed = false", "confirmed = true")
    )
    return table, schema


def test_a_public_file_tunes_and_predicts_like_a_named_set(tmp_path: Path) -> None:
    from tacenda.cli.app import app
    from tacenda.data.encoding import encode
    from tacenda.data.schema import Schema

    table, schema = _people(tmp_path, 80)
    shape = ["plan", "--nodes", "4", "--records", "60", "--epsilon", "2", "--trials", "1", "--json"]
    answer = CliRunner().invoke(app, [*shape, "--public", str(table), "--schema", str(schema)])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    data = encode(Schema.read(schema), table)
    again = tc.plan(60, data.n_features, tc.graph.complete(4), 2.0, public=(data.X, data.y))
    assert (
        found["public_records"] == 80
        and found["longer"] == again.longer
        and found["rounds"] == again.rounds
    )
    assert "80 public ones" in found["prediction"]["assumptions"][0]
    config = tmp_path / "run.toml"
    config.write_text(
        f'[data]\nfile = "{table}"\nschema = "{schema}"\n[network]\nnodes = 4\n'
        "[privacy]\nepsilon = 2.0\n"
    )
    own_schema = CliRunner().invoke(
        app, ["plan", str(config), "--public", str(table), "--trials", "1", "--json"]
    )
    assert own_schema.exit_code == 0, own_schema.output
    assert json.loads(own_schema.stdout)["public_records"] == 80
    for wrong, words in (
        (["--public", str(table)], "schema"),
        (["--public", "wine", "--schema", str(schema)], "named data set"),
        (["--public", str(table), "--schema", str(schema), "--features", "7"], "--features"),
    ):
        refused = CliRunner().invoke(app, [*shape[:-1], *wrong])
        assert refused.exit_code == 2 and words in refused.stderr, refused.output


def test_a_plan_takes_its_facts_from_a_schema_and_its_counts_from_the_file(tmp_path: Path) -> None:
    from tacenda.cli.app import app
    from tacenda.data.schema import Schema

    def plan(*more: str, code: int = 0) -> Any:
        words = ["plan", "--epsilon", "2", "--trials", "0", "--json", *more]
        answer = CliRunner().invoke(app, words)
        assert answer.exit_code == code, answer.output
        return json.loads(answer.stdout) if code == 0 else answer.stderr

    table, schema = _people(tmp_path, 80)
    file, described = ("--data", str(table)), ("--schema", str(schema))
    counted = plan(*file, *described, "--nodes", "4")
    declared = plan(*described, "--nodes", "4", "--records", "20")
    read = Schema.read(schema)
    norm, width = f"problem.row_scale={read.row_scale!r}", str(len(read.feature_names))
    same = plan("--nodes", "4", "--records", "20", "--features", width, "--set", norm)
    for key in ("algorithm", "rounds", "forecast", "mu", "bytes"):
        assert counted[key] == declared[key] == same[key], key
    assert "counted in people.csv" in counted["notes"][0] and "public" in counted["notes"][0]
    table.write_text("only,a,header,that,fits,nothing\n")
    assert "lacks the schema's columns" in plan(*file, *described, "--nodes", "4", code=2)
    assert "--features" in plan(*described, "--features", "3", code=2)


def test_least_leverage_is_a_lower_bound() -> None:
    from tacenda.graph.coalition import leverage
    from tacenda.planning.mixing import least_leverage

    for graph in (tc.graph.ring(50), tc.graph.random_regular(30, 4, seed=0), tc.graph.path(20)):
        topology = Topology.of(graph)
        exact = float(leverage(topology, 10.0, 0)[0].max())
        assert 0.5 * exact < least_leverage(topology, 10.0) <= exact * (1 + 1e-9)


def test_a_plan_names_those_who_can_cut_its_graph_and_the_edges_that_would_mend_it() -> None:
    """On a ring any two members leave the ones between them alone."""
    said = tc.plan(3000, 20, tc.graph.ring(12), 1.0, 1e-5, coalition=2).explain()
    assert "together cut off" in said
    assert "these edges would fix it: 0-" in said
    assert (
        "cut off" not in tc.plan(3000, 20, tc.graph.complete(12), 1.0, 1e-5, coalition=2).explain()
    )
