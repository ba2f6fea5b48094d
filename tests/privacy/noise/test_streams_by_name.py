"""Where a node's noise comes from, drawn again by hand: each kind of draw is the one of its key,
run, view, question, round and call, added to the right value."""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tacenda.errors import PrivacyError
from tacenda.privacy.noise.discrete import AesStream, aes_normal, discrete_gaussian, l2_laplace
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import AtPosition, KeyedNoise, rounded_up
from tacenda.privacy.noise.sources import SimulatedNoise

KEY, HERE = bytes(range(32)), np.zeros(1, np.int64)
OFFSET = np.array([[10.0, -20.0, 0.5]])


def key_of(place: tuple[int, int, int], secret: bytes = KEY) -> bytes:
    """The key of a place, step by step."""

    def step(before: bytes, what: str) -> bytes:
        return hmac.new(before, f"tacenda chain v1 {what}".encode(), hashlib.sha256).digest()

    view, turn, call = place
    for _ in range(view):
        secret = step(secret, "view")
    found = step(secret, "rounds")
    for _ in range(turn):
        found = step(found, "round")
    found = step(found, "calls")
    for _ in range(call):
        found = step(found, "call")
    return step(found, "key")


def source(run: str = "run", floating: bool = True) -> KeyedNoise:
    return KeyedNoise(KeyChain.begin(KEY), run, floating_point=floating)


@pytest.mark.parametrize("offset", [None, OFFSET])
@pytest.mark.parametrize("factor", [0.25, np.array([[-0.5]])])
def test_noise_on_whole_numbers(offset: Any, factor: Any) -> None:
    core = np.array([[5, -7, 0]], np.int64)
    found = source(floating=False).add_gaussian(HERE, 3, 2, (core, factor, offset), np.array([1.7]))
    step = float(np.asarray(factor).reshape(-1)[0])
    scale = rounded_up(1.7 / abs(step))
    whole = core + discrete_gaussian(scale, (1, 3), AesStream(key_of((0, 3, 2)), "run", 3, 2))
    assert np.array_equal(found, whole * step + (0 if offset is None else offset))


@pytest.mark.parametrize("offset", [None, OFFSET])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_floating_point_noise(offset: Any, kind: Any) -> None:
    core = np.array([[5.0, -7.0, 0.1]], kind)
    noise = source()
    found = noise.add_gaussian(HERE, 3, 2, (core, 2.0, offset), np.array([1.7]))
    drawn = 1.7 * aes_normal((1, 3), AesStream(key_of((0, 3, 2)), "run", 3, 2))
    wanted = (core * 2.0 + drawn).astype(kind)
    assert np.array_equal(found, wanted if offset is None else wanted + offset)
    assert "floating-point" in noise.kind and "exact discrete" in source(floating=False).kind


def test_questions_and_views_name_other_streams_of_the_same_run() -> None:
    """A view's name follows the run's: two runs stay apart in every view, and a view is the same
    however it was reached."""

    def drawn(noise: KeyedNoise) -> Any:
        return noise.l2_laplace(HERE, 1, 4, np.ones(1), 5)

    def entered(run: str, *views: int) -> KeyedNoise:
        noise = source(run)
        for view in views:
            noise.enter(view)
        return noise

    def by_hand(name: str, view: int = 0) -> Any:
        return l2_laplace(np.ones(1), (1, 5), AesStream(key_of((view, 1, 4)), name, 1, 4))

    assert np.array_equal(drawn(source("a")), by_hand("a"))
    assert np.array_equal(drawn(entered("a", 1)), by_hand("a#1", 1))
    assert np.array_equal(drawn(entered("a", 1, 2)), by_hand("a#2", 2))
    assert np.array_equal(drawn(entered("b", 2)), by_hand("b#2", 2))
    assert np.array_equal(drawn(source("a").asked(b"\x01\xff")), by_hand("a?01ff"))
    assert np.array_equal(drawn(entered("a", 3).asked(b"\x05")), by_hand("a#3?05", 3))
    with pytest.raises(PrivacyError, match="no question was given"):
        source().asked(b"")


def test_samples_of_records() -> None:
    sizes, rates = np.array([40]), np.array([0.3])
    indptr, records = source().poisson_records(HERE, 2, 1, sizes, rates)
    uniform = [int(word) >> 11 for word in AesStream(key_of((0, 2, 1)), "run", 2, 1).words(40)]
    wanted = [k for k, u in enumerate(uniform) if u < 0.3 * 2**53]
    assert records.tolist() == wanted and indptr.tolist() == [0, len(wanted)]
    everybody = source().poisson_records(HERE, 2, 1, sizes, np.array([1.0]))[1]
    assert everybody.tolist() == list(range(40))
    for turn in range(20):
        indptr, one = source().one_record(HERE, turn, 1, np.array([7]))
        word = int(AesStream(key_of((0, turn, 1)), "run", turn, 1).words(1)[0])
        assert one.tolist() == [word % 7] and indptr.tolist() == [0, 1]


