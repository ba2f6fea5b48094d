"""Private copies of tables: the same rows, for their owner alone, never stale, never broken, and
bounded."""

import gzip
import os
import stat

import numpy as np
import pytest
from typer.testing import CliRunner

from tacenda import data
from tacenda._copies import allowed
from tacenda.cli.app import app
from tacenda.data import csv_files, readers, table_cache

SCHEMA = data.Schema.build(
    columns=[
        {"kind": "numeric", "name": "x", "low": 0, "high": 10},
        {"kind": "categorical", "name": "c", "levels": ["ä", "b"]},
    ],
    label={"name": "y", "classes": ["0", "1"]},
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TACENDA_CACHE", str(tmp_path / "copies"))
    monkeypatch.setattr(csv_files, "SMALL_CSV", 0)
    return tmp_path


def write(place, seed=0, records=500):
    rng = np.random.default_rng(seed)
    rows = [
        f"{rng.random() * 12:.3f},{'äb'[rng.integers(2)]},{rng.integers(2)}" for _ in range(records)
    ]
    path = place / "t.csv"
    path.write_text("x,c,y\n" + "\n".join(rows), encoding="utf-8")
    return path


def unread(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the file was read")

    monkeypatch.setattr(readers, "iter_csv", refuse)


def same(one, other):
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.y, other.y)


def test_the_second_reading_needs_no_file_and_gives_the_same(place, monkeypatch):
    path = write(place)
    plain = data.encode(SCHEMA, path)
    assert not table_cache.copies()  # the library keeps none
    with allowed(True):
        same(data.encode(SCHEMA, path), plain)
        unread(monkeypatch)
        same(data.encode(SCHEMA, path), plain)
        lazy = data.encode(SCHEMA, path, lazy=True)
        np.testing.assert_array_equal(lazy.X[np.array([3, 77, 12])].read(), plain.X[[3, 77, 12]])
        parts = list(readers.iter_tables(path, rows=7, names=["c"], only=np.array([5, 6, 200])))
    assert [part.number(0) for part in parts] == [6, 201]
    lines = path.read_text("utf-8").splitlines()
    assert [cell for part in parts for cell in part.columns["c"]] == [
        lines[k].split(",")[1] for k in (6, 7, 201)
    ]


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_copy_is_for_its_owner_alone(place):
    before = os.umask(0)
    try:
        with allowed(True):
            data.read_table(write(place))
    finally:
        os.umask(before)
    ((copy, _, _),) = table_cache.copies()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700


def test_another_content_is_another_copy(place):
    path = write(place, 0)
    facts = path.stat()
    with allowed(True):
        data.read_table(path)
        write(place, 1)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # a change that no clock shows
        table_cache._content.cache_clear()
        found = data.encode(SCHEMA, path)
    same(found, data.encode(SCHEMA, path))
    assert len(table_cache.copies()) == 2


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "text"])
def test_a_damaged_copy_is_noticed_and_made_again(place, damage):
    path = write(place)
    with allowed(True):
        expected = data.encode(SCHEMA, path)
        ((copy, size, _),) = table_cache.copies()
        raw = bytearray(copy.read_bytes())
        raw[size // 2] ^= 1
        new = {"bit": bytes(raw), "cut": bytes(raw[: size // 2]), "empty": b"", "text": b"x" * 99}
        copy.write_bytes(new[damage])
        same(data.encode(SCHEMA, path), expected)
        ((copy, again, _),) = table_cache.copies()
        assert again == size and copy.read_bytes() != new[damage]


def test_copies_are_bounded_and_the_oldest_goes_first(place, monkeypatch):
    with allowed(True):
        data.read_table(write(place, 0))
        ((first, size, _),) = table_cache.copies()
        os.utime(first, (1, 1))
        monkeypatch.setattr(table_cache, "LARGEST_CACHE", 2 * size + 100)
        data.read_table(write(place, 1))
        data.read_table(write(place, 2))
        assert len(table_cache.copies()) == 2 and not first.exists()
        monkeypatch.setattr(table_cache, "LARGEST_FILE", 10)
        data.read_table(write(place, 3))
    assert len(table_cache.copies()) == 2
    assert table_cache.clear() == 2 and not table_cache.copies()


def test_a_file_that_changes_while_it_is_read_leaves_no_copy(place):
    path = write(place)
    with allowed(True):
        tables = readers.iter_tables(path, rows=100)
        next(tables)
        with path.open("a") as file:
            file.write("\n")
        list(tables)
    assert not table_cache.copies()


def test_where_nothing_can_be_written_nothing_is_kept(place, monkeypatch):
    (place / "file").write_text("")
    monkeypatch.setenv("TACENDA_CACHE", str(place / "file" / "below"))
    with allowed(True):
        assert len(data.read_table(write(place))) == 500


def test_packed_files_too(place, monkeypatch):
    path = place / "t.csv.gz"
    path.write_bytes(gzip.compress(write(place).read_bytes()))
    with allowed(True):
        whole = data.encode(SCHEMA, path)
        unread(monkeypatch)
        same(data.encode(SCHEMA, path), whole)


def test_on_the_command_line(place, monkeypatch):
    path, schema = write(place), place / "s.toml"
    SCHEMA.write(schema)
    run = lambda *words: CliRunner().invoke(app, list(words))  # noqa: E731
    check = ("schema", "check", str(schema), "--data", str(path))
    assert run(*check, "--no-cache").exit_code == 0 and not table_cache.copies()
    with monkeypatch.context() as patch:
        patch.setenv("TACENDA_CACHE", "OFF")
        assert run(*check).exit_code == 0
    assert not table_cache.copies()
    assert run(*check).exit_code == 0 and len(table_cache.copies()) == 1
    shown = run("cache", "show")
    assert "1 copy" in shown.output and str(place / "copies") in shown.output
    assert '"copies": [' in run("cache", "show", "--json").output
    unread(monkeypatch)
    assert run(*check).exit_code == 0
    assert "1 copy deleted" in run("cache", "clear").output and not table_cache.copies()


def test_a_nodes_records_are_never_copied():
    from tacenda.cli.table import commands

    own = {"node", "consortium", "contract", "certs", "doctor", "relay"}
    assert not any(commands()[name].keeps_copies for name in own)
    assert commands()["fit"].keeps_copies
