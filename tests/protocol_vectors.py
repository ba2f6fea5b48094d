"""Write the test vectors of docs/protocol.md, with the project's own code: `python
tests/protocol_vectors.py`. Keys are fixed, so the files change only where the protocol does."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

sys.path[:0] = [str(Path(__file__).parent / "helpers")]

from tacenda.formats.text import strict  # noqa: E402
from tacenda.graph.coalition import edge_streams  # noqa: E402
from tacenda.graph.groups import grouped  # noqa: E402
from tacenda.graph.topology import Topology  # noqa: E402
from tacenda.privacy.accounting import events  # noqa: E402
from tacenda.privacy.accounting.judge import judge  # noqa: E402
from tacenda.privacy.lasting.chain import seal  # noqa: E402
from tacenda.privacy.noise.key_chain import KeyChain  # noqa: E402
from tacenda.privacy.noise.keyed import KINDS, KeyedNoise  # noqa: E402
from tacenda_node.evidence.pack import FORMAT as EVIDENCE_FORMAT  # noqa: E402
from tacenda_node.evidence.pack import sealed_text  # noqa: E402
from tacenda_node.evidence.signed_statement import FORMAT as STATEMENT_FORMAT  # noqa: E402
from tacenda_node.evidence.signed_statement import statement_text  # noqa: E402
from tacenda_node.identity.contract import Contract  # noqa: E402
from tacenda_node.identity.contract_files import signed_text  # noqa: E402
from tacenda_node.identity.edge_keys import combine  # noqa: E402
from tacenda_node.membership.votes import Vote, stand_text, statement  # noqa: E402
from tacenda_node.peer.run_plan import make_plan  # noqa: E402
from tacenda_node.protocol import frames  # noqa: E402
from tacenda_node.protocol.signed_rows import digest, row_text, state_text  # noqa: E402

FOLDER = Path(__file__).parents[1] / "docs" / "protocol"
QUESTION = b"what is asked"


def private(k: int) -> Ed25519PrivateKey:
    """The signing key of test member k."""
    return Ed25519PrivateKey.from_private_bytes(bytes([k + 1]) * 32)


def public(k: int) -> str:
    """Its public half, base64."""
    return base64.b64encode(private(k).public_key().public_bytes_raw()).decode()


def sign(k: int, text: bytes) -> str:
    """An Ed25519 signature, base64."""
    return base64.b64encode(private(k).sign(text)).decode()


def contract(n: int = 3, **terms: Any) -> Contract:
    """A small contract of three members, or more, with these keys."""
    from node_stage import small_contract

    usual: dict[str, Any] = {
        "algorithm": {"name": "treegd"},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "coalition": 1},
    }
    plain = small_contract(n, **{**usual, **terms}).to_plain()
    for k, member in enumerate(plain["members"]):
        member["signing_key"] = public(k)
    return Contract.build(plain)


def vectors() -> dict[str, Any]:
    """{name of a file: its values}."""
    agreed = contract()
    return {
        "contract.json": of_contract(agreed),
        "rows.json": of_rows(agreed),
        "masks.json": of_masks(agreed),
        "votes.json": of_votes(agreed),
        "ledger.json": of_ledger(),
        "charges.json": of_charges(),
        "groups.json": of_groups(),
        "statements.json": of_statements(),
        "evidence.json": of_evidence(agreed),
    }


def of_contract(agreed: Contract) -> dict[str, Any]:
    text = signed_text(agreed)
    return {
        "contract": agreed.to_plain(),
        "hash": agreed.hash(),
        "run_id": agreed.run_id(),
        "signatures": {name: sign(k, text) for k, name in enumerate(agreed.names)},
    }


def of_rows(agreed: Contract) -> dict[str, Any]:
    run, found = agreed.run_id(), []
    for values in (np.array([[0.5, -1.25, 3e300]]), np.array([[1, 2**64 - 1]], np.uint64)):
        frame = frames.rows_frame(0, 2, 1, values)
        claim = frames.Claim("m1", 0, 2, 1, digest(frame), "")
        found.append(
            {
                "member": "m1", "view": 0, "round": 2, "call": 1, "dtype": frame.dtype,
                "shape": list(frame.shape), "data": frame.data.hex(),
                "digest": claim.digest.hex(), "signature": sign(1, row_text(run, claim)),
            }
        )  # fmt: skip
    state = frames.Introduction("5f2a", 0, bytes(range(32)), "")
    told = {"state_id": state.state_id, "view": state.view, "half": state.half.hex()}
    text = state_text(run, "m0", "m1", state)
    return {
        "run_id": run,
        "keys": {name: public(k) for k, name in enumerate(agreed.names)},
        "rows": found,
        "state": {"member": "m0", "peer": "m1", **told, "signature": sign(0, text)},
    }


def of_masks(agreed: Contract) -> dict[str, Any]:
    run, names = agreed.run_id(), agreed.names
    topology = Topology.of(nx.complete_graph(3))
    keys = {}
    for number, (a, b) in enumerate(topology.edges):
        halves = [(names[int(end)], bytes([int(end), number]) * 16) for end in (a, b)]
        first, second = bytes([40 + number]) * 32, bytes([50 + number]) * 32
        keys[number] = (first, second, halves, combine(first, second, run, halves))
    edge_run, view, turn, call = f"{run}/{','.join(names)}", 0, 3, 1
    members = []
    for k, name in enumerate(names):
        noise = KeyedNoise(KeyChain.begin(bytes(32)), "own", floating_point=False, masked=True)
        noise.share(lambda number: KeyChain.begin(keys[number][3]), edge_run)
        mask = noise.asked(QUESTION).masks(edge_streams(topology, np.array([k])), turn, call, 3)[0]
        whole, own = np.array([5 * k, -7, 2**40]), np.array([k, -k, 11])
        row = whole.view(np.uint64) + own.view(np.uint64) + mask
        members.append(
            {
                "member": name, "whole_numbers": whole.tolist(), "noise": own.tolist(),
                "mask": mask.tolist(), "row": row.tolist(),
            }
        )  # fmt: skip
    total = np.sum([np.array(m["row"], np.uint64) for m in members], axis=0, dtype=np.uint64)
    return {
        "run_id": run,
        "edges": [
            {
                "between": [name for name, _ in halves],
                "halves": [half.hex() for _, half in halves],
                "x25519_secret": first.hex(), "mlkem_secret": second.hex(), "key": key.hex(),
            }
            for first, second, halves, key in keys.values()
        ],
        "stream": f"{edge_run}#{view}masks?{QUESTION.hex()}",
        "round": turn,
        "call": call,
        "members": members,
        "total": total.view(np.int64).tolist(),
    }  # fmt: skip


def of_votes(agreed: Contract) -> dict[str, Any]:
    run, found = agreed.run_id(), {}
    last = frames.Claim("m0", 0, 4, 2, bytes(range(32)), "")
    for k in (0, 1):
        vote = Vote(["m2"], 5, "", frames.Stand(None, last if k == 0 else None, 0))
        plain = {"absent": vote.absent, "round": vote.round, **stand_text(vote.stand)}
        found[f"m{k}"] = {**plain, "signature": sign(k, statement(run, 1, f"m{k}", vote))}
    return {
        "run_id": run,
        "keys": {name: public(k) for k, name in enumerate(agreed.names)},
        "view": 1,
        "members": list(agreed.names),
        "absent": ["m2"],
        "votes": found,
    }


def of_ledger() -> dict[str, Any]:
    fields = ("seq", "time", "kind", "dataset", "run", "key", "event", "body")
    event = json.dumps({"kind": "masked-sum", "mu": 0.125, "coalition": 1}, separators=(",", ":"))
    stretch = json.dumps([[0, 2, 9, [[1, event]]]], separators=(",", ":"))
    rows, previous = [], bytes(32).hex()
    for values in (
        (1, "2026-01-01T00:00:00", "charge", "d", "r", "[0,1,1]", event, ""),
        (2, "2026-01-01T00:01:00", "charges", "d", "r", "", "", stretch),
    ):
        sealed = seal(previous, values)
        named = dict(zip(fields, values, strict=True))
        rows.append({**named, "previous": previous, "hash": sealed})
        previous = sealed
    return {"rows": rows, "run": "r", "charges": [[json.loads(event), 1], [json.loads(event), 8]]}


def of_charges() -> list[dict[str, Any]]:
    runs: list[tuple[list[tuple[events.Event, int]], int]] = [
        ([(events.Gaussian(4.0), 16)], 1),
        ([(events.Gaussian(4.0), 16), (events.Gaussian(2.0), 1)], 3),
        ([(events.MaskedSum(0.1, 1), 20)], 1),
        ([(events.MaskedSum(0.1, 1), 20)], 3),
        ([(events.DiscreteGaussian(10.0), 30)], 1),
        ([(events.DiscreteGaussian(10.0), 30)], 2),
    ]
    return [
        {
            "charges": [[event.to_dict(), count] for event, count in run],
            "members_per_person": members,
            "delta": 1e-6,
            "epsilon": judge(events.at_members(run, members)).epsilon(1e-6),
        }
        for run, members in runs
    ]


def of_groups() -> list[dict[str, Any]]:
    """Who is in which group, with a share: 1 / (members among which each one is hidden)."""
    found = []
    graphs = [nx.complete_graph(6), nx.random_regular_graph(4, 12, seed=3), nx.cycle_graph(7)]
    for graph, count, coalition in zip(graphs, (3, 3, 2), (1, 1, 2), strict=True):
        topology = Topology.of(graph)
        groups = grouped(topology, count, coalition)
        found.append(
            {
                "edges": topology.edges.tolist(), "groups": count, "coalition": coalition,
                "members": [some.tolist() for some in groups.members],
                "masked_edges": groups.masks.edges.tolist(),
                "roots": [int(root) for root in groups.trees.roots],
                "leverage": groups.leverage(coalition)[0].tolist(),
            }
        )  # fmt: skip
    return found


def of_statements() -> list[dict[str, Any]]:
    """What m1 signs about its run: of masked sums, of these in groups, of its own noise, of persons
    with several records."""
    masked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "coalition": 1}
    persons = {"records_per_person": 3, "members_per_person": 2, "adjacency": "add-remove"}
    runs: list[tuple[int, dict[str, Any]]] = [
        (3, {"algorithm": {"name": "treegd"}, "privacy": masked}),
        (6, {"algorithm": {"name": "treegd"}, "privacy": masked, "groups": 3, "graph": "complete"}),
        (3, {"algorithm": {"name": "dpadmm"}, "privacy": {"epsilon": 2.0, "delta": 1e-6}}),
        (3, {"algorithm": {"name": "treegd"}, "privacy": {**masked, **persons}}),
    ]
    found = []
    for n, terms in runs:
        agreed = contract(n, **terms)
        plan, place = make_plan(agreed), agreed.position("m1")
        charges = plan.calibration.reserved.rows(np.array([place]))
        said = plan.spec.statement(charges, KINDS[1], n_nodes=1)
        assert said is not None
        body = {
            "member": "m1", "title": agreed.title, "run": agreed.run_id(),
            "contract": agreed.hash(), "signing_key": public(1),
            "signed_at": "2026-01-01T00:00:00+00:00", "privacy": strict(said.to_plain()),
        }  # fmt: skip
        signature = sign(1, statement_text(body))
        values = {"format": STATEMENT_FORMAT, "body": body, "signature": signature}
        found.append({"contract": agreed.to_plain(), "statement": values, "epsilon": said.epsilon})
    return found


def of_evidence(agreed: Contract) -> dict[str, Any]:
    """The seal of a small pack: the texts of its files, and its manifest."""
    files = {"contract/contract.toml": "title = 1\n", "ledger.jsonl": "", "page.html": "\u00e9\n"}
    body = {
        "member": "m1", "contract": agreed.hash(), "run": agreed.run_id(),
        "ledger_head": [2, bytes(range(32)).hex()],
        "tacenda": "0", "made_at": "2026-01-01T00:00:00+00:00",
        "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()},
    }  # fmt: skip
    signature = sign(1, sealed_text(body))
    return {
        "key": public(1),
        "files": files,
        "manifest": {"format": EVIDENCE_FORMAT, "body": body, "signature": signature},
    }


def main() -> None:
    """Write all files."""
    FOLDER.mkdir(exist_ok=True)
    for name, values in vectors().items():
        (FOLDER / name).write_text(json.dumps(values, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
