"""The test vectors of docs/protocol.md: the project writes them, and a second implementation, in
plain Python (`second_check`), reads them and checks a recorded run."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import protocol_vectors
import second_check as second
from evidence_stage import MASKED, finished
from tacenda.graph.groups import grouped
from tacenda.graph.topology import Topology
from tacenda_node.evidence import make

FOLDER = protocol_vectors.FOLDER


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def test_the_project_writes_the_vectors() -> None:
    """Unchanged: `python tests/protocol_vectors.py` writes them anew where the protocol changes."""
    for name, values in protocol_vectors.vectors().items():
        assert json.loads(json.dumps(values)) == read(name), name
    assert {path.name for path in FOLDER.glob("*.json")} == set(protocol_vectors.vectors())


def test_the_second_implementation_imports_nothing_of_the_project() -> None:
    tree = ast.parse(Path(second.__file__).read_text("utf-8"))
    found = {
        name.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            node.names if isinstance(node, ast.Import) else [ast.alias(node.module or "", None)]
        )
    }
    assert found - {"cryptography"} <= set(sys.stdlib_module_names)


def test_contract_and_signatures() -> None:
    v = read("contract.json")
    assert second.contract_hash(v["contract"]) == v["hash"]
    assert second.run_id(v["contract"]) == v["run_id"]
    text = second.contract_text(v["contract"])
    for member in v["contract"]["members"]:
        assert second.signed(member["signing_key"], text, v["signatures"][member["name"]])
        assert not second.signed(member["signing_key"], text + b" ", v["signatures"]["m0"])


def test_rows_and_states() -> None:
    v = read("rows.json")
    for row in v["rows"]:
        data, at = bytes.fromhex(row["data"]), (row["view"], row["round"], row["call"])
        assert second.row_digest(row["dtype"], tuple(row["shape"]), data) == row["digest"]
        text = second.row_text(v["run_id"], row["member"], *at, row["digest"])
        assert second.signed(v["keys"][row["member"]], text, row["signature"])
        assert not second.signed(v["keys"]["m0"], text, row["signature"])
    state = v["state"]
    text = second.state_text(v["run_id"], state["member"], state["peer"], state)
    assert second.signed(v["keys"][state["member"]], text, state["signature"])


def test_masks_and_totals() -> None:
    v = read("masks.json")
    for edge in v["edges"]:
        secrets = [bytes.fromhex(edge[name]) for name in ("x25519_secret", "mlkem_secret")]
        halves = [bytes.fromhex(half) for half in edge["halves"]]
        ends = list(zip(edge["between"], halves, strict=True))
        assert second.edge_key(*secrets, v["run_id"], ends).hex() == edge["key"]
    for m in v["members"]:
        mask = second.masks(m["member"], v["edges"], v["stream"], v["round"], v["call"], 3)
        assert mask == m["mask"]
        assert second.masked_row(m["whole_numbers"], m["noise"], mask) == m["row"]
    assert second.total([m["row"] for m in v["members"]]) == v["total"]
    plain = [
        sum(values) for values in zip(*(m["whole_numbers"] for m in v["members"]), strict=True)
    ]
    noise = [sum(values) for values in zip(*(m["noise"] for m in v["members"]), strict=True)]
    assert v["total"] == [a + b for a, b in zip(plain, noise, strict=True)]


def test_groups() -> None:
    """The same groups by a second program from the page's words, and what each one hides."""
    for v in read("groups.json"):
        n = 1 + max(max(edge) for edge in v["edges"])
        found = second.partition(n, v["edges"], v["groups"], v["coalition"])
        assert found == v["members"]
        assert all(root in group for root, group in zip(v["roots"], found, strict=True))
        inner = [e for e in v["edges"] if any(set(e) <= set(group) for group in found)]
        assert inner == v["masked_edges"]
        near = [{b if a == k else a for a, b in inner if k in (a, b)} for k in range(n)]
        for group in found:
            for k in group:
                hidden = second.hidden_among(near, set(group), k, v["coalition"])
                assert 1 / hidden == v["leverage"][k]


