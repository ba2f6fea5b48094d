"""Which records are held out, before anything is learnt: by a secret draw that looks at no value.

A record is on one side for ever. Under replace-one, where sizes are public, round(share * m) of a
node's m positions are drawn (`held_out_positions`): which ones depends on the number of records and
on the draw alone, so that another record in one's place changes no other's side. Under add-remove,
where one record more must move no other, each record or person has a coin of its own, by a keyed
hash of what names it (`held_out_by_coin`). Training then charges the records that are trained on,
evaluation the held-out ones, and every record is covered by the larger of the two.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np

from tacenda._types import Flags, Ints
from tacenda.checks import between, whole
from tacenda.data.partition import Shards, broken_promise
from tacenda.errors import InputError
from tacenda.privacy import adjacency as relations
from tacenda.privacy.lasting.fingerprints import record_hashes
from tacenda.privacy.noise.persons import person_names


def held_out_positions(records: int, share: float, seed: int | None = None) -> Ints:
    """Draw which positions of a node are held out.

    Parameters
    ----------
    records : int
        How many the node has; at least 2, so that both sides have one.
    share : float
        Public share, above 0 and below 1.
    seed : int or None, default=None
        Secret, or it is no draw for anybody who knows it; None draws from the system.

    Returns
    -------
    ndarray of int
        round(share * records) rising positions, at least 1 and at most records - 1.

    Raises
    ------
    InputError
        If a node has a single record, or the share is none.

    Examples
    --------
    >>> import tacenda as tc
    >>> len(tc.data.held_out_positions(50, 0.2, seed=0))
    10
    """
    share = between("share", share, 0.0, 1.0)
    if whole("records", records, least=1) < 2:
        raise InputError("records must be at least 2: a single one cannot be on both sides.")
    kept = min(max(round(share * records), 1), records - 1)
    rng = np.random.default_rng(None if seed is None else whole("seed", seed))
    return np.asarray(np.sort(rng.permutation(records)[:kept]), np.int64)


def held_out_by_coin(names: Iterable[bytes | str], share: float, key: bytes) -> Flags:
    """Toss the coin of each record or person, by what names it.

    Parameters
    ----------
    names : iterable of bytes or str
        What names each record: a person's id, or the record's own bytes. Equal names fall alike.
    share : float
        Public chance to be held out, above 0 and below 1.
    key : bytes
        Secret of the node, at least 16 bytes, kept permanently.

    Raises
    ------
    InputError
        If the key is too short.

    Examples
    --------
    >>> import tacenda as tc
    >>> coins = tc.data.held_out_by_coin(["a", "b", "a"], 0.5, b"sixteen bytes!!!")
    >>> len(coins), bool(coins[0] == coins[2])
    (3, True)
    """
    share = between("share", share, 0.0, 1.0)
    if len(key) < 16:
        raise InputError(
            f"key must have at least 16 bytes, not {len(key)}; use secrets.token_bytes."
        )
    limit = int(share * 2.0**64)
    found = []
    for name in names:
        content = name.encode() if isinstance(name, str) else name
        drawn = hashlib.blake2b(content, key=key[:64], digest_size=8, person=b"tacenda-held-out")
        found.append(int.from_bytes(drawn.digest(), "big") < limit)
    return np.array(found, bool)


def hold_out(
    shards: Any, share: float, seed: int | None = None, *, adjacency: str = "replace-one"
) -> tuple[Shards, Shards]:
    """Divide every node's records into those to train on and those held out.

    Parameters
    ----------
    shards : Shards, or list of (X_i, y_i)
        The records of each node.
    share : float
        Public share that is held out, above 0 and below 1: round(share * m) of m records. Where the
        shards say whose the records are (`Shards.persons`), each person's own chance.
    seed : int or None, default=None
        Of the draw; None draws from the system, which real data needs.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        That of the runs on both sides. Under "add-remove" each record has a coin of its own, since
        an exact number would move another record when one is added.

    Returns
    -------
    training : Shards
        The records to train on, in their order.
    held_out : Shards
        The others.

    Raises
    ------
    InputError
        If a node has a single record, or the share is none.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(100, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> training, held_out = tc.data.hold_out(shards, 0.2, seed=0)
    >>> [len(y) for _, y in training], [len(y) for _, y in held_out]
    ([20, 20, 20, 20], [5, 5, 5, 5])
    """
    parts = list(shards.values()) if isinstance(shards, dict) else list(shards)
    labels = list(shards) if isinstance(shards, dict) else getattr(shards, "labels", None)
    kind = getattr(shards, "kind", None)
    persons = getattr(shards, "persons", None)
    relations.check(adjacency)
    if (
        persons is None
        and adjacency == "replace-one"
        and broken_promise(kind, "add-remove", 2) is None
    ):
        kind = "held-out"
    key = secrets.token_bytes(32) if seed is None else _seed_key(seed)
    ids: tuple[list[Any], list[Any]] = ([], [])
    sides: tuple[list[Any], list[Any]] = ([], [])
    for k, (rows, answers) in enumerate(parts):
        count = len(answers)
        if persons is not None:  # all of a person's records on one side, on every node
            held = held_out_by_coin(person_names(persons[k]), share, key)
        elif adjacency == "add-remove":
            blocks = record_hashes(rows, np.zeros(count), key)
            features = (one for block in blocks for one in block)
            texts = map(str, np.asarray(answers).tolist())  # whatever labels are: also text
            names = (x + y.encode() for x, y in zip(features, texts, strict=True))
            held = held_out_by_coin(names, share, key)
        else:
            own = None if seed is None else _state(seed, k)
            held = np.zeros(count, bool)
            held[held_out_positions(count, share, own)] = True
        for side, who, chosen in zip(sides, ids, (~held, held), strict=True):
            side.append((rows[np.flatnonzero(chosen)], np.asarray(answers)[chosen]))
            who.append(None if persons is None else np.asarray(persons[k])[chosen])
    training, others = (
        Shards(side, labels, kind, None if persons is None else who)
        for side, who in zip(sides, ids, strict=True)
    )
    return training, others


def _state(seed: int, node: int) -> int:
    return int(np.random.SeedSequence([seed, node]).generate_state(1)[0])


def _seed_key(seed: int) -> bytes:
    """A key for coins that anybody with the seed can toss again."""
    return hashlib.sha256(f"held out {whole('seed', seed)}".encode()).digest()


def split_source(seed: int | None) -> np.random.Generator:
    """Where a search draws its split and its seeds from; None draws from the system."""
    return np.random.default_rng(seed)


def held_out_records(
    nodes: Any,
    count: int,
    share: float,
    adjacency: str,
    source: np.random.Generator,
    persons: Any = None,
) -> Flags:
    """(count,) whether each record is held out, drawn without a look at any record: so many of
    each holder's, or under add-remove each, or each person, by a coin of its own."""
    if adjacency == "add-remove":
        names = map(str, range(count)) if persons is None else persons
        return held_out_by_coin(names, share, source.bytes(32))
    away = np.zeros(count, bool)
    for own in [np.arange(count)] if nodes is None else _positions(nodes):
        seed = int(source.integers(2**62))
        away[own[held_out_positions(len(own), share, seed)]] = True
    return away


def _positions(nodes: Any) -> list[Ints]:
    _, number = np.unique(nodes, return_inverse=True)
    return [np.flatnonzero(number == k) for k in range(int(number.max(initial=-1)) + 1)]
