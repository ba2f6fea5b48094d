"""A certificate that travels inside a model's file: who learnt the model, what was promised about
the records, and a signature over both and over every weight.

    model.safetensors    its header holds {"format", "body", "signature"} under "certificate"; the
                         digest in the body covers every tensor and the rest of the header

An exported model consists of several files in one folder: the digests of the others are in the body
too. Whoever holds the file alone can check that nothing was changed since a key signed it, and
that epsilon follows from the charges; whose key that is, only another channel can tell.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_bytes
from tacenda.formats.text import canonical_json, strict
from tacenda.privacy.statement import Statement
from tacenda.report.numbers import epsilon as shown
from tacenda.words import against
from tacenda_node.identity.certificates import Identity, text_signed
from tacenda_node.identity.contract import Contract

ENTRY, FORMAT = "certificate", "tacenda-model-certificate-1"
ABOUT = "tacenda"  # the header's entry that `RunResult.save` writes
FOLDER_FILES = ("model.json", "MODEL_CARD.md")  # of an exported model, beside its weights
WEIGHTS = "model.safetensors"
ROUNDING = 1e-9
_PREFIX = b"tacenda model certificate v1\0"
_BODY = frozenset(
    ["member", "signing_key", "issued_at", "run", "privacy", "model", "who_may_rely_on_what"]
)


def certify(model: str | Path, identity: Identity, contract: Contract | None = None) -> Path:
    """Sign a model's file, and put the certificate into its header.

    Parameters
    ----------
    model : str or Path
        A result file, or the folder of an exported model.
    identity : Identity
        The signer's keys (`tacenda_node.identity.certificates.Identity.read`).
    contract : Contract or None, default=None
        Contract of the run that made the model; None for a model of one organisation.

    Returns
    -------
    Path
        The file with the weights, which now carries the certificate.

    Raises
    ------
    InputError
        If the model was learnt without noise.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda_node import evidence
    >>> try:
    ...     evidence.certify("no-such-model", None)
    ... except tc.errors.InputError as error:
    ...     print(str(error).split(";")[0])
    There is no model at no-such-model
    """
    path = weights_of(model)
    tensors, header = _read(path)
    statement, facts = _about(path, header)
    if statement is None:
        raise InputError(
            f"{path} was learnt without noise, so there is nothing to certify; fit it with a "
            "privacy budget."
        )
    kept = {name: text for name, text in header.items() if name != ENTRY}
    body: dict[str, Any] = {
        "member": identity.name,
        "signing_key": identity.signing_key,
        "issued_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": run_facts(contract),
        "privacy": promise(statement),
        "model": {
            "digest": digest(tensors, kept),
            "files": _beside(path),
            "weights": list(map(int, tensors["models" if "models" in tensors else "coef"].shape)),
            **facts,
        },
    }
    body["who_may_rely_on_what"] = rely(body)
    signature = identity.sign_text(_text(body))
    values = {"format": FORMAT, "body": body, "signature": signature}
    return _write(path, tensors, {**kept, ENTRY: canonical_json(values)})


def read_certificate(model: str | Path) -> dict[str, Any]:
    """The certificate in a model's header, not yet checked: {"format", "body", "signature"}."""
    path = weights_of(model)
    _, header = _read(path)
    return _certificate(path, header)


