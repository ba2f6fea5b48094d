"""The lasting ledger: budgets, reservations, idempotent charges, and tampering that is named."""

import json
import math
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tacenda.errors import BudgetError, InputError, PrivacyError, StateError
from tacenda.privacy.accounting.calibration import solve_scale
from tacenda.privacy.accounting.events import (
    Gaussian,
    L2Laplace,
    OneOfGaussian,
    PoissonGaussian,
    Pure,
)
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting import files as store_files
from tacenda.privacy.lasting.database import verify_lines
from tacenda.privacy.lasting.ledger_store import LedgerStore


@pytest.fixture
def ledger(tmp_path):
    with LedgerStore(tmp_path / "ledger.db") as store:
        yield store


def test_one_run_from_reservation_to_close(ledger):
    ledger.set_budget("d", 1.0, 1e-5)
    z = solve_scale(lambda k: [(Gaussian(k), 10)], 1.0, 1e-5)
    assert ledger.open_run("r", "d", "ten rounds")
    assert ledger.reserve("r", [(Gaussian(z), 10)])  # exactly the budget fits
    assert ledger.charge("r", (1, 0), Gaussian(z))
    assert not ledger.charge("r", (1, 0), Gaussian(z))  # redone after a crash: charged once
    spent = ledger.spent("d")
    assert spent.events == [(Gaussian(z), 1)]
    assert spent.reserved == [(Gaussian(z), 9)]
    assert spent.curve.epsilon(1e-5) == judge([(Gaussian(z), 1)]).epsilon(1e-5)
    assert spent.curve_with_reserved.epsilon(1e-5) == pytest.approx(1.0, abs=1e-6)
    assert spent.budget.epsilon == 1.0
    assert ledger.close_run("r") == [(Gaussian(z), 9)]
    after = ledger.spent("d")
    assert after.events == [(Gaussian(z), 1)]
    assert after.reserved == []
    assert ledger.verify().ok
    assert ledger.verify().rows == 5


def test_refused_before_anything_is_booked(ledger):
    ledger.set_budget("d", 1.0, 1e-5)
    z = solve_scale(lambda k: [(Gaussian(k), 10)], 1.0, 1e-5)
    ledger.open_run("first", "d")
    ledger.reserve("first", [(Gaussian(z), 6)])
    ledger.open_run("second", "d")
    rows = ledger.head()
    with pytest.raises(BudgetError, match=r"epsilon 1 at delta 1e-05.*second.*Nothing was charged"):
        ledger.reserve("second", [(Gaussian(z), 5)])
    assert ledger.head() == rows
    assert ledger.spent("d").reserved == [(Gaussian(z), 6)]
    assert ledger.reserve("second", [(Gaussian(z), 4)])
    with pytest.raises(BudgetError):
        ledger.charge("second", 99, Pure(0.5))  # never reserved, and there is no room
    ledger.close_run("first")
    assert ledger.charge("second", 99, Gaussian(2 * z))  # not reserved, but now there is room


def test_a_full_disk_books_nothing_names_the_ledger_and_hurts_nothing(ledger: LedgerStore) -> None:
    """SQLite answers a limit on its pages as it answers a full disk."""
    ledger.open_run("r", "d")
    pages = ledger._file.execute("PRAGMA page_count").fetchone()[0]
    ledger._file.execute(f"PRAGMA max_page_count = {pages}")
    done: list[int] = []

    def charge_until_full() -> None:
        for k in range(10_000):
            ledger.charge("r", k, Pure(0.001))
            done.append(k)

    with pytest.raises(
        StateError, match=r"ledger '.*' cannot be written, because its disk is full"
    ):
        charge_until_full()
    assert ledger.verify().ok and sum(count for _, count in ledger.spent("d").events) == len(done)
    ledger._file.execute(f"PRAGMA max_page_count = {pages + 1000}")
    assert ledger.charge("r", len(done), Pure(0.001))  # space again: it goes on


