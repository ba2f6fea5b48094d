"""Noise shared by neighbours on real nodes: keys of the edges, streams that cancel, and what a
smaller graph still hides."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from scipy.stats import kstest

from kept_keys import marked
from node_stage import made_identity, small_contract
from tacenda.errors import PrivacyError, StateError
from tacenda.graph.coalition import edge_streams
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda.privacy.secrets.noise_plan import price
from tacenda.runtime.rehearsal import rehearse
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.edge_keys import CALLER, CURVE, LISTENER, EdgeKeys, combine
from tacenda_node.peer.run_plan import enough_noise, make_plan, smaller_run, topology_of
from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import Handshake, Refused
from tacenda_node.protocol.signed_rows import Witness
from tacenda_node.state.database import NodeState

TERMS = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True, "coalition": 1}
GOSSIP = {"name": "gossipgd", "correlation": 3.0}
NONCE = bytes(32)


def _contract(n: int = 3, graph: str = "ring", **changes: object) -> Contract:
    return small_contract(n, graph=graph, **{"algorithm": GOSSIP, "privacy": TERMS, **changes})


@dataclass
class Member:
    """One member with its state folder and handshake."""

    name: str
    handshake: Handshake
    edges: EdgeKeys
    state: NodeState


@pytest.fixture
def members(tmp_path: Path) -> Iterator[dict[str, Member]]:
    people = {
        name: made_identity(tmp_path / name, name, tmp_path / "ca") for name in ("m0", "m1", "m2")
    }
    plain = _contract().to_plain()
    for member in plain["members"]:
        mine = people[member["name"]]
        member |= {"fingerprint": mine.fingerprint, "signing_key": mine.signing_key}
    contract = Contract.build(plain)
    found = {
        name: _member(contract, name, tmp_path / f"{name}-state", mine)
        for name, mine in people.items()
    }
    yield found
    for member in found.values():
        member.state.close()


def _member(contract: Contract, name: str, folder: Path, identity: Identity) -> Member:
    state = marked(folder)
    edges = EdgeKeys(contract, name, state)
    witness = Witness(contract, name, state, identity.signer())
    return Member(name, Handshake(contract, identity, witness, edges=edges), edges, state)


def key_of(edges: EdgeKeys, peer: str) -> bytes:
    """The key of the first place of an edge."""
    return edges.chain(peer).key((0, 0, 0))


def _meet(caller: Member, listener: Member) -> None:
    """The whole handshake, over the real frames."""
    hello = _sent(caller.handshake.hello(listener.name, NONCE))
    caller.handshake.check_welcome(
        _sent(listener.handshake.welcome(hello, caller.name)), listener.name, NONCE
    )
    words = caller.handshake.confirmation(listener.name)
    assert words is not None
    listener.handshake.confirmed(_sent(words), caller.name)


def _sent(frame: frames.Frame) -> frames.Frame:
    return frames.decode(frames.encode(frame), 1 << 20)


# ---- keys of the edges
def test_both_ends_of_an_edge_get_one_key_and_no_other_edge_has_it(
    members: dict[str, Member],
) -> None:
    m0, m1, m2 = members.values()
    assert m0.edges.missing(["m1", "m2"]) == ["m1", "m2"]
    for caller, listener in ((m0, m1), (m0, m2), (m1, m2)):
        _meet(caller, listener)
    keys = [key_of(m0.edges, "m1"), key_of(m0.edges, "m2"), key_of(m1.edges, "m2")]
    assert keys == [key_of(m1.edges, "m0"), key_of(m2.edges, "m0"), key_of(m2.edges, "m1")]
    assert len(set(keys)) == 3
    assert all(not m.edges.missing(m.handshake.contract.neighbours(m.name)) for m in (m0, m1, m2))


def test_a_reconnection_and_a_restart_keep_the_key(members: dict[str, Member]) -> None:
    m0, m1, _ = members.values()
    _meet(m0, m1)
    key = key_of(m0.edges, "m1")
    again = EdgeKeys(m0.handshake.contract, "m0", m0.state)
    m0.handshake.edges = again
    _meet(m0, m1)
    assert key_of(again, "m1") == key == key_of(m1.edges, "m0")
    assert m0.state.secret("private m1") is None  # the private half is gone once the key is there


def test_a_caller_that_dies_before_the_welcome_comes_back_to_the_same_key(
    members: dict[str, Member],
) -> None:
    m0, m1, _ = members.values()
    hello = _sent(m0.handshake.hello("m1", NONCE))
    m1.handshake.welcome(hello, "m0")
    key = key_of(m1.edges, "m0")
    assert m1.edges.missing(["m0"]) == ["m0"]  # not confirmed: nothing is drawn from it yet
    m0.handshake.edges = m0.edges = EdgeKeys(m0.handshake.contract, "m0", m0.state)
    _meet(m0, m1)
    assert key_of(m0.edges, "m1") == key
    assert m1.edges.missing(["m0"]) == []


def test_another_run_means_another_key(members: dict[str, Member]) -> None:
    """The same halves under another run id give another key."""
    m0, m1, _ = members.values()
    plain = m1.handshake.contract.to_plain() | {"rounds": 6}
    other = EdgeKeys(Contract.build(plain), "m1", m1.state)
    other.agree("m0", m0.edges.half("m1"))
    m0.edges.agree("m1", other.half("m0"))
    assert key_of(m0.edges, "m1") != key_of(other, "m0")
    with pytest.raises(frames.BadFrame, match="check value"):
        other.confirm("m0", m0.edges.check("m1"))


def test_a_half_that_was_changed_on_the_way_is_noticed(members: dict[str, Member]) -> None:
    """m2 in the middle puts its own half into the hello or the welcome:
    the signature covers both."""
    m0, m1, m2 = members.values()
    hello, foreign = m0.handshake.hello("m1", NONCE), m2.edges.half("m1")
    with pytest.raises(frames.BadFrame, match="introduction that it has not signed"):
        m1.handshake.welcome(frames.replaced(hello, half=foreign), "m0")
    half_swapped = frames.replaced(hello, half=hello.half[:CURVE] + foreign[CURVE:])
    with pytest.raises(Refused, match="does not hold the key"):
        m0.handshake.check_welcome(m1.handshake.welcome(half_swapped, "m0"), "m1", NONCE)
    assert m0.edges.missing(["m1"]) == ["m1"]


@pytest.mark.parametrize("field", ["half", "check"])
def test_a_changed_welcome_is_refused(members: dict[str, Member], field: str) -> None:
    m0, m1, _ = members.values()
    welcome = m1.handshake.welcome(m0.handshake.hello("m1", NONCE), "m0")
    values = {f: getattr(welcome, f) for f in welcome.__struct_fields__}
    forged = frames.Welcome(**values | {field: bytes(len(values[field]))})
    with pytest.raises(Refused, match="does not hold the key"):
        m0.handshake.check_welcome(forged, "m1", NONCE)


@pytest.mark.parametrize(
    ("curve", "rest"),
    [
        (b"", b""),
        (b"short", b""),
        (bytes(32), None),
        (b"\1" + bytes(31), None),
        (None, b""),
        (None, b"\xff" * 1184),
        (None, bytes(1183)),
    ],
)
def test_weak_and_missing_halves_are_refused(
    members: dict[str, Member], curve: bytes | None, rest: bytes | None
) -> None:
    """Also where the caller itself has signed them."""
    m0, m1, _ = members.values()
    hello = m0.handshake.hello("m1", NONCE)
    half = (hello.half[:CURVE] if curve is None else curve) + (
        hello.half[CURVE:] if rest is None else rest
    )
    weak = frames.replaced(
        hello, half=half, me=m0.handshake.witness.introduce("m1", "", 0, half[:CURVE])
    )
    with pytest.raises(frames.BadFrame):
        m1.handshake.welcome(weak, "m0")


def test_a_wrong_confirmation_is_refused(members: dict[str, Member]) -> None:
    m0, m1, _ = members.values()
    m1.handshake.welcome(m0.handshake.hello("m1", NONCE), "m0")
    for frame in (frames.Confirm(bytes(16)), frames.Progress(0)):
        with pytest.raises(frames.BadFrame, match="check value"):
            m1.handshake.confirmed(frame, "m0")
    assert m1.edges.missing(["m0"]) == ["m0"]


def test_a_member_whose_state_was_lost_cannot_agree_on_a_new_key(
    members: dict[str, Member], tmp_path: Path
) -> None:
    m0, m1, _ = members.values()
    _meet(m0, m1)
    lost = _member(m0.handshake.contract, "m0", tmp_path / "anew", m0.handshake.identity)
    with pytest.raises(Refused, match="state of m0 was lost"):
        m1.handshake.welcome(lost.handshake.hello("m1", NONCE), "m0")
    lost.state.close()
    lost = _member(m0.handshake.contract, "m1", tmp_path / "anew2", m1.handshake.identity)
    with pytest.raises(StateError, match="has itself signed another edge key"):
        lost.handshake.welcome(m0.handshake.hello("m1", NONCE), "m0")
    lost.state.close()


def test_the_key_holds_as_long_as_either_exchange_does_and_is_bound_to_all_that_was_said() -> None:
    """HKDF-SHA256 by hand (RFC 5869) as the oracle; each secret, each half, each name and the run
    change the key."""
    first, second, run, ends = b"x" * 32, b"k" * 32, "ab" * 32, [("m0", b"one"), ("m1", b"two")]
    info = (
        b"tacenda edge v2\0m0\0"
        + hashlib.sha256(b"one").digest()
        + b"\0m1\0"
        + hashlib.sha256(b"two").digest()
    )
    extracted = hmac.digest(bytes.fromhex(run), first + second, "sha256")
    key = combine(first, second, run, ends)
    assert key == hmac.digest(extracted, info + b"\1", "sha256")
    others = [
        combine(b"y" * 32, second, run, ends),
        combine(first, b"l" * 32, run, ends),
        combine(first, second, "cd" * 32, ends),
        combine(first, second, run, [("m0", b"one"), ("m1", b"twp")]),
        combine(first, second, run, [("m0", b"ona"), ("m1", b"two")]),
        combine(first, second, run, [("m0", b"one"), ("m2", b"two")]),
        combine(first, second, run, ends[::-1]),
    ]
    assert len({key, *others}) == 8


def test_the_lattice_secret_is_in_the_key_and_opens_at_both_ends(
    members: dict[str, Member],
) -> None:
    """The key from the stored private halves, computed here;
    with another ML-KEM ciphertext it is another key."""
    m0, m1, _ = members.values()
    hello = m0.handshake.hello("m1", NONCE)
    raw = m0.state.secret("private m1")
    assert raw is not None
    assert len(hello.half) == CALLER
    welcome = m1.handshake.welcome(hello, "m0")
    assert len(welcome.half) == LISTENER
    curve = X25519PrivateKey.from_private_bytes(raw[:32]).exchange(
        X25519PublicKey.from_public_bytes(welcome.half[:32])
    )
    lattice = MLKEM768PrivateKey.from_seed_bytes(raw[32:])
    ends = [("m0", hello.half), ("m1", welcome.half)]
    first = lambda key: KeyChain.begin(key).key((0, 0, 0))  # noqa: E731
    run = m0.handshake.contract.run_id()
    assert key_of(m1.edges, "m0") == first(
        combine(curve, lattice.decapsulate(welcome.half[32:]), run, ends)
    )
    m0.handshake.check_welcome(welcome, "m1", NONCE)
    assert key_of(m0.edges, "m1") == key_of(m1.edges, "m0")
    assert first(combine(curve, lattice.decapsulate(bytes(1088)), run, ends)) != key_of(
        m1.edges, "m0"
    )
    assert max(len(frames.encode(frame)) for frame in (hello, welcome)) < frames.OVERHEAD


# ---- the noise
def _sources(
    contract: Contract, absent: frozenset[str] = frozenset(), run: str = "run"
) -> list[tuple[KeyedNoise, tuple]]:
    """One source per member of the graph; an edge's key is made of its number."""
    topology = topology_of(contract, absent)
    found = []
    for k in range(topology.n):
        noise = KeyedNoise(KeyChain.begin(bytes([k]) * 32), f"own{k}", floating_point=True)
        noise.share(lambda e: KeyChain.begin(bytes([100 + e]) * 32), run)
        found.append((noise, edge_streams(topology, np.array([k]))))
    return found