def test_a_remainder_that_would_favour_small_numbers_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 2^64 words the last 2^64 mod m are left out."""
    limit = 2**64 - 2**64 % 7
    words = iter([2**64 - 1, limit, limit - 1, 3])

    class Told:
        def words(self, count: int) -> Any:
            return np.array([next(words)], np.uint64)

    monkeypatch.setattr(KeyedNoise, "_stream", lambda *_: Told())
    assert source().one_record(HERE, 1, 1, np.array([7]))[1].tolist() == [(limit - 1) % 7]
    assert next(words) == 3


def test_shared_noise_is_the_signed_sum_over_the_edges() -> None:
    keys = {4: b"a" * 32, 9: b"b" * 32}
    noise = source()
    edges = (np.array([0, 2]), np.array([4, 9]), np.array([1.0, -1.0]))
    with pytest.raises(PrivacyError, match="keys of the edges"):
        noise.shared(edges, 3, 1, 2)
    noise.share(lambda k: KeyChain.begin(keys[k]), "both ends")
    for view in (0, 5):
        if view:
            noise.enter(view)
        place = (view, 3, 1)
        streams = [AesStream(key_of(place, keys[k]), f"both ends#{view}", 3, 1) for k in (4, 9)]
        wanted = aes_normal((1, 2), streams[0]) - aes_normal((1, 2), streams[1])
        np.testing.assert_allclose(noise.shared(edges, 3, 1, 2), wanted, rtol=1e-15)
    with pytest.raises(TypeError, match="secret key"):
        noise.__reduce__()


def test_a_rehearsing_node_draws_what_the_simulation_draws_at_its_place() -> None:
    """Its only record store has position 0; its place in the graph is another."""
    seeded = SimulatedNoise(7)
    for place in (0, 3):
        at, there = AtPosition(SimulatedNoise(7), place), np.array([place])
        core = np.arange(4.0)[None]
        for parts in ((core, 2.0, None), (core, np.array([[0.5]]), np.ones((1, 4)))):
            assert np.array_equal(
                at.add_gaussian(HERE, 3, 2, parts, np.array([1.5])),
                seeded.add_gaussian(there, 3, 2, parts, np.array([1.5])),
            )
        rate = np.array([0.4])
        assert np.array_equal(
            at.l2_laplace(HERE, 3, 2, rate, 4), seeded.l2_laplace(there, 3, 2, rate, 4)
        )
        sizes = np.array([50])
        for mine, theirs in zip(
            at.poisson_records(HERE, 3, 2, sizes, rate),
            seeded.poisson_records(there, 3, 2, sizes, rate),
            strict=True,
        ):
            assert np.array_equal(mine, theirs)
        for turn in range(1, 5):
            for mine, theirs in zip(
                at.one_record(HERE, turn, 2, sizes),
                seeded.one_record(there, turn, 2, sizes),
                strict=True,
            ):
                assert np.array_equal(mine, theirs)
        edges = (np.array([0, 2]), np.array([4, 9]), np.array([1.0, -1.0]))
        assert np.array_equal(at.shared(edges, 3, 2, 4), seeded.shared(edges, 3, 2, 4))
        before = at.l2_laplace(HERE, 3, 2, rate, 4)
        at.enter(2)
        assert np.array_equal(before, at.l2_laplace(HERE, 3, 2, rate, 4))
        assert at.kind == seeded.kind and at.asked(b"q") is at


def test_rounding_up_keeps_thirty_bits() -> None:
    for scale in (1.0, 1.5, 3 * 2.0**-7, 2.0**20):
        assert rounded_up(scale) == scale  # few bits: nothing to round
    for scale in (1 / 3, 1e5 / 7, 2.0 - 2.0**-40):
        found = rounded_up(scale)
        mantissa = found / 2.0 ** np.floor(np.log2(scale))
        assert scale <= found < scale * (1 + 2.0**-28)
        assert mantissa * 2.0**29 == round(mantissa * 2.0**29)


@pytest.mark.parametrize("place", [("run", 3, 2, 0), ("", 0, 0, 0), ("r" * 70, 2**40, 9, 5)])
def test_a_stream_is_aes_in_counter_mode_under_a_key_made_of_its_name(place: Any) -> None:
    """A change of one letter would draw other noise for a run that goes on after an update."""
    run, turn, call, spare = place
    name = b"tacenda noise v1" + struct.pack(">Q", len(run)) + run.encode()
    name += struct.pack(">QQQ", turn, call, spare)
    key = hmac.new(KEY, name, hashlib.sha256).digest()
    blocks = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    plain = b"".join(blocks.update(k.to_bytes(16, "big")) for k in range(6))
    words = list(struct.unpack("<12Q", plain))
    stream = AesStream(KEY, run, turn, call, spare)
    assert [*stream.words(5).tolist(), *stream.words(7).tolist()] == words
    side = AesStream(KEY, run, turn, call, spare + 1).words(4)
    assert stream.side().words(4).tolist() == side.tolist() != words[:4]
    assert AesStream.fresh().words(2).tolist() != AesStream.fresh().words(2).tolist()
