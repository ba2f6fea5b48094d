"""What a stolen folder gives away: the keys of rounds to come, and none of those that are settled.

A thief here has whole folders and marks, tries every 32 bytes in them as every kind of key, and
knows what the right noise would be.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kept_keys import marked
from node_stage import small_contract
from tacenda.errors import StateError
from tacenda.graph.coalition import edge_streams
from tacenda.privacy.noise.aes import AesStream
from tacenda.privacy.noise.key_chain import KeyChain, Place
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda_node.identity.edge_keys import EdgeKeys
from tacenda_node.peer.run_plan import topology_of
from tacenda_node.state.database import FILE, NodeState
from tacenda_node.state.mark import NO_SECRET, Mark
from tacenda_node.state.secrets import EDGE, NOISE, next_secret, opened

DIM, ROUNDS, QUESTION = 5, 6, bytes(range(32))
EVENT = {"kind": "gaussian", "noise_multiplier": 2.0}
VICTIM, THIEVES = "m0", ("m1", "m2")  # all neighbours of the victim: q + 1 members, with q = 1


class Federation:
    """Members of a masked run on a triangle, with their states on the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.contract = folder, small_contract(3)
        self.states: dict[str, NodeState] = {}
        self.edges: dict[str, EdgeKeys] = {}
        self.private: list[bytes] = []  # all secrets that were ever there
        for name in self.contract.names:
            self.states[name] = marked(folder / name, folder / f"{name}.mark")
            self.edges[name] = EdgeKeys(self.contract, name, self.states[name])
        for a, b in self.contract.edges:
            first, second = self.edges[a], self.edges[b]
            second.agree(a, first.half(b))
            self.private.append(self.states[a].secret(f"private {b}") or b"")
            first.agree(b, second.half(a), confirmed=True, check=second.check(a))
            second.confirm(a, first.check(b))
        assert all(len(raw) == 96 for raw in self.private)
        self.remember()

    def noise(self, name: str) -> KeyedNoise:
        """A member's noise, from the keys that it holds now."""
        topology = topology_of(self.contract)
        source = KeyedNoise(self.states[name].keys(NOISE), name, floating_point=False, masked=True)

        def other(k: int) -> str:
            ends = (str(topology.labels[int(end)]) for end in topology.edges[k])
            return next(end for end in ends if end != name)

        source.share(lambda k: self.edges[name].chain(other(k)), "run")
        return source.asked(QUESTION)

    def round(self, turn: int, view: int = 0) -> dict[str, np.ndarray]:
        """The masked rows that all members send in a round, each durable with its charge."""
        rows = {}
        for name, state in self.states.items():
            source = self.noise(name)
            source.enter(view)
            at = edge_streams(topology_of(self.contract), np.array([int(name[1:])]))
            own = source.whole_gaussian(np.zeros(1), turn, 1, np.array([1e6]), DIM)
            rows[name] = own.view(np.uint64) + source.masks(at, turn, 1, DIM)
            key = (view, turn, 1)
            stored = [(key, rows[name].tobytes(), 1)]
            frame = rows[name].tobytes()
            state.commit(
                [(key, EVENT, QUESTION)], [(key, "all", frame)], (view, turn - 1, b"s"), None, [],
                stored,
            )  # fmt: skip
        self.remember()
        return rows

    def remember(self) -> None:
        """Note every secret of this moment."""
        for name, state in self.states.items():
            secrets = state._secrets
            self.private.append(secrets._secret)
            for raw in secrets._values.values():
                self.private += [raw[at : at + 32] for at in range(24, len(raw), 32)]
            assert NOISE in secrets._values and name

    def close(self) -> None:
        for state in self.states.values():
            state.close()


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    found = Federation(tmp_path / "members")
    yield found
    found.close()


def files(folder: Path, names: tuple[str, ...]) -> list[bytes]:
    """All that a thief carries off."""
    places = [folder / f"{name}.mark" for name in names]
    places += [path for name in names for path in (folder / name).rglob("*") if path.is_file()]
    return [path.read_bytes() for path in places]


def holds(contents: list[bytes], secret: bytes) -> bool:
    forms = (secret, secret.hex().encode(), base64.b64encode(secret).rstrip(b"="))
    return any(form in data for data in contents for form in forms)