def check_certificate(
    model: str | Path, *, contract: Contract | None = None, keys: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The body of a certificate that holds; otherwise StateError with what is wrong.

    contract: the members' own copy, with which title, terms and keys must agree. keys: public keys
    by member, from another channel.
    """
    path = weights_of(model)
    tensors, header = _read(path)
    values = _certificate(path, header)
    body, signature = values["body"], values["signature"]
    member, key = str(body["member"]), str(body["signing_key"])
    if not certificate_signed(body, signature, key):
        raise StateError(
            f"The certificate of {path} is not signed by the key that it names, or was changed "
            "afterwards; ask for the file again."
        )
    known = dict(keys or {})
    if contract is not None:
        known |= {one.name: one.signing_key for one in contract.members}
    if known and known.get(member) != key:
        raise StateError(
            f"The certificate of {path} is signed by another key than the one that you know of "
            f"{member}; ask {member} by another channel."
        )
    kept = {name: text for name, text in header.items() if name != ENTRY}
    if digest(tensors, kept) != body["model"]["digest"]:
        raise StateError(
            f"{path} holds other weights, or another description, than the certificate was signed "
            "for; ask for the file again."
        )
    if _beside(path) != body["model"]["files"]:
        raise StateError(f"A file beside {path} was changed, added or removed since it was signed.")
    statement, facts = _about(path, header)
    if statement is None or not same_values(promise(statement), body["privacy"]):
        raise StateError(
            f"The certificate of {path} promises something else than the charges in the file "
            "compose to; the signer's program may have been changed."
        )
    if any(body["model"].get(name) != value for name, value in facts.items()):
        raise StateError(f"The certificate of {path} describes another model than the file holds.")
    if body["who_may_rely_on_what"] != rely(body):
        raise StateError(f"The certificate of {path} has other words than its values give.")
    if contract is not None and body["run"] != run_facts(contract):
        raise StateError(
            f"The certificate of {path} is about another contract than the one given; give the "
            "contract that was run."
        )
    return dict(body)


def check_words(body: Mapping[str, Any], contract: Contract, statement: Statement) -> None:
    """StateError unless a certificate without its model says what the contract and a statement
    give, and nothing else."""
    p, model = contract.problem, body["model"]
    facts = {"loss": p.loss, "classes": p.classes, "features": p.n_features}
    if (
        body.keys() != _BODY
        or body["run"] != run_facts(contract)
        or body["signing_key"] != contract.member(str(body["member"])).signing_key
        or not same_values(promise(statement), body["privacy"])
        or body["who_may_rely_on_what"] != rely(body)
        or model.keys() != {"digest", "files", "weights", *facts}
        or any(model[name] != value for name, value in strict(facts).items())
        or not re.fullmatch(r"[0-9a-f]{64}", str(model["digest"]))
        or model["files"] != {}
        or any(type(size) is not int for size in model["weights"])
    ):
        raise StateError(
            "The certificate says something else than the contract and the statement give."
        )


def certificate_signed(body: Mapping[str, Any], signature: Any, key: str) -> bool:
    """Whether the holder of this public key signed the body of a certificate."""
    return text_signed(key, _text(body), str(signature))


def weights_of(model: str | Path) -> Path:
    """The file with the weights: itself, the one of an exported model, or the only one of a run
    folder."""
    path = Path(model)
    if not path.is_dir():
        if not path.is_file():
            raise InputError(f"There is no model at {path}; give its file, or the folder it is in.")
        return path
    if (path / WEIGHTS).is_file():
        return path / WEIGHTS
    found = sorted(path.glob("results/*.safetensors")) or sorted(path.glob("*.safetensors"))
    if len(found) != 1:
        raise InputError(
            f"{path} holds {len(found) or 'no'} model files, and one is needed; give the file."
        )
    return found[0]


def digest(tensors: Mapping[str, Any], header: Mapping[str, str]) -> str:
    """SHA-256 over every tensor (name, type, shape, bytes) and every entry of the header."""
    listed = {
        name: [
            str(values.dtype),
            list(values.shape),
            hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest(),
        ]
        for name, values in tensors.items()
    }
    words = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in header.items()}
    return hashlib.sha256(canonical_json([listed, words]).encode()).hexdigest()


def promise(statement: Statement) -> dict[str, Any]:
    """What a statement promises, in the words that a certificate has."""
    plain = statement.to_plain()
    names = ("epsilon", "delta", "unit", "coalition", "mode", "noise", "accountant")
    found = {"relation": plain["adjacency"], **{name: plain[name] for name in names}}
    return {**dict(sorted(found.items())), "final_model_epsilon": plain["final_model"]["epsilon"]}


def rely(body: Mapping[str, Any]) -> list[str]:
    """Who may rely on what, in sentences that follow from the certificate's values."""
    p, member, run = body["privacy"], body["member"], body["run"]
    whose = f"whose data {member} holds"
    lines = [
        f"People {whose}: epsilon {shown(p['epsilon'])} at delta {p['delta']:g} for {p['unit']} "
        f"({p['relation']}), for the whole run, against {against(p['coalition'])}, and against "
        "eavesdroppers who see every message."
        if isinstance(p["epsilon"], float)
        else f"People {whose}: nothing, because the noise bounds no privacy loss."
    ]
    if "simulation" in p["noise"]:
        lines = [
            "No one: this model is a simulation's. Its noise came from a seed, and anyone who "
            "knows it can subtract the noise."
        ]
    if run is not None:
        lines.append(
            f"People whose data the other members hold: that {member} ran the contract "
            f"{run['contract'][:16]}, which promises epsilon {run['epsilon']:g} at delta "
            f"{run['delta']:g} to each; their own members' certificates say what was kept."
        )
    lines += [
        "Users of the model: that these are the weights that the signer had when it signed.",
        "No one: that the model is right, or fair, or fit for a purpose; that the data were what "
        "the schema says; that the signer's machine drew its noise as the program does.",
    ]
    return lines


# ---- inside
def run_facts(contract: Contract | None) -> dict[str, Any] | None:
    if contract is None:
        return None
    return {
        "title": contract.title,
        "contract": contract.hash(),
        "run": contract.run_id(),
        "epsilon": contract.privacy.epsilon,
        "delta": contract.privacy.delta,
        "members": [
            {"name": m.name, "records": m.size, "signing_key": m.signing_key}
            for m in contract.members
        ],
    }


def _about(path: Path, header: Mapping[str, str]) -> tuple[Statement | None, dict[str, Any]]:
    """The statement that came with the weights, and the public facts of the model."""
    try:
        if ABOUT in header:
            about = json.loads(header[ABOUT])
            problem, plain = about["settings"]["problem"], about["privacy"]
            facts = {
                "loss": problem["loss"],
                "classes": problem.get("classes"),
                "features": int(problem["n_features"]),
            }
        else:
            about = json.loads((path.parent / FOLDER_FILES[0]).read_text("utf-8"))
            plain = about["privacy"]
            facts = {
                "loss": about["problem"]["loss"],
                "classes": about["classes"],
                "features": int(about["n_features"]),
            }
        return None if plain is None else Statement.from_plain(plain), strict(facts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise StateError(
            f"{path} is not a model of this program, or its description is damaged; give the file "
            "that a run or an estimator's export wrote."
        ) from None


def _certificate(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    if ENTRY not in header:
        raise StateError(
            f"{path} carries no certificate; its maker adds one with `tacenda evidence certify`."
        )
    try:
        values = json.loads(header[ENTRY])
        body = values["body"]
        whole = (
            values["format"] == FORMAT
            and isinstance(values["signature"], str)
            and body.keys() == _BODY
            and {"digest", "files"} <= body["model"].keys()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise StateError(f"The certificate of {path} is not in the format {FORMAT!r}.")
    return dict(values)


def same_values(one: Any, other: Any) -> bool:
    """Equal values; numbers up to the rounding of another machine."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_values(one[k], other[k]) for k in one)
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=ROUNDING)
    return bool(one == other)


def _beside(path: Path) -> dict[str, str]:
    """The digests of the files that belong to an exported model."""
    if path.name != WEIGHTS:
        return {}
    files = [path.parent / name for name in FOLDER_FILES]
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()
    }


def _read(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            header = dict(file.metadata() or {})
            return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, ValueError) as damaged:
        raise StateError(f"{path} is not a readable model file: {damaged}.") from None


def _write(path: Path, tensors: Mapping[str, Any], header: dict[str, str]) -> Path:
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    return write_bytes(path, save(arrays, metadata=header))


def _text(body: Mapping[str, Any]) -> bytes:
    return _PREFIX + canonical_json(body).encode()