def test_a_run_refused_at_its_beginning_leaves_no_row(ledger: LedgerStore) -> None:
    ledger.set_budget("d", 1.0, 1e-5)
    before = ledger.head()
    with pytest.raises(BudgetError, match="Nothing was charged"):
        ledger.open_run("r", "d", reserve=[(Gaussian(0.5), 1)])
    assert ledger.head() == before and ledger.runs() == [] and ledger.verify().ok
    assert ledger.open_run("r", "d", reserve=[(Gaussian(50.0), 1)])
    assert not ledger.open_run("r", "d", reserve=[(Gaussian(50.0), 1)])  # resumed
    assert ledger.spent("d").reserved == [(Gaussian(50.0), 1)]


def test_other_data_sets_are_not_touched(ledger):
    ledger.set_budget("a", 0.1, 1e-5)
    ledger.open_run("r", "b")
    ledger.reserve("r", [(Gaussian(0.5), 1)])  # b has no budget: booked, nothing refused
    assert ledger.spent("a").curve_with_reserved.mu == 0
    assert ledger.spent("b").curve_with_reserved.mu == 2
    assert ledger.datasets() == ["a", "b"]
    assert ledger.runs("b") == [
        {"run": "r", "dataset": "b", "adjacency": "replace-one", "open": True}
    ]


def test_reservation_is_idempotent_per_key(ledger):
    ledger.open_run("r", "d")
    assert ledger.reserve("r", [(Pure(0.1), 5)])
    assert not ledger.open_run("r", "d")  # resumed
    assert not ledger.reserve("r", [(Pure(0.1), 2), (Pure(0.1), 3)])
    with pytest.raises(StateError, match="another reservation"):
        ledger.reserve("r", [(Pure(0.1), 6)])
    assert ledger.reserve("r", [(Pure(0.1), 1)], key="more")
    assert ledger.spent("d").reserved == [(Pure(0.1), 6)]


def test_same_index_with_another_event_is_refused(ledger):
    ledger.open_run("r", "d")
    ledger.charge("r", (3, 1), Gaussian(4))
    with pytest.raises(PrivacyError, match=r"\[3,1\]"):
        ledger.charge("r", (3, 1), Gaussian(5))
    with pytest.raises(PrivacyError, match=r"\[3,2\]"):
        ledger.charge_many("r", [((3, 2), Gaussian(4)), ((3, 2), Gaussian(5))])
    assert ledger.spent("d").events == [(Gaussian(4), 1)]  # the whole batch was taken back
    assert ledger.charge("r", "3,1", Gaussian(5))  # a text index is another index


def test_charge_many_is_one_transaction(ledger):
    ledger.set_budget("d", 1.0, 0.0)
    ledger.open_run("r", "d")
    ledger.reserve("r", [(Pure(0.01), 60)])
    assert ledger.charge_many("r", [((t, 0), Pure(0.01)) for t in range(60)]) == 60
    assert ledger.charge_many("r", [((t, 0), Pure(0.01)) for t in range(50, 90)]) == 30
    with pytest.raises(BudgetError):
        ledger.charge_many("r", [((t, 1), Pure(0.01)) for t in range(11)])
    assert ledger.spent("d").events == [(Pure(0.01), 90)]
    assert ledger.spent("d").curve.pure_epsilon == pytest.approx(0.9)
    assert ledger.verify().ok


def test_mixed_kinds_compose_and_what_cannot_be_judged_is_refused(ledger):
    ledger.set_budget("d", 2.0, 1e-5)
    ledger.open_run("r", "d")
    ledger.reserve("r", [(PoissonGaussian(6, 0.1), 50), (L2Laplace(0.05, 20), 10), (Pure(0.01), 5)])
    assert ledger.spent("d").curve_with_reserved.accountant == "pld"
    from tacenda.privacy.accounting.events import DiscreteGaussian

    with pytest.raises(PrivacyError, match="discrete-gaussian"):
        ledger.reserve("r", [(DiscreteGaussian(50), 1)], key="lattice")