def _draws(sources: list, turn: int = 1, call: int = 0, dim: int = 5) -> np.ndarray:
    return np.vstack([noise.shared(edges, turn, call, dim) for noise, edges in sources])


def test_the_shared_part_cancels_in_the_sum_and_is_fresh_every_time() -> None:
    sources = _sources(_contract(5))
    first = _draws(sources)
    np.testing.assert_allclose(first.sum(axis=0), 0, atol=1e-12)
    assert np.abs(first).min() > 0
    np.testing.assert_array_equal(first, _draws(sources))
    changed = [
        _draws(sources, turn=2),
        _draws(sources, call=1),
        _draws(_sources(_contract(5), run="other")),
    ]
    for noise, _ in sources:
        noise.enter(1)
    changed.append(_draws(sources))
    np.testing.assert_allclose(changed[-1].sum(axis=0), 0, atol=1e-12)
    for other in changed:
        assert not np.any(np.isclose(first, other, rtol=0, atol=1e-9))


def test_the_noise_has_the_covariance_that_is_accounted_for() -> None:
    """s^2 (I + c^2 L) over 40,000 coordinates,
    with own parts and shared parts as the door adds them."""
    contract, dim, s, c = _contract(4, graph="path"), 40_000, 0.5, 3.0
    here, zero = np.zeros(1, np.int64), (np.zeros((1, dim)), 1.0, None)
    sources = _sources(contract)
    own = np.vstack([noise.add_gaussian(here, 1, 0, zero, np.array([s])) for noise, _ in sources])
    found = np.cov(own + s * c * _draws(sources, dim=dim))
    laplacian = np.array([[1, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1]])
    expected = s**2 * (np.eye(4) + c**2 * laplacian)
    np.testing.assert_allclose(found, expected, atol=5 * expected.max() / np.sqrt(dim) * 1.5)
    edge = sources[0][0].shared(sources[0][1], 1, 0, dim)[0]
    assert kstest(edge, "norm").pvalue > 1e-3
    assert kstest(edge, "norm", args=(0, 1.5)).pvalue < 1e-6