def stolen_chains(folder: Path, name: str) -> dict[str, KeyChain]:
    """The chains of a stolen folder, opened with its mark as the program does."""
    state = marked(folder / name, folder / f"{name}.mark")
    found = {
        key: KeyChain.from_bytes(raw)
        for key, raw in state._secrets._values.items()
        if key == NOISE or key.startswith(EDGE)
    }
    state.close()
    return found


def attack(folder: Path, place: Place, truths: set[bytes]) -> set[bytes]:
    """Which masks of a place the thieves' files give: with their chains as the program opens them,
    and with any 32 bytes taken for a key, for a secret of the chain, or for its beginning."""
    view, turn, call = place
    name, found = f"run#{view}masks?{QUESTION.hex()}", set[bytes]()

    def words(key: bytes) -> bytes:
        return AesStream(key, name, turn, call).words(DIM).tobytes()

    for thief in THIEVES:
        chains = stolen_chains(folder, thief).values()
        found |= {words(chain.key(place)) for chain in chains if not chain.has_passed(place)}
    windows = {
        data[at : at + 32]
        for data in files(folder, THIEVES)
        for at in range(len(data) - 31)
        if len(set(data[at : at + 32])) >= 20  # not of text, numbers or zeros
    }
    for secret in windows:
        as_calls = KeyChain(place, secret, secret, secret)
        as_rounds = KeyChain((view, turn - 1, 0), secret, secret, secret)
        found |= {words(secret), words(as_calls.key(place)), words(as_rounds.key(place))}
        found.add(words(KeyChain.begin(secret).key(place)))
    return found & truths


def test_all_neighbours_folders_and_the_traffic_give_no_settled_row(
    federation: Federation, tmp_path: Path
) -> None:
    """The thieves hold both ends' keys but the victim's own; the traffic is `rows`."""
    rows: dict[int, np.ndarray] = {}
    truth: dict[tuple[int, str], bytes] = {}
    for turn in (1, 2, 3):
        chains = {peer: federation.edges[VICTIM].chain(peer) for peer in THIEVES}
        place = (0, turn, 1)
        for peer, keys in chains.items():
            stream = AesStream(keys.key(place), f"run#0masks?{QUESTION.hex()}", turn, 1)
            truth[turn, peer] = stream.words(DIM).tobytes()
        if turn == 3:
            shutil.copytree(federation.folder, tmp_path / "before")
        rows[turn] = federation.round(turn)[VICTIM]
    shutil.copytree(federation.folder, tmp_path / "after")
    # Both masks taken off, only the victim's own noise is left: what the thieves are after
    bare = rows[3][0].copy()
    for peer in THIEVES:
        mask = np.frombuffer(truth[3, peer], np.uint64)
        bare = bare - mask if peer > VICTIM else bare + mask
    assert np.abs(bare.view(np.int64)).max() < 1e8 < np.abs(rows[3][0].view(np.int64)).max()
    last = {truth[3, peer] for peer in THIEVES}
    # The attack works: on folders from before the round it finds both masks
    assert attack(tmp_path / "before", (0, 3, 1), last) == last
    assert not attack(tmp_path / "after", (0, 3, 1), last)


def test_no_old_secret_is_in_a_folder_its_log_or_its_mark(federation: Federation) -> None:
    for turn in range(1, ROUNDS + 1):
        federation.round(turn)
        now = {name: state._secrets for name, state in federation.states.items()}
        open_now = {secrets._secret for secrets in now.values()}
        contents = files(federation.folder, federation.contract.names)
        for secret in federation.private:
            assert holds(contents, secret) == (secret in open_now), turn


def test_after_another_view_the_keys_of_the_one_before_are_gone(federation: Federation) -> None:
    federation.round(1)
    states = federation.states.items()
    before = {name: state.keys(NOISE).key((0, 2, 0)) for name, state in states}
    total = sum(federation.round(2, view=3).values())
    assert np.abs(np.asarray(total).view(np.int64)).max() < 1e8  # the masks cancel at all ends
    for name, key in before.items():
        assert federation.states[name].keys(NOISE).has_passed((0, 2, 0))
        assert not holds(files(federation.folder, (name,)), key)


