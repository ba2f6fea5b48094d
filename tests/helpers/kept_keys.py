"""States that hold keys: of one member, and the same ones in several runs of real processes."""

from __future__ import annotations

import shutil
from pathlib import Path

from node_stage import Crowd
from tacenda.runtime.lasting_run import data_digest
from tacenda_node.identity.edge_keys import EdgeKeys
from tacenda_node.peer.member_records import read_records
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.database import NodeState
from tacenda_node.state.spending import Spending


def marked(folder: Path, mark: Path | None = None) -> NodeState:
    """A state with its mark, by default beside the folder."""
    state = NodeState(folder)
    state.bind("run", "me", "records")
    state.keep_mark(mark or folder.with_suffix(".mark"))
    return state


def same_keys(first: Crowd, other: Crowd) -> None:
    """Begin the states of two crowds with the same keys, of members and edges: only so can two runs
    with real noise be compared bit by bit."""
    contract, plan = first.stage.contract, make_plan(first.stage.contract)
    states, marks = {}, {}
    for name in first.names:
        home, data = first.folder(name) / "state", first.stage.data[name]
        states[name] = NodeState(home)
        records = read_records(contract, name, first.stage.schema, data, None)
        key = states[name].bind(contract.run_id(), name, data_digest(records.trained))
        marks[name] = Spending(home / "ledger.sqlite", plan, name, key, "").mark
        states[name].keep_mark(marks[name])
    if plan.spec.algorithm.traits.shared_noise is not None:
        keys = {name: EdgeKeys(contract, name, state) for name, state in states.items()}
        for a, b in contract.edges:
            keys[b].agree(a, keys[a].half(b))
            keys[a].agree(b, keys[b].half(a), confirmed=True, check=keys[b].check(a))
            keys[b].confirm(a, keys[a].check(b))
    for name, state in states.items():
        state.close()
        shutil.copytree(first.folder(name) / "state", other.folder(name) / "state")
