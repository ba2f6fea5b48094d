"""Files are replaced whole or not at all, and text reads back as the values that were written."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacenda.errors import InputError
from tacenda.formats.files import checked_output, replacing, write_bytes, write_json, write_text
from tacenda.formats.text import canonical_json, json_lines, toml


@pytest.fixture
def small_disk() -> Iterator[int]:
    """No file may grow beyond 64 kB: what a full disk does to a write, without filling one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
    try:
        yield 65536
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_old_file_nothing_beside_it_and_names_it(
    tmp_path: Path, small_disk: int
) -> None:
    target = write_text(tmp_path / "model.bin", "old")
    with pytest.raises(OSError) as failed:
        write_bytes(target, bytes(2 * small_disk))
    assert failed.value.filename == str(target)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.bin"]


def test_a_writer_that_fails_or_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    def fail(error: BaseException) -> None:
        with replacing(tmp_path / "picture.svg") as part:
            assert part.suffix == ".svg"
            part.write_text("half")
            raise error

    for error in (ValueError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            fail(error)
    assert list(tmp_path.iterdir()) == []


def test_a_file_needs_a_folder_that_exists_and_none_is_made_for_it(tmp_path: Path) -> None:
    for write in (lambda p: write_text(p, "x"), checked_output):
        with pytest.raises(InputError, match=r"no folder '.*missing/deep'; make it first"):
            write(tmp_path / "missing" / "deep" / "a.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_what_was_needed_and_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """File systems that allocate late refuse at the flush, after all bytes were taken."""
    free = shutil.disk_usage(tmp_path)

    def full(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: free._replace(free=1000))
    with pytest.raises(OSError, match=r"needs 5,000 bytes and 6,000 are free") as failed:
        write_bytes(tmp_path / "model.bin", bytes(5000))
    assert (failed.value.errno, failed.value.filename) == (code, str(tmp_path / "model.bin"))
    with pytest.raises(OSError, match="needs more than 4 bytes"):
        with replacing(tmp_path / "picture.svg") as part:
            part.write_text("half")
    assert list(tmp_path.iterdir()) == []


def test_the_errors_of_others_keep_their_own_names(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="other.txt"), replacing(tmp_path / "a"):
        (tmp_path / "other.txt").read_text()


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"'.*/file' is a file and not a folder"):
        write_text(tmp_path / "file" / "below", "x")


def test_rights_follow_the_umask_or_are_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        shared = write_text(tmp_path / "shared", "x")
        own = write_bytes(tmp_path / "own", b"x", private=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o640
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    with replacing(tmp_path / "seen", private=True) as part:
        assert stat.S_IMODE(part.stat().st_mode) == 0o600


def test_only_what_must_outlive_the_power_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    write_json(tmp_path / "status.json", {"a": 1}, durable=False)
    assert flushed == []
    write_json(tmp_path / "status.json", {"a": 2})
    assert len(flushed) == 2  # the file, and its name in the folder
    assert json.loads((tmp_path / "status.json").read_text()) == {"a": 2}


def test_a_pipe_is_written_to_not_replaced() -> None:
    code = "from tacenda.formats.files import write_text; write_text('/dev/stdout', 'said')"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "said"


def test_json_is_strict_and_canonical_json_has_one_form(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", {"e": float("inf"), "n": (1, 2.5), "é": None})
    assert json.loads(path.read_text("utf-8")) == {"e": "inf", "n": [1, 2.5], "é": None}
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"\\u00e9","b":1}'
    with pytest.raises(ValueError):
        canonical_json(float("nan"))
    assert json_lines([{"a": 1}, {"a": float("nan")}]) == '{"a": 1}\n{"a": "nan"}\n'


@pytest.mark.parametrize(
    "text", ["-----BEGIN-----\nMII\n-----END-----\n", "a\r\nb", '"""\n\\', "\x7f\x00", ""]
)
def test_toml_keeps_every_text(text: str) -> None:
    assert tomllib.loads(
        toml({"text": text, "nothing": None, "empty": {}, "of": [{"t": text}]})
    ) == {"text": text, "of": [{"t": text}]}