def test_relation_of_a_data_set_stays(ledger):
    ledger.set_budget("d", 1, 1e-5, "add-remove")
    ledger.set_budget("d", 1, 1e-5, "replace-one")  # nothing charged yet
    ledger.open_run("r", "d")
    with pytest.raises(PrivacyError, match="adjacency"):
        ledger.set_budget("d", 1, 1e-5, "add-remove")
    with pytest.raises(PrivacyError, match="adjacency"):
        ledger.open_run("r2", "d", adjacency="add-remove")
    ledger.open_run("e1", "e", adjacency="add-remove")
    assert ledger.spent("e").adjacency == "add-remove"
    ledger.set_budget("e", 1, 1e-5, "add-remove")
    with pytest.raises(PrivacyError, match="a fixed number of records"):
        ledger.reserve("e1", [(OneOfGaussian(1, 10), 1)])


def test_closed_and_unknown_runs(ledger):
    for call in (
        lambda: ledger.reserve("no", [(Pure(1), 1)]),
        lambda: ledger.charge("no", 1, Pure(1)),
        lambda: ledger.close_run("no"),
    ):
        with pytest.raises(StateError, match="open_run"):
            call()
    ledger.open_run("r", "d")
    ledger.charge("r", 1, Pure(0.5))
    ledger.close_run("r")
    assert not ledger.charge("r", 1, Pure(0.5))  # was booked
    with pytest.raises(StateError, match="closed"):
        ledger.charge("r", 2, Pure(0.5))
    with pytest.raises(StateError, match="closed"):
        ledger.open_run("r", "d")
    ledger.open_run("s", "d")
    with pytest.raises(StateError, match="another data set"):
        ledger.open_run("s", "other")


def test_wrong_values(ledger):
    for bad in (0, -1, math.inf):
        with pytest.raises(InputError, match="epsilon"):
            ledger.set_budget("d", bad, 1e-5)
    with pytest.raises(InputError, match="delta"):
        ledger.set_budget("d", 1, 1)
    with pytest.raises(InputError, match="dataset"):
        ledger.open_run("r", "")
    ledger.open_run("r", "d")
    with pytest.raises(InputError, match="event"):
        ledger.charge("r", 1, "gaussian")


def test_budget_may_be_lowered_below_what_is_spent(ledger):
    ledger.open_run("r", "d")
    ledger.charge("r", 1, Pure(0.5))
    ledger.set_budget("d", 0.1, 0.0)
    with pytest.raises(BudgetError, match=r"0\.5 is spent"):
        ledger.charge("r", 2, Pure(1e-6))
    ledger.set_budget("d", 1.0, 0.0)
    assert ledger.charge("r", 2, Pure(0.5))


def test_reopened_it_knows_everything(tmp_path):
    path = tmp_path / "ledger.db"
    with LedgerStore(path) as store:
        store.set_budget("d", 3, 1e-6)
        store.open_run("r", "d")
        store.reserve("r", [(Gaussian(5), 7)])
        store.charge("r", 1, Gaussian(5))
        salt, head = store.salt, store.head()
    with LedgerStore(path) as again:
        assert again.spent("d").reserved == [(Gaussian(5), 6)]
        assert again.budget("d").delta == 1e-6
        assert again.head() == head
        assert again.salt == salt
        assert again._file.one("PRAGMA synchronous")[0] == 2
        assert again._file.one("PRAGMA journal_mode")[0] == "wal"
    with LedgerStore(tmp_path / "other.db") as other:
        assert other.salt != salt


# -- tampering

