"""A second implementation of the checks in docs/protocol.md: plain Python, and of other people's
code only `cryptography` (Ed25519, X25519, AES, HKDF). Nothing of the project is imported.

    python second_check.py PACK     checks an evidence pack; ends with 1 if something is wrong
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import sys
import tomllib
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

WORDS = 2**64


class Wrong(Exception):
    """What was checked is not as it must be."""


# ---- text, hashes and signatures
def canonical(value: Any) -> bytes:
    """Section 1: JSON with sorted keys, no spaces, ASCII."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def signed(key: str, text: bytes, signature: str) -> bool:
    """Whether an Ed25519 signature of `text` is by a public key; both base64."""
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key, validate=True))
        public.verify(base64.b64decode(signature, validate=True), text)
    except (InvalidSignature, ValueError):
        return False
    return True


def contract_hash(contract: dict[str, Any]) -> str:
    return sha256(canonical(contract))


def run_id(contract: dict[str, Any]) -> str:
    """Section 2: the contract without what may change in a run."""
    left_out = ("authorities", "amendment", "follows", "left")
    kept = {k: v for k, v in contract.items() if k not in left_out}
    own = ("address", "fingerprint", "signing_key", "listens")
    kept["members"] = [{k: v for k, v in m.items() if k not in own} for m in kept["members"]]
    return sha256(canonical(kept))


def contract_text(contract: dict[str, Any]) -> bytes:
    return b"tacenda contract v1\n" + canonical(contract)


# ---- section 3: rows
def row_digest(dtype: str, shape: tuple[int, int], data: bytes) -> str:
    return sha256(f"{dtype} {shape[0]} {shape[1]}\n".encode() + data)


def row_text(run: str, member: str, view: int, turn: int, call: int, digest: str) -> bytes:
    values = {
        "call": call, "digest": digest, "view": view, "member": member, "round": turn, "run": run,
    }  # fmt: skip
    return b"tacenda row v1\n" + canonical(values)


def state_text(run: str, member: str, peer: str, state: dict[str, Any]) -> bytes:
    values = {
        "state_id": state["state_id"], "view": state["view"], "half": state["half"],
        "member": member, "peer": peer, "run": run,
    }  # fmt: skip
    return b"tacenda state v1\n" + canonical(values)


# ---- section 4: masks and totals
def words(key: bytes, name: str, turn: int, call: int, count: int) -> list[int]:
    """The first words of a keyed stream."""
    text = name.encode()
    label = b"tacenda noise v1" + len(text).to_bytes(8, "big") + text
    label += b"".join(part.to_bytes(8, "big") for part in (turn, call, 0))
    own = hmac.new(key, label, hashlib.sha256).digest()
    stream = Cipher(algorithms.AES(own), modes.CTR(bytes(16))).encryptor()
    data = stream.update(bytes(8 * count))
    return [int.from_bytes(data[k : k + 8], "little") for k in range(0, 8 * count, 8)]


def edge_key(first: bytes, second: bytes, run: str, ends: list[tuple[str, bytes]]) -> bytes:
    """From the secrets of X25519 and ML-KEM; ends: names and halves, in the contract's order."""
    info = b"tacenda edge v2"
    for name, half in ends:
        info += b"\0" + name.encode() + b"\0" + hashlib.sha256(half).digest()
    derive = HKDF(algorithm=hashes.SHA256(), length=32, salt=bytes.fromhex(run), info=info)
    return derive.derive(first + second)


def key_at(key: bytes, view: int, turn: int, call: int) -> bytes:
    """The key of a place in the chain that an edge's key begins."""
    steps = [b"view"] * view + [b"rounds"] + [b"round"] * turn + [b"calls"] + [b"call"] * call
    for what in (*steps, b"key"):
        key = hmac.new(key, b"tacenda chain v1 " + what, hashlib.sha256).digest()
    return key