def test_without_keys_or_without_the_contracts_word_nothing_is_drawn() -> None:
    edges = edge_streams(topology_of(_contract()), np.array([0]))
    with pytest.raises(PrivacyError, match="keys of the edges"):
        KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=True).shared(edges, 1, 0, 3)
    strict = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=False)
    strict.share(lambda e: KeyChain.begin(bytes(32)), "run")
    with pytest.raises(PrivacyError, match="floating_point_noise"):
        strict.shared(edges, 1, 0, 3)


# ---- the plan
def test_the_contract_must_state_the_coalition_and_accept_floating_point() -> None:
    silent = {k: v for k, v in TERMS.items() if k != "coalition"}
    with pytest.raises(PrivacyError, match=r"privacy\.coalition"):
        make_plan(_contract(privacy=silent))
    with pytest.raises(PrivacyError, match="floating_point_noise"):
        make_plan(_contract(privacy=TERMS | {"floating_point_noise": False}))
    make_plan(_contract(privacy=silent, algorithm={"name": "gossipgd", "noise": "independent"}))
    scales = [
        make_plan(_contract(5, privacy=TERMS | {"coalition": q})).calibration.plan.scale[0]
        for q in (0, 1, 2)
    ]
    assert scales[0] < scales[1] < scales[2]


