"""Bad input: each case gets one sentence that names the field and helps, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from support import TUNED, graph_for, privacy_for, problem, shards, uneven
from tacenda.content import content_hash
from tacenda.errors import InputError, PrivacyError, StateError, TacendaError

A = tc.algorithms
RING = tc.graph.ring(6)
GOOD = TUNED["ipadmm"]


def data(**settings: Any) -> Any:
    return tc.Problem(shards(uneven(6), 4), **settings)


def spoiled(change: Any) -> Any:
    parts = shards(uneven(6), 4)
    change(parts)
    return tc.Problem(parts)


def set_x(value: float) -> Any:
    def change(parts: list[Any]) -> None:
        parts[3][0][1, 2] = value

    return change


def replaced(x: Any, y: Any) -> Any:
    return lambda parts: parts.__setitem__(3, (x, y))


def run(
    algorithm: Any = GOOD, problem_: Any = None, graph: Any = RING, rounds: Any = 3, **more: Any
) -> Any:
    return tc.simulate(
        problem(6) if problem_ is None else problem_, graph, algorithm, rounds, **more
    )


TWO = nx.Graph([(0, 1), (2, 3), (4, 5)])
LOOP = nx.Graph([*RING.edges.tolist(), (2, 2)])
SQUARED = {"task": "regression", "loss": "squared"}

# what is done, and the words that its sentence must hold
CASES: dict[str, tuple[Any, tuple[str, ...]]] = {
    # data
    "NaN in X": (lambda: spoiled(set_x(np.nan)), ("Node 3", "column 2", "NaN")),
    "infinite X": (lambda: spoiled(set_x(np.inf)), ("Node 3", "column 2", "infinity")),
    "row above data_norm": (
        lambda: spoiled(set_x(9.0)),
        ("Node 3", "data_norm", "on_large_rows='scale'"),
    ),
    "empty node": (lambda: spoiled(replaced(np.zeros((0, 4)), [])), ("Node 3", "no records")),
    "one label too few": (
        lambda: spoiled(replaced(np.zeros((3, 4)), ["no", "yes"])),
        ("Node 3", "3 rows", "2 labels"),
    ),
    "one feature too few": (
        lambda: spoiled(replaced(np.zeros((2, 3)), ["no", "yes"])),
        ("Node 3", "3 features", "4"),
    ),
    "flat X": (lambda: spoiled(replaced(np.zeros(4), ["no"])), ("Node 3", "two axes", "reshape")),
    "text in X": (
        lambda: spoiled(replaced(np.array([["a"] * 4]), ["no"])),
        ("Node 3", "real numbers", "encode"),
    ),
    "no pair": (
        lambda: spoiled(lambda parts: parts.__setitem__(3, np.zeros((3, 4)))),
        ("Node 3", "pair", "(X, y)"),
    ),
    "no shards": (lambda: tc.Problem([]), ("shards", "at least one node")),
    "shards as a number": (lambda: tc.Problem(5), ("shards", "list of pairs", "int")),
    "three classes for logistic": (
        lambda: spoiled(replaced(np.zeros((1, 4)), ["maybe"])),
        ("exactly two", "3", "multinomial"),
    ),
    "one class": (
        lambda: tc.Problem([(np.zeros((2, 2)), [1, 1])]),
        ("exactly two", "1", "classes"),
    ),
    "label outside classes": (
        lambda: tc.Problem(shards([3, 3], 4), classes=("a", "b")),
        ("declared classes",),
    ),
    "NaN label": (
        lambda: tc.Problem([(np.zeros((2, 2)), [1.0, np.nan])], loss="squared"),
        ("Node 0", "NaN"),
    ),
    "text label for regression": (
        lambda: tc.Problem(shards([3, 3], 4), loss="huber"),
        ("Node 0", "real numbers"),
    ),
    "unknown loss": (lambda: data(loss="logitsic"), ("loss", "Did you mean 'logistic'?")),
    "unknown regulariser": (lambda: data(regulariser="l3"), ("regulariser", "'l3'")),
    "negative strength": (lambda: data(strength=-1.0), ("strength", "at least 0", "-1.0")),
    "zero loss_scale": (lambda: data(loss_scale=0), ("loss_scale", "above 0")),
    "zero data_norm": (lambda: data(data_norm=0), ("data_norm", "above 0")),
    "NaN clip_norm": (lambda: data(clip_norm=np.nan), ("clip_norm", "above 0")),
    "wrong public_sizes": (lambda: data(public_sizes=[1, 2]), ("public_sizes", "one per node (6")),
    # graph
    "wrong number of nodes": (
        lambda: run(graph=tc.graph.ring(5)),
        ("graph", "5 nodes", "6 shards"),
    ),
    "disconnected graph": (lambda: run(graph=TWO), ("connected", "3 components")),
    "directed graph": (
        lambda: run(graph=nx.DiGraph(RING.to_networkx())),
        ("undirected", "to_undirected"),
    ),
    "self-loop": (lambda: run(graph=LOOP), ("self-loop", "2")),
    "no graph": (lambda: run(graph="ring"), ("graph", "networkx.Graph")),
    "other node labels": (
        lambda: run(problem_=tc.Problem(dict(zip("abcdef", shards(uneven(6), 4), strict=True)))),
        ("labels", "graph's order"),
    ),
    # algorithm
    "zero penalty": (lambda: A.IPADMM(penalty=0), ("IPADMM.penalty", "above 0", "0")),
    "negative penalty": (lambda: A.ADMM(penalty=-1.0), ("ADMM.penalty", "-1.0")),
    "NaN proximal": (lambda: A.CDPADMM(proximal=float("nan")), ("CDPADMM.proximal", "nan")),
    "text penalty": (lambda: A.DVP(penalty="big"), ("DVP.penalty", "number", "'big'")),
    "a plain function as schedule": (
        lambda: A.DVP(penalty=lambda t: t),
        ("DVP.penalty", "schedule", "file"),
    ),
    "half an inner step": (
        lambda: A.IPADMM(inner_steps=1.5),
        ("IPADMM.inner_steps", "whole number", "1.5"),
    ),
    "no inner step": (lambda: A.IPADMM(inner_steps=0), ("IPADMM.inner_steps", "at least 1")),
    "zero batch": (lambda: A.DPDDA(batch_size=0), ("DPDDA.batch_size", "at least 1")),
    "growing variance": (lambda: A.CDPADMM(variance_decay=1.5), ("variance_decay", "at most 1")),
    "unknown noise": (lambda: A.PVP(noise="gausian"), ("PVP.noise", "Did you mean 'gaussian'?")),
    "unknown weights": (
        lambda: A.DPDDA(weights="linaer"),
        ("DPDDA.weights", "Did you mean 'linear'?"),
    ),
    "unknown algorithm": (lambda: run("ipamdm"), ("algorithm", "Did you mean 'ipadmm'?")),
    "algorithm as a class": (lambda: run(A.IPADMM), ("algorithm", "object of tacenda.algorithms")),
    "falling penalty of M-ADMM": (
        lambda: run(A.MADMM(penalty=tc.schedules.listed([2.0, 1.0]))),
        ("MADMM.penalty", "decrease"),
    ),
    "no gap of the local solver": (
        lambda: run(A.ADMM(), solver_tolerance=0.0),
        ("solver_tolerance must be", "above 0"),
    ),
    "dual step above the penalty": (
        lambda: run(A.MADMM(penalty=0.5, dual_step=1.0)),
        ("MADMM.dual_step", "0.5", "diverges"),
    ),
    "star method on a ring": (lambda: run(A.DPADMM()), ("DP-ADMM", "joined to all others", "ring")),
    "batch above the smallest node": (
        lambda: run(A.IPADMM(batch_size=1000), privacy=tc.Privacy.from_noise(noise_multiplier=1)),
        ("batch_size", "1000", "smallest"),
    ),
    "batch above the smallest node, without noise": (
        lambda: run(A.IPADMM(batch_size=1000)),
        ("batch_size", "1000", "smallest"),
    ),
    # what does not go together
    "hinge with an exact solver": (
        lambda: run(A.ADMM(), problem(6, loss="hinge")),
        ("ADMM", "'hinge'", "smooth"),
    ),
    "l1 with an exact solver": (
        lambda: run(A.ADMM(), problem(6, regulariser="l1")),
        ("ADMM", "'l1'", "prox"),
    ),
    "smoothed hinge with DVP": (
        lambda: run(A.DVP(), problem(6, loss="smoothed-hinge"), privacy=tc.Privacy(1.0)),
        ("DVP", "twice differentiable", "smoothed-hinge"),
    ),
    "squared loss, private": (
        lambda: run(problem_=problem(6, **SQUARED), privacy=tc.Privacy(1.0)),
        ("squared", "huber", "clip_norm"),
    ),
    "squared loss in a private argmin": (
        lambda: run(A.PVP(), problem(6, clip_norm=1.0, **SQUARED), privacy=tc.Privacy(1.0)),
        ("PVP", "squared", "huber"),
    ),
    "no strong convexity for DP-DDA": (
        lambda: run(A.DPDDA(), problem(6, strength=0.0)),
        ("strongly convex", "l2"),
    ),
    "budget for a non-private method": (
        lambda: run(A.ADMM(), privacy=tc.Privacy(1.0)),
        ("ADMM", "no noise", "IPADMM", "PVP"),
    ),
    # budgets
    "zero epsilon": (lambda: tc.Privacy(0.0), ("epsilon", "above 0")),
    "negative epsilon": (lambda: tc.Privacy(-1), ("epsilon", "-1")),
    "no epsilon": (lambda: tc.Privacy(None), ("epsilon", "privacy=None")),
    "text epsilon": (lambda: tc.Privacy("1"), ("epsilon", "'1'")),
    "NaN epsilon": (lambda: tc.Privacy(float("nan")), ("epsilon", "nan")),
    "delta of 1": (lambda: tc.Privacy(1.0, delta=1.0), ("delta", "below 1")),
    "negative delta": (lambda: tc.Privacy(1.0, delta=-0.1), ("delta", "-0.1")),
    "delta of 0 with Gaussian noise": (
        lambda: run(privacy=tc.Privacy(1.0, delta=0.0)),
        ("delta", "0"),
    ),
    "unknown adjacency": (
        lambda: tc.Privacy(1.0, adjacency="replace-on"),
        ("adjacency", "Did you mean 'replace-one'?"),
    ),
    "unknown mode": (lambda: tc.Privacy(1.0, mode="sund"), ("mode", "Did you mean 'sound'?")),
    "epsilons for other nodes": (
        lambda: run(privacy=tc.Privacy([1.0, 2.0])),
        ("epsilon", "one per node (6)", "2"),
    ),
    "a zero among the epsilons": (lambda: tc.Privacy([1.0, 0.0]), ("epsilon", "above 0")),
    "shares for other rounds": (
        lambda: run(privacy=tc.Privacy(1.0, spread=[1, 1])),
        ("spread", "one share per round (3)", "2"),
    ),
    "negative share": (
        lambda: run(privacy=tc.Privacy(1.0, spread=[1, -1, 1])),
        ("spread", "above 0"),
    ),
    "add-remove without declared sizes": (
        lambda: run(privacy=tc.Privacy(1.0, adjacency="add-remove")),
        ("public_sizes", "add-remove"),
    ),
    "privacy as a number": (lambda: run(privacy=1.0), ("privacy", "tacenda.Privacy", "1.0")),
    "both noises": (
        lambda: tc.Privacy.from_noise(noise_multiplier=1, round_epsilon=1),
        ("exactly one",),
    ),
    "zero noise": (
        lambda: tc.Privacy.from_noise(noise_multiplier=0),
        ("noise_multiplier", "above 0"),
    ),
    "Gaussian noise for pure rounds": (
        lambda: run(A.DVP(), privacy=tc.Privacy.from_noise(noise_multiplier=1)),
        ("noise_multiplier", "round_epsilon"),
    ),
    "pure rounds for Gaussian noise": (
        lambda: run(privacy=tc.Privacy.from_noise(round_epsilon=1)),
        ("round_epsilon", "noise_multiplier"),
    ),
    "own spread and a given one": (
        lambda: run(A.CDPADMM(), privacy=tc.Privacy(1.0, spread=[1, 2, 3])),
        ("CDP-ADMM", "spread"),
    ),
    # the run
    "zero rounds": (lambda: run(rounds=0), ("rounds", "at least 1")),
    "half a round": (lambda: run(rounds=2.5), ("rounds", "whole number", "2.5")),
    "text rounds": (lambda: run(rounds="many"), ("rounds", "whole number", "'many'")),
    "negative seed": (lambda: run(seed=-1), ("seed", "at least 0")),
    "text seed": (lambda: run(seed="x"), ("seed", "whole number")),
    "wrong init": (lambda: run(init=[1.0, 2.0]), ("init", "length 4", "(2,)")),
    "NaN init": (lambda: run(init=[1.0, 2.0, np.nan, 0]), ("init", "finite")),
    "unknown output": (lambda: run(output="lst"), ("output", "Did you mean 'last'?")),
    "negative mixing rounds": (lambda: run(finish_mixing=-1), ("finish_mixing", "at least 0")),
    "too many blocks": (lambda: run(blocks=7), ("blocks", "between 1", "7")),
    "a node in two blocks": (
        lambda: run(blocks=[[0, 1, 2], [2, 3, 4, 5]]),
        ("blocks", "exactly once"),
    ),
    "text blocks": (lambda: run(blocks="all"), ("blocks", "'all'")),
    "unknown metric": (
        lambda: run(metrics=("objectve",)),
        ("metrics", "Did you mean 'objective'?"),
    ),
    "accuracy of a regression": (
        lambda: run(problem_=problem(6, **SQUARED), metrics=("accuracy",)),
        ("accuracy", "squared", "'loss'"),
    ),
    "distance without reference": (lambda: run(metrics=("distance",)), ("reference", "distance")),
    "test metric without test data": (lambda: run(metrics=("test_accuracy",)), ("test", "(X, y)")),
    "wrong reference": (lambda: run(reference=[1.0]), ("reference", "4")),
    "unknown test labels": (
        lambda: run(metrics=("test_loss",), test=(np.zeros((1, 4)), ["perhaps"])),
        ("test labels", "classes"),
    ),
    "test data of another width": (
        lambda: run(metrics=("test_loss",), test=(np.zeros((1, 3)), ["no"])),
        ("test", "4", "3"),
    ),
    "unknown mixing": (lambda: run(mixing="metropolitan"), ("mixing", "metropolis")),
    "zero tolerance": (lambda: run(solver_tolerance=0), ("solver_tolerance", "above 0")),
    "negative record_every": (lambda: run(record_every=-1), ("record_every", "at least 0")),
    "progress of no kind": (lambda: run(progress=3), ("progress", "'auto'")),
    "no result there": (lambda: tc.load("nowhere.safetensors"), ("nowhere.safetensors", "save")),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_that_helps(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    act, words = CASES[case]
    with pytest.raises(TacendaError) as caught:
        act()
    assert isinstance(caught.value, (InputError, StateError, PrivacyError))
    sentence = str(caught.value)
    for word in words:
        assert word in sentence, sentence
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))
    assert list(tmp_path.iterdir()) == []


CHECKED = {
    "rounds": 0,
    "metrics": ("nothing",),
    "reference": [1.0],
    "privacy": 1.0,
    "record_every": -1,
    "progress": "never",
    "blocks": 9,
}


@pytest.mark.parametrize("field", CHECKED)
def test_nothing_is_written_when_a_checkpointed_run_is_refused(tmp_path: Path, field: str) -> None:
    settings = {"rounds": 3, "checkpoint": tmp_path / "run.ckpt", field: CHECKED[field]}
    with pytest.raises(InputError):
        tc.simulate(problem(6), RING, GOOD, **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_diverging_run_says_so() -> None:
    """No NaN is ever sent: the message names the remedy."""
    steep = tc.Problem(
        shards(uneven(6), 4, task="regression"), loss="squared", strength=0.0, loss_scale=100.0
    )
    with pytest.raises(InputError, match=r"diverges.*larger proximal"), np.errstate(all="ignore"):
        tc.simulate(steep, RING, A.DDPADMM(penalty=1e-3, proximal=1e-3), 5000, record_every=0)


def test_results_are_saved_and_read_back(tmp_path: Path) -> None:
    result = run(privacy=privacy_for("ipadmm"), seed=1)
    again = tc.load(result.save(tmp_path / "result.safetensors"))
    assert np.array_equal(again.models, result.models)
    assert np.array_equal(again.last, result.last)
    assert again.history.rows == result.history.rows
    assert again.privacy.to_plain() == result.privacy.to_plain()
    assert content_hash(again.settings) == content_hash(result.settings)


def test_worst_noise_is_that_of_the_smallest_node() -> None:
    """node_noise='worst': every node's noise_std is what the smallest one needs;
    'own' follows the sizes."""
    sizes = np.array([5, 10, 20, 40, 80, 160])
    # Zero rows: what is released is noise alone
    parts = [(np.zeros((m, 200)), np.resize(["no", "yes"], m)) for m in sizes]
    spread = {}
    for kind in ("own", "worst"):
        budget = tc.Privacy(epsilon=1.0, node_noise=kind)
        result = tc.simulate(
            tc.Problem(parts, classes=("no", "yes")),
            RING,
            A.DDPADMM(),
            1,
            budget,
            0,
            record_every=0,
        )
        spread[kind] = result.models.std(axis=1)
        assert result.privacy.epsilon <= 1.0 + 1e-9
    assert np.allclose(spread["own"] * sizes, spread["own"][0] * 5, rtol=0.25)
    assert np.allclose(spread["worst"], spread["own"][0], rtol=0.25)


def test_every_algorithm_runs_by_name() -> None:
    for name in TUNED:
        if name == "radmm":
            with pytest.warns(UserWarning, match="recycle_proximal"):
                assert run(name, graph=graph_for(name)).settings["algorithm"]["name"] == name
        else:
            assert run(name, graph=graph_for(name)).settings["algorithm"]["name"] == name


def test_a_label_set_read_off_private_labels_is_warned_of_once_and_only_by_private_runs() -> None:
    from tacenda.errors import DeclarationWarning

    parts, budget = shards(uneven(6), 4), tc.Privacy(epsilon=1.0)
    undeclared = tc.Problem(parts)
    # Without noise there is no promise to weaken
    tc.simulate(undeclared, RING, GOOD, 2, None, 0, record_every=0)
    with pytest.warns(
        DeclarationWarning, match=r"classes is not declared.*Problem\(\.\.\., classes="
    ) as seen:
        runs = [
            tc.simulate(undeclared, RING, GOOD, 2, budget, seed, record_every=0) for seed in (0, 1)
        ]
    assert len(seen) == 1 and seen[0].filename == __file__
    # It tells nothing about the labels
    assert "yes" not in str(seen[0].message).partition("Problem(")[0]
    declared = tc.simulate(
        tc.Problem(parts, classes=("no", "yes")), RING, GOOD, 2, budget, 0, record_every=0
    )
    assert np.array_equal(declared.models, runs[0].models)
    targets = tc.Problem(shards(uneven(6), 4, task="regression"), loss="huber")
    tc.simulate(targets, RING, GOOD, 2, budget, 0, record_every=0)  # numbers have no label set