TAMPERING = {
    "edited event": (
        "UPDATE rows SET event = replace(event, '0.5', '0.1') WHERE seq = 4",
        4,
        "seal",
    ),
    "edited time": ("UPDATE rows SET time = '2020' WHERE seq = 3", 3, "seal"),
    "deleted row": ("DELETE FROM rows WHERE seq = 5", 5, "missing"),
    "swapped rows": (
        "UPDATE rows SET seq = -4 WHERE seq = 4; UPDATE rows SET seq = 4 WHERE seq = 5; "
        "UPDATE rows SET seq = 5 WHERE seq = -4",
        4,
        "follow",
    ),
    "cheaper tally": ("UPDATE tally SET charged = charged - 1", 7, "tally"),
    "run reopened": ("UPDATE runs SET open = 0", 7, "table of runs"),
    "budget raised": (
        "UPDATE rows SET body = replace(body, '1.0', '9.0') WHERE kind = 'budget'",
        1,
        "seal",
    ),
}


def _filled(path):
    with LedgerStore(path) as store:
        store.set_budget("d", 3.0, 1.0e-5)
        store.set_budget("d", 1.0, 0.0)
        store.open_run("r", "d")
        for index in range(1, 5):
            store.charge("r", index, Pure(0.05 if index % 2 else 0.005))
        return store.head()


def _tamper(path, script):
    with sqlite3.connect(path) as db:
        db.executescript("DROP TRIGGER rows_stay; DROP TRIGGER rows_last; " + script)
    db.close()


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_named(tmp_path, name):
    script, row, word = TAMPERING[name]
    _filled(tmp_path / "l.db")
    _tamper(
        tmp_path / "l.db",
        script.replace("'0.5', '0.1'", "'0.05', '0.01'").replace("'1.0', '9.0'", "'3.0', '9.0'"),
    )
    with LedgerStore(tmp_path / "l.db") as store:
        found = store.verify()
    assert not found.ok
    assert found.broken == row
    assert word in found.reason
    assert f"row {row} is broken" in str(found)


def test_truncated_tail_is_seen_at_opening(tmp_path):
    head = _filled(tmp_path / "l.db")
    _tamper(tmp_path / "l.db", "DELETE FROM rows WHERE seq >= 6")
    with pytest.raises(StateError, match="last row is 5"):
        LedgerStore(tmp_path / "l.db")
    # with the head forged too, only a head noted elsewhere tells
    with sqlite3.connect(tmp_path / "l.db") as db:
        db.execute("UPDATE head SET seq = 5, hash = (SELECT hash FROM rows WHERE seq = 5)")
        db.execute("DELETE FROM tally")
        db.execute(
            "INSERT INTO tally SELECT 'r', event, 0, count(*) "
            "FROM rows WHERE kind='charge' GROUP BY event"
        )
    db.close()
    with LedgerStore(tmp_path / "l.db") as store:
        assert store.verify().ok
        found = store.verify(anchor=head)
        assert not found.ok
        assert found.broken == 6
        assert "noted elsewhere" in found.reason


def test_rewritten_chain_is_seen_by_a_noted_head(tmp_path):
    head = _filled(tmp_path / "l.db")
    with LedgerStore(tmp_path / "l.db") as store:
        store.charge("r", 9, Pure(0.01))
        assert store.verify(anchor=head).ok
        assert not store.verify(anchor=(head[0], "00" * 32)).ok