def _brute_force(
    contract: Contract, absent: frozenset[str], ratio: float, q: int
) -> dict[str, float]:
    """The largest [(I + c^2 L_Q)^-1]_ii over all coalitions Q, straight from the definition."""
    names = [name for name in contract.names if name not in absent]
    worst = dict.fromkeys(names, 0.0)
    for size in range(q + 1):
        for curious in combinations(names, size):
            left = [name for name in names if name not in curious]
            laplacian = np.zeros((len(left), len(left)))
            for a, b in contract.edges:
                if a in left and b in left:
                    i, j = left.index(a), left.index(b)
                    laplacian[[i, j], [i, j]] += 1
                    laplacian[[i, j], [j, i]] -= 1
            inverse = np.linalg.inv(np.eye(len(left)) + ratio**2 * laplacian)
            for k, name in enumerate(left):
                worst[name] = max(worst[name], float(inverse[k, k]))
    return worst


@pytest.mark.parametrize(
    ("graph", "q"), [("ring", 0), ("ring", 1), ("complete", 1), ("complete", 2)]
)
def test_fewer_members_draw_more_noise_and_no_release_costs_more(graph: str, q: int) -> None:
    """Seven members, two leave: what each remaining one is charged is the truth, and at most what
    was reserved for it."""
    contract = _contract(7, graph=graph, privacy=TERMS | {"coalition": q})
    plan, absent = make_plan(contract), frozenset({"m2", "m3"})
    topology, truth = topology_of(contract, absent), _brute_force(contract, absent, 3.0, q)
    scales = set()
    for name in topology.labels:
        me, here = contract.position(str(name)), topology.position(str(name))
        scaled = enough_noise(plan, plan.calibration.plan.rows(np.array([me])), topology, here, me)
        scales.add(float(scaled.scale[0]))
        site, _ = rehearse(smaller_run(plan, topology), np.array([here]))[0]
        charge, std = price(scaled, site)
        # Sensitivity 2G/m with G = 1
        mu = 2 / contract.member(str(name)).size * np.sqrt(truth[str(name)]) / std[0]
        assert charge.parameters["mu"][0] == pytest.approx(mu, rel=1e-6)
        reserved, _ = next(iter(plan.calibration.reserved.rows(np.array([me]))))
        assert charge.covered_by(reserved)
    assert len(scales) == 1  # both ends of an edge draw alike
    assert scales.pop() > 1.05 * float(plan.calibration.plan.scale[0])


