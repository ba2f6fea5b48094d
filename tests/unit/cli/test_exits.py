"""What the machine lacks is named with its remedy, and is no fault of the program."""

from __future__ import annotations

import errno

import pytest

from tacenda.cli import exits


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "not enough memory"),
        (ImportError("lib.so: failed to map segment from shared object"), "not enough memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory"),
        (OSError(errno.EMFILE, "Too many open files", "contract.toml"), "ulimit -n"),
    ],
)
def test_what_the_machine_lacks(error: Exception, words: str) -> None:
    assert exits.code_of(error) == exits.STATE
    assert words in exits.sentence_of(error)
    assert "what was saved before is whole" in exits.sentence_of(error)


def test_a_missing_package_is_still_one() -> None:
    error = ImportError("No module named 'grpc'")
    assert exits.code_of(error) == exits.INPUT
    assert exits.sentence_of(error) == "a package is missing: No module named 'grpc'."
