"""From names and tables to algorithms and back."""

from __future__ import annotations

import pytest

import tacenda as tc
from tacenda.algorithms.registry import by_name, code_of, from_plain, prepared
from tacenda.algorithms.whitened import Whitened
from tacenda.algorithms.whitening import Whitening
from tacenda.errors import InputError

A = tc.algorithms


def test_plain_values_there_and_back() -> None:
    wrapped = Whitened(A.TreeGD(noise="independent", step_size=2.0), Whitening(share=0.2, clip=0.3))
    plain = wrapped.to_plain()
    assert plain["name"] == "whitened" and plain["algorithm"]["name"] == "treegd"
    assert from_plain(plain) == wrapped
    assert by_name(**plain) == wrapped
    assert code_of(wrapped) is None


def test_prepared_takes_names_tables_and_objects() -> None:
    inner = A.TreeGD()
    assert prepared(inner, None) is inner
    for given_ in ("whitening", {"name": "whitening"}, Whitening()):
        assert prepared(inner, given_) == Whitened(inner)
    with pytest.raises(InputError, match="whitens its records already"):
        prepared(prepared(inner, "whitening"), "whitening")
    for wrong in ("whiten", {"name": "whitening", "shares": 0.1}, 0.1):
        with pytest.raises(InputError, match="prepare"):
            prepared(inner, wrong)
    with pytest.raises(InputError, match="the table of the algorithm behind it"):
        by_name("whitened", share=0.1)