def test_rows_are_append_only(ledger):
    ledger.set_budget("d", 1, 0)
    for query in ("UPDATE rows SET body = ''", "DELETE FROM rows"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            ledger._file.execute(query)


def test_export_can_be_checked_without_the_file(tmp_path):
    head = _filled(tmp_path / "l.db")
    with LedgerStore(tmp_path / "l.db") as store:
        lines = list(store.export())
        salt = store._file.salt.hex()
    assert len(lines) == 7
    assert json.loads(lines[3])["event"] == '{"epsilon":0.05,"kind":"pure"}'
    assert salt not in "".join(lines)
    assert verify_lines(lines, anchor=head).ok
    changed = [*lines[:4], lines[4].replace("0.005", "0.001"), *lines[5:]]
    assert verify_lines(changed).broken == 5
    assert verify_lines(lines[:2] + lines[3:]).broken == 3
    assert verify_lines(lines[:-1], anchor=head).broken == 7


# -- places and processes


def test_network_file_systems_are_refused(tmp_path, monkeypatch):
    mounts = (
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
        "40 22 0:44 / /mnt/our\\040share rw - nfs4 server:/x rw\n"
        "41 22 0:45 / /mnt/win rw shared:1 - cifs //s/x rw\n"
        "42 40 0:46 / /mnt/our\\040share/local rw - xfs /dev/sdb rw\n"
    )

    def kind(path):
        return store_files.mount_type(path, mounts)

    assert kind("/mnt/our share/l.db") == "nfs4"
    assert kind("/mnt/win/a/b") == "cifs"
    assert kind("/mnt/our share/local/l.db") == "xfs"
    assert kind("/mnt/winter/l.db") == "ext4"
    table = tmp_path / "mountinfo"
    table.write_text(
        "22 1 0:1 / / rw - ext4 /dev/sda1 rw\n"
        f"40 22 0:44 / {os.path.realpath(tmp_path)} rw - nfs4 s:/x rw\n"
    )
    monkeypatch.setattr(store_files, "MOUNTS", table)
    with pytest.raises(StateError, match=r"nfs4.*local disk"):
        LedgerStore(tmp_path / "l.db")


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "lustre",
        "gpfs",
        "ncpfs",
        "ocfs2",
        "gfs2",
        "beegfs",
        "davfs",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.cephfs",
        "fuse.davfs",
    ],
)
def test_every_file_system_that_machines_share_is_refused(tmp_path, monkeypatch, kind):
    table = tmp_path / "mountinfo"
    where = os.path.realpath(tmp_path)
    monkeypatch.setattr(store_files, "MOUNTS", table)
    table.write_text(f"40 22 0:44 / {where} rw - {kind} s:/x rw\n")
    with pytest.raises(StateError, match=f"is on {kind},"):
        LedgerStore(tmp_path / "l.db")
    for local in ("ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.ntfs-3g"):
        table.write_text(f"40 22 0:44 / {where} rw - {local} s:/x rw\n")
        store_files.check_place(tmp_path / "l.db")
    table.unlink()  # not Linux: nothing is known, nothing is refused
    store_files.check_place(tmp_path / "l.db")


def test_a_ledger_of_another_owner_that_is_open_to_all_is_refused(tmp_path, monkeypatch):
    LedgerStore(tmp_path / "l.db").close()
    (tmp_path / "l.db").chmod(0o664)

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(type(tmp_path), "chmod", refused)
    with pytest.raises(StateError, match="mode 600.*has mode 664.*chmod 600"):
        LedgerStore(tmp_path / "l.db")


def test_the_file_says_its_version(tmp_path):
    """What is written today must be read by tomorrow's program: the mark of the format is fixed."""
    LedgerStore(tmp_path / "l.db").close()
    with sqlite3.connect(tmp_path / "l.db") as db:
        meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
    assert meta["version"] == "1" and len(bytes.fromhex(meta["salt"])) == 32


def test_a_name_must_be_a_text(ledger):
    rows, labels = np.eye(3), np.ones(3)
    for wrong in ("", 3):
        with pytest.raises(InputError, match="dataset must be a text"):
            ledger.account(rows, labels, wrong)
    assert ledger.account(rows, labels, None).name.startswith("records-")
    assert ledger.account(rows, labels, "named").name == "named"


def test_bad_places(tmp_path):
    with pytest.raises(StateError, match="folder must exist"):
        LedgerStore(tmp_path / "none" / "l.db")
    with pytest.raises(StateError, match="must be a file"):
        LedgerStore(tmp_path)
    (tmp_path / "text.db").write_text("this is not a database, not at all " * 40)
    with pytest.raises(StateError, match="cannot be opened"):
        LedgerStore(tmp_path / "text.db")


def test_threads_share_one_store(ledger):
    ledger.open_run("r", "d")

    def work(number):
        return sum(ledger.charge("r", (number, index), Pure(0.01)) for index in range(10))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [10] * 4
    assert ledger.spent("d").events == [(Pure(0.01), 40)]
    assert ledger.verify().ok
