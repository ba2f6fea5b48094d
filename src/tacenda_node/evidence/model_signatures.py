"""Who has signed a run's model.

After the last round each member signs the digest of its model (`protocol.signed_rows`), and keeps
what all have signed beside its result. A member that came back too late can so take the model from
anybody: the contract's keys say that it is the one that most members ended with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tacenda.errors import StateError
from tacenda.formats.files import write_json
from tacenda_node.identity.certificates import text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.evaluation_plan import model_digest
from tacenda_node.protocol.frames import Claim
from tacenda_node.protocol.signed_rows import row_text

FORMAT = "tacenda-model-signatures-1"


def signatures_beside(model: Path) -> Path:
    """Where the signatures on a model's file lie."""
    return model.with_suffix(".signatures.json")


def keep(model: Path, signed: Mapping[str, Claim]) -> None:
    """Write what the members have signed of this model, beside its file."""
    digest = model_digest(_model(model))
    same = {name: claim for name, claim in signed.items() if claim.digest.hex() == digest}
    if same:
        values = {
            "format": FORMAT,
            "model": digest,
            "view": next(iter(same.values())).view,
            "signatures": {name: same[name].signature for name in sorted(same)},
        }
        write_json(signatures_beside(model), values)


def signers(model: Path, contract: Contract) -> list[str]:
    """The members whose keys in the contract have signed this very model; none where no signatures
    came with it. StateError if one does not hold."""
    path = signatures_beside(model)
    if not path.is_file():
        return []
    try:
        values = json.loads(path.read_text("utf-8"))
        digest, view = str(values["model"]), int(values["view"])
        signed = {str(name): str(text) for name, text in values["signatures"].items()}
        known = values["format"] == FORMAT and len(bytes.fromhex(digest)) == 32
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known = False
    if not known or not set(signed) <= set(contract.names):
        raise StateError(f"{path} is not a list of the members' signatures; ask for it again.")
    if model_digest(_model(model)) != digest:
        raise StateError(f"{path} is about another model than {model}; ask for both again.")
    place = (view, contract.total_rounds + 1, 0)
    for name, text in signed.items():
        claim = Claim(name, *place, bytes.fromhex(digest), text)
        key = contract.member(name).signing_key
        if not text_signed(key, row_text(contract.run_id(), claim), text):
            raise StateError(
                f"{path}: the signature of {name} does not hold for this model and the contract's "
                "key; ask another member for its files."
            )
    return sorted(signed)


def _model(path: Path) -> np.ndarray:
    from tacenda.runtime.result import load

    return load(path).models[0]