@pytest.mark.parametrize("seed", range(6))
def test_groups_of_random_graphs_are_those_of_the_second_implementation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 13))
    graph = nx.random_labeled_tree(n, seed=seed)
    graph.add_edges_from((int(a), int(b)) for a, b in rng.integers(0, n, (2 * n, 2)) if a != b)
    topology = Topology.of(nx.convert_node_labels_to_integers(graph, ordering="sorted"))
    edges = topology.edges.tolist()
    for count in range(1, n + 1):
        for coalition in (0, 1, 2):
            first = [some.tolist() for some in grouped(topology, count, coalition).members]
            assert second.partition(n, edges, count, coalition) == first, (count, coalition)


def test_statements() -> None:
    for v in read("statements.json"):
        contract, values = v["contract"], v["statement"]
        assert second.check_statement(contract, values) == pytest.approx(v["epsilon"], rel=1e-6)
        body = values["body"]
        less = {**body, "privacy": {**body["privacy"], "epsilon": v["epsilon"] / 2}}
        with pytest.raises(second.Wrong, match="not signed"):
            second.check_statement(contract, {**values, "body": less})
        other = {**contract, "title": "another"}
        with pytest.raises(second.Wrong, match="another contract"):
            second.check_statement(other, values)


def test_evidence() -> None:
    v = read("evidence.json")
    body, signature = v["manifest"]["body"], v["manifest"]["signature"]
    assert second.signed(v["key"], second.seal_text(body), signature)
    digests = {name: second.sha256(text.encode()) for name, text in v["files"].items()}
    assert digests == body["files"]
    changed = {**body, "files": {**body["files"], "ledger.jsonl": "0" * 64}}
    assert not second.signed(v["key"], second.seal_text(changed), signature)


def test_votes() -> None:
    v = read("votes.json")
    for name, vote in v["votes"].items():
        text = second.vote_text(v["run_id"], v["view"], name, vote)
        assert second.signed(v["keys"][name], text, vote["signature"])
    assert second.agreed(v["members"], v["absent"], v["votes"])
    assert not second.agreed(v["members"], v["absent"], {"m0": v["votes"]["m0"]})
    assert not second.agreed(["m0", "m1"], ["m1"], v["votes"])


def test_ledger_and_charges() -> None:
    v = read("ledger.json")
    assert all(second.is_sealed(row) for row in v["rows"])
    assert v["rows"][1]["previous"] == v["rows"][0]["hash"]
    assert not second.is_sealed({**v["rows"][0], "event": v["rows"][0]["event"] + " "})
    found = second.charges_of(v["rows"], v["run"])
    assert [list(one) for one in found] == v["charges"]
    for run in read("charges.json"):
        charges = [(event, count) for event, count in run["charges"]]
        epsilon = second.epsilon_of(charges, run["delta"], run["members_per_person"])
        assert epsilon == pytest.approx(run["epsilon"], rel=1e-6)


def test_a_recorded_run_is_checked_by_the_second_implementation(tmp_path: Path) -> None:
    """Packs of three members; any change is found, where the first check finds it too."""
    homes = finished(tmp_path, **MASKED)
    pack = make(homes["m1"], tmp_path / "pack")
    found = second.check_pack(pack)
    assert found["member"] == "m1"
    assert found["epsilon"] <= 1.0 * (1 + 1e-6) and found["releases"] > 0
    changes = {
        "statement.json": ('"epsilon": ', '"epsilon": 0'),
        "ledger.jsonl": ('"kind":"charge', '"kind":"chargE'),
        "contract/contract.toml": ("delta = 1e-06", "delta = 1e-05"),
        "contract/contract.toml.signatures": ("m0 ", "m2 "),
    }
    for k, (name, (old, new)) in enumerate(changes.items()):
        other = Path(shutil.copytree(pack, tmp_path / f"changed{k}"))
        text = (other / name).read_text("utf-8")
        assert old in text, name
        (other / name).write_text(text.replace(old, new, 1), "utf-8")
        with pytest.raises(second.Wrong, match="not those of the list"):
            second.check_pack(other)
        _listed_again(other)
        with pytest.raises(second.Wrong, match="sealed"):
            second.check_pack(other)


def _listed_again(pack: Path) -> None:
    """The list made to fit, as a forger without the key would."""
    manifest = json.loads((pack / "manifest.json").read_text("utf-8"))
    for name in manifest["body"]["files"]:
        manifest["body"]["files"][name] = second.sha256((pack / name).read_bytes())
    (pack / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
