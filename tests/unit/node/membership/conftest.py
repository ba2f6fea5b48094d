"""Fixtures of the tests of membership: members without sockets, whose keys the tests hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agreement_stage import Five


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Five:
    """A ring of five; a module with other members has its own."""
    return Five(tmp_path_factory.mktemp("five"))


@pytest.fixture
def five(made: Five) -> Iterator[Five]:
    """The members, closed after each test."""
    yield made
    made.close()