def masks(
    member: str, edges: list[dict[str, Any]], name: str, turn: int, call: int, count: int
) -> list[int]:
    """What the masks of a member's edges add up to: plus at the edge's first end, minus at its
    other one."""
    found = [0] * count
    for edge in edges:
        if member not in edge["between"]:
            continue
        sign = 1 if edge["between"][0] == member else -1
        view = int(name.partition("masks?")[0].rpartition("#")[2])
        drawn = words(key_at(bytes.fromhex(edge["key"]), view, turn, call), name, turn, call, count)
        found = [(a + sign * b) % WORDS for a, b in zip(found, drawn, strict=True)]
    return found


def masked_row(whole: list[int], noise: list[int], mask: list[int]) -> list[int]:
    return [(a + b + c) % WORDS for a, b, c in zip(whole, noise, mask, strict=True)]


def total(rows: list[list[int]]) -> list[int]:
    """The sum of all rows as numbers between -2^63 and 2^63."""
    sums = [sum(column) % WORDS for column in zip(*rows, strict=True)]
    return [one - WORDS if one >= WORDS // 2 else one for one in sums]


# ---- section 4, groups
def hidden_among(near: list[set[int]], inside: set[int], member: int, coalition: int) -> int:
    """The fewest members that can be left around one, by trying every coalition."""
    others = sorted(inside - {member})
    tried = combinations(others, min(coalition, len(others)))
    return min(len(_reached(near, inside - set(gone), member)) for gone in tried)


def _reached(near: list[set[int]], inside: set[int], start: int) -> set[int]:
    found, new = {start}, {start}
    while new:
        new = {w for v in new for w in near[v] & inside} - found
        found |= new
    return found


def partition(n: int, edges: list[list[int]], count: int, coalition: int) -> list[list[int]]:
    """Who is in which group; members as numbers from 0, in the contract's order."""
    near: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    tries = 1 if count in (1, n) or n > 2000 else min(n, 24)
    best: tuple[tuple[float, int], list[set[int]]] | None = None
    for k in range(tries):
        grown = _grown(near, count, k * n // tries)
        for groups in (grown, _mended(near, [set(g) for g in grown], coalition)):
            sizes = [len(g) for g in groups]
            worst = max(1 / hidden_among(near, g, v, coalition) for g in groups for v in g)
            price = (worst, max(sizes) - min(sizes))
            best = (price, groups) if best is None or price < best[0] else best
        assert best is not None
        if best[0] == (1 / max(n // count - coalition, 1), int(n % count > 0)):
            break
    assert best is not None
    return sorted(sorted(g) for g in best[1])


def _grown(near: list[set[int]], count: int, start: int) -> list[set[int]]:
    n, seeds = len(near), [start]
    while len(seeds) < count:
        layers, reached = [set(seeds)], set(seeds)
        while len(reached) < n:
            layers.append({w for v in layers[-1] for w in near[v]} - reached)
            reached |= layers[-1]
        seeds.append(min(layers[-1]))
    groups, free = [{seed} for seed in seeds], set(range(n)) - set(seeds)
    while free:
        can = [g for g in groups if any(near[v] & free for v in g)]
        group = min(can, key=len)
        around = [v for v in sorted(free) if near[v] & group]
        chosen = min(around, key=lambda v: (-len(near[v] & group), len(near[v] & free), v))
        group.add(chosen)
        free.remove(chosen)
    return groups


def _mended(near: list[set[int]], groups: list[set[int]], coalition: int) -> list[set[int]]:
    def lacking(*some: set[int]) -> int:
        return sum(max(0, coalition + 1 - len(near[v] & g)) for g in some for v in g)

    for _ in range(30):
        changed = False
        for v in range(len(near)):
            old = next(g for g in groups if v in g)
            options = []
            for number, new in enumerate(groups):
                if new is old or len(old) == 1 or not near[v] & new:
                    continue
                fall = lacking(old, new) - lacking(old - {v}, new | {v})
                edges = len(near[v] & new) - len(near[v] & old)
                options.append(((fall, len(old) - len(new) - 1, edges), -number))
            gain, number = max(options, default=((0, 0, 0), 0))
            rest = old - {v}
            if gain > (0, 0, 0) and gain[1] >= -3 and _reached(near, rest, min(rest)) == rest:
                old.remove(v)
                groups[-number].add(v)
                changed = True
        if not changed:
            break
    return groups


# ---- section 5: votes
def vote_text(run: str, view: int, member: str, vote: dict[str, Any]) -> bytes:
    values = {
        "absent": vote["absent"], "view": view, "member": member, "round": vote["round"],
        "run": run, "map": vote["map"], "last": vote["last"], "stands_in": vote["stands_in"],
    }  # fmt: skip
    return b"tacenda membership v4\n" + canonical(values)


def agreed(names: list[str], absent: list[str], votes: dict[str, dict[str, Any]]) -> bool:
    """Whether more than half of the members remain, and all of them have voted for this set."""
    present = [name for name in names if name not in absent]
    same = all(name in votes and votes[name]["absent"] == absent for name in present)
    return same and 2 * len(present) > len(names)


# ---- section 6: the ledger
FIELDS = ("seq", "time", "kind", "dataset", "run", "key", "event", "body")


def is_sealed(row: dict[str, Any]) -> bool:
    text = canonical([row[name] for name in FIELDS])
    return sha256(bytes.fromhex(row["previous"]) + text) == row["hash"]


def charges_of(rows: list[dict[str, Any]], run: str) -> list[tuple[dict[str, Any], int]]:
    """(event, how often) of a run, in the rows of a ledger."""
    found: list[tuple[dict[str, Any], int]] = []
    for row in rows:
        if row["run"] != run:
            continue
        if row["kind"] == "charge":
            found.append((json.loads(row["event"]), 1))
        elif row["kind"] == "charges":
            for _, first, last, pattern in json.loads(row["body"]):
                found += [(json.loads(event), last - first + 1) for _, event in pattern]
    return found


# ---- section 7: epsilon of Gaussian charges
def gaussian_mu(event: dict[str, Any]) -> float:
    """mu of one release."""
    kind = event["kind"]
    if kind in ("masked-sum", "correlated-gaussian"):
        return float(event["mu"])
    if kind == "gaussian":
        z = event["noise_multiplier"]
        return 0.0 if z == "inf" else 1 / float(z)
    raise Wrong(f"{kind} is no Gaussian; this check knows no accountant for it.")


def delta_of(mu: float, epsilon: float) -> float:
    cdf = NormalDist().cdf
    return cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * cdf(-epsilon / mu - mu / 2)


def solved(of: Any, delta: float) -> float:
    """The smallest epsilon at which a falling curve is at most delta."""
    low, high = 0.0, 1.0
    if of(low) <= delta:
        return 0.0
    while of(high) > delta:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if of(middle) <= delta else (middle, high)
    return high


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The best order's bound: a rho + ln(1 - 1/a) - ln(a delta)/(a - 1)."""

    def bound(t: float) -> float:
        a = 1 + math.exp(t)
        return a * rho + math.log1p(-1 / a) - math.log(a * delta) / (a - 1)

    low, high = -10.0, 20.0
    for _ in range(300):  # it falls, then rises
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if bound(a) < bound(b) else (a, high)
    return bound((low + high) / 2)


def epsilon_of(charges: list[tuple[dict[str, Any], int]], delta: float, members: int = 1) -> float:
    """Of Gaussian charges exactly; of discrete ones by concentrated privacy. members: at how many
    nodes a person may be."""
    if any(event["kind"] == "discrete-gaussian" for event, _ in charges):
        rho = sum(n * 0.5 / float(event["noise_multiplier"]) ** 2 for event, n in charges)
        return zcdp_epsilon(members * rho, delta)
    square = 0.0
    for event, count in charges:
        joint = event["kind"] != "gaussian"  # what hides one member's records hides the other's
        square += count * gaussian_mu(event) ** 2 * (members**2 if joint else members)
    mu = math.sqrt(square)
    return 0.0 if mu == 0 else solved(lambda e: delta_of(mu, e), delta)


# ---- section 8: statements and packs
def statement_charges(privacy: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    """A member's own: one number for each parameter."""
    found = []
    for one in privacy["charges"]:
        values = {k: v[0] if isinstance(v, list) else v for k, v in one["parameters"].items()}
        found.append(({"kind": one["kind"], **values}, int(one["count"])))
    return found


def check_statement(contract: dict[str, Any], values: dict[str, Any]) -> float:
    """The epsilon of a signed statement, composed again."""
    body = values["body"]
    keys = {m["name"]: m["signing_key"] for m in contract["members"]}
    text = b"tacenda privacy statement v1\0" + canonical(body)
    if not signed(keys[body["member"]], text, values["signature"]):
        raise Wrong("the statement is not signed by its member.")
    if (body["contract"], body["run"]) != (contract_hash(contract), run_id(contract)):
        raise Wrong("the statement is about another contract.")
    terms, privacy = contract["privacy"], body["privacy"]
    for name in ("delta", "adjacency"):
        if privacy[name] != terms[name]:
            raise Wrong(f"the statement has another {name} than the contract.")
    charges = statement_charges(privacy)
    found = epsilon_of(charges, privacy["delta"], privacy["members_per_person"])
    if not math.isclose(found, privacy["epsilon"], rel_tol=1e-6):
        raise Wrong(f"the charges compose to {found}, and {privacy['epsilon']} is stated.")
    if found > terms["epsilon"] * (1 + 1e-4):
        raise Wrong(f"epsilon {found} is more than the contract's {terms['epsilon']}.")
    return found


def seal_text(body: dict[str, Any]) -> bytes:
    """What a member signs when it seals a pack."""
    return b"tacenda evidence v1\0" + canonical(body)


def check_pack(folder: Path) -> dict[str, Any]:
    """Check a member's evidence pack: its files, seal, contract, statement and ledger."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    body = manifest["body"]
    here = {
        path.relative_to(folder).as_posix(): sha256(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path != folder / "manifest.json"
    }
    if here != body["files"]:
        raise Wrong("the files are not those of the list.")
    contract = tomllib.loads((folder / "contract/contract.toml").read_text("utf-8"))
    keys = {m["name"]: m["signing_key"] for m in contract["members"]}
    if not signed(keys[body["member"]], seal_text(body), manifest["signature"]):
        raise Wrong("the pack is not sealed by its member.")
    if body["contract"] != contract_hash(contract):
        raise Wrong("the pack is of another contract.")
    lines = (folder / "contract/contract.toml.signatures").read_text("ascii").split("\n")
    signatures = dict(line.split() for line in lines if line.strip())
    for name in keys:
        if name in contract.get("left", []):
            continue
        if not signed(keys[name], contract_text(contract), signatures.get(name, "")):
            raise Wrong(f"the contract is not signed by {name}.")
    statement = json.loads((folder / "statement.json").read_text("utf-8"))
    epsilon = check_statement(contract, statement)
    rows = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    if not all(is_sealed(row) for row in rows):
        raise Wrong("a row of the ledger was changed.")
    start = run_id(contract)[:16]
    runs = {r["run"] for r in rows if r["run"].startswith(start)}
    mine = {run for run in runs if run.split("-", 2)[2] == body["member"]}
    booked = [one for run in sorted(mine) for one in charges_of(rows, run)]
    stated = statement_charges(statement["body"]["privacy"])
    if _counted(booked) != _counted(stated):
        raise Wrong("the ledger holds other charges than the statement.")
    return {"member": body["member"], "epsilon": epsilon, "releases": sum(n for _, n in booked)}


def _counted(charges: list[tuple[dict[str, Any], int]]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for event, count in charges:
        plain = {k: v if k == "kind" else float(v) for k, v in event.items()}
        found[canonical(plain)] = found.get(canonical(plain), 0) + count
    return found


if __name__ == "__main__":
    try:
        print(check_pack(Path(sys.argv[1])))
    except (Wrong, KeyError, ValueError, OSError) as wrong:
        sys.exit(f"{type(wrong).__name__}: {wrong}")