def test_a_finished_run_keeps_no_key(federation: Federation) -> None:
    federation.round(1)
    federation.remember()
    for name, state in federation.states.items():
        state.destroy_keys()
        state.destroy_keys()  # once more changes nothing
        with pytest.raises(StateError, match="keys of this run are not here any more"):
            state.keys(NOISE).key((0, 2, 0))
        assert state.charges() and state.get("key") is not None and name
        assert federation.edges[name].check(next(iter(federation.contract.neighbours(name))))
    contents = files(federation.folder, federation.contract.names)
    assert not any(holds(contents, secret) for secret in federation.private)
    federation.close()
    for name in federation.contract.names:  # and so it stays
        state = marked(federation.folder / name, federation.folder / f"{name}.mark")
        with pytest.raises(StateError, match="keys of this run are not here any more"):
            state.keys(NOISE).key((0, 2, 0))
        federation.states[name] = state


# ---- crashes
def test_a_crash_between_the_charges_and_the_mark_goes_on(
    federation: Federation, tmp_path: Path
) -> None:
    """The mark then opens what is one step ahead of it, and never what is behind or further on."""
    kept = []
    for turn in range(1, 4):
        kept.append((federation.folder / "m0.mark").read_bytes())
        federation.round(turn)
    kept.append((federation.folder / "m0.mark").read_bytes())
    for back, goes_on in ((0, True), (1, True), (2, False), (3, False)):
        home = tmp_path / f"back {back}"
        shutil.copytree(federation.folder / "m0", home / "m0")
        (home / "m0.mark").write_bytes(kept[3 - back])
        if goes_on:
            state = marked(home / "m0", home / "m0.mark")
            assert state.keys(NOISE).has_passed((0, 3, 1))
            assert not state.keys(NOISE).has_passed((0, 3, 2))
            state.close()
            assert (home / "m0.mark").read_bytes() == kept[3]
        else:
            with pytest.raises(StateError, match="do not open with its mark"):
                marked(home / "m0", home / "m0.mark")


def test_a_mark_that_could_not_be_written_is_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = marked(tmp_path / "state")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", full)
        for turn in (1, 2):
            with pytest.raises(StateError, match="cannot be written"):
                state.commit([((0, turn, 0), EVENT, b"q")], [], (0, turn - 1, b"s"))
    state.close()
    state = marked(tmp_path / "state")
    assert [key for key, _ in state.charges()] == [(0, 1, 0), (0, 2, 0)]
    assert state.keys(NOISE).has_passed((0, 2, 0)) and not state.keys(NOISE).has_passed((0, 2, 1))
    state.close()


def test_what_was_released_is_stored_until_a_checkpoint_holds_it(tmp_path: Path) -> None:
    state = marked(tmp_path / "state")
    for turn in (1, 2):
        key = (0, turn, 0)
        state.commit([(key, EVENT, b"q")], [], (0, turn - 1, None), None, [], [(key, b"value", 2)])
        assert state.released(key) == b"value"
        assert state.keys(NOISE).has_passed((0, turn, 1))  # both places that it took
    state.commit([], [], (0, 1, b"state"))
    assert state.released((0, 1, 0)) is None and state.released((0, 2, 0)) == b"value"
    state.close()


def test_secrets_of_an_emptied_table_are_not_begun_anew(tmp_path: Path) -> None:
    state = marked(tmp_path / "state")
    state._file.execute("DELETE FROM secrets")
    state.close()
    with pytest.raises(StateError, match="its keys are gone, though no run has ended"):
        marked(tmp_path / "state")


def test_the_mark_alone_opens_them(tmp_path: Path) -> None:
    state = marked(tmp_path / "state")
    sealed = bytes(state._file.one("SELECT sealed FROM secrets")[0])  # type: ignore[index]
    lasting = state.get("key") or b""
    state.close()
    mark = Mark(tmp_path / "state.mark", lasting)
    noted = mark.open()
    mark.close()
    assert noted is not None and noted[1] != NO_SECRET
    assert opened(sealed, noted[1]) is not None
    assert opened(sealed, next_secret(noted[1])) is None and opened(sealed, lasting) is None
    assert (tmp_path / "state" / FILE).exists()