@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_views_that_differ_would_take_no_noise_from_anybody(graph: str) -> None:
    """The second line behind the signed decisions: streams are named by the set of members taking
    part, so that neighbours who mean different sets share none, and every member is hidden at least
    as well as its own view says."""
    assert _worst_view(_contract(6, graph=graph), named=True) <= 1 + 1e-9


def test_without_the_names_of_the_streams_views_that_differ_would_reveal_more() -> None:
    assert _worst_view(_contract(6, graph="ring"), named=False) > 1.1


def _worst_view(contract: Contract, named: bool) -> float:
    """The largest [C^-1]_ii, as a share of what i's view counts on,
    over random views and any one curious member."""
    names, rng, ratio, worst = contract.names, np.random.default_rng(4), 3.0, 0.0
    views = [frozenset(names) - {gone} for gone in names] + [frozenset(names)]
    counted = {view: _brute_force(contract, frozenset(names) - view, ratio, 1) for view in views}
    for _ in range(60):
        view = {
            name: views[k]
            for name, k in zip(names, rng.integers(len(views), size=len(names)), strict=True)
        }
        for curious in names:
            left = [name for name in names if name != curious and name in view[name]]
            hidden = np.diag(
                np.linalg.inv(_covariance(contract, view, left, curious, ratio, named))
            )
            worst = max(
                [
                    worst,
                    *(h / counted[view[name]][name] for name, h in zip(left, hidden, strict=True)),
                ]
            )
    return worst


def _covariance(
    contract: Contract,
    view: dict[str, frozenset[str]],
    left: list[str],
    curious: str,
    ratio: float,
    named: bool,
) -> np.ndarray:
    """Of the messages of `left` in one round, for who knows the streams of `curious`: one column
    per stream (edge, and view)."""

    def stream(edge: int, name: str) -> tuple[int, list[str]]:
        return edge, sorted(view[name]) if named else []

    streams: list[tuple[int, list[str]]] = sorted(
        stream(i, name) for i, edge in enumerate(contract.edges) for name in edge
    )
    mixed = np.zeros((len(left), len(streams)))
    for i, edge in enumerate(contract.edges):
        for sign, name in zip((1.0, -1.0), edge, strict=True):
            if name in left and curious not in edge and set(edge) <= view[name]:
                mixed[left.index(name), streams.index(stream(i, name))] += sign * ratio
    covariance: np.ndarray = np.eye(len(left)) + mixed @ mixed.T
    return covariance
