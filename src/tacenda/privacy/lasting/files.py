"""Where a ledger may live, and how a data set is named in it:
file system check."""

from __future__ import annotations

import os
import stat
import threading
import warnings
from pathlib import Path

from tacenda.errors import LedgerWarning, StateError

# File systems shared between machines:
# SQLite's write-ahead log needs memory shared by all users of the file.
REMOTE = {
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
}
REMOTE_FUSE = {
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.cephfs",
    "fuse.davfs",
    "davfs",
}
MOUNTS = Path("/proc/self/mountinfo")


def check_place(path: Path) -> None:
    """Refuse a file system on which two machines could write at once
    without seeing each other's locks."""
    if not path.parent.is_dir():
        raise StateError(
            f"the ledger's folder must exist, and {str(path.parent)!r} does not; create it first."
        )
    if path.exists() and not path.is_file():
        raise StateError(
            f"the ledger must be a file, and {str(path)!r} is none; choose another path."
        )
    if not MOUNTS.exists():  # not Linux: nothing more can be found out
        return
    kind = mount_type(os.path.realpath(path), MOUNTS.read_text())
    if kind in REMOTE or kind in REMOTE_FUSE:
        raise StateError(
            f"the ledger must be on a local file system, and {str(path)!r} is on {kind}, "
            "where SQLite's write-ahead log is not safe between machines; "
            "choose a path on a local disk."
        )


def make_private(path: Path) -> None:
    """Make an empty file for its owner alone, if there is none: a ledger holds the key under which
    records are hashed.

    Who can read it can confirm a guess of a record, count them roughly, and see what was spent. An
    export holds no key.
    """
    if os.name != "posix" or path.exists():  # elsewhere the folder's own rules decide
        return
    # Made beside and then named: closing a file that another thread has opened meanwhile would take
    # that thread's locks away.
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        os.link(beside, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    finally:
        beside.unlink()


def close_to_others(path: Path) -> None:
    """A ledger that others may read or write is closed to them, with a warning."""
    if os.name != "posix":
        return
    for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        if not file.exists() or not (mode := stat.S_IMODE(file.stat().st_mode)) & 0o077:
            continue
        try:
            file.chmod(0o600)
        except PermissionError:
            raise StateError(
                f"the ledger {str(file)!r} must be its owner's alone (mode 600), "
                f"and has mode {mode:o}; its owner fixes it with chmod 600."
            ) from None
        warnings.warn(
            f"the ledger {str(file)!r} was open to other users of this machine (mode {mode:o}); "
            "it is closed now (600).",
            LedgerWarning,
            stacklevel=2,
        )


def mount_type(path: str, mountinfo: str) -> str:
    """The file system type of the mount that holds `path`,
    from the text of /proc/self/mountinfo."""
    best, found = "", "unknown"
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split()
        if not separator or len(fields) < 5:
            continue
        point = fields[4].encode().decode("unicode_escape")  # blanks are written \\040
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # A later mount on the same point hides the earlier one
        if inside and len(point) >= len(best):
            best, found = point, right.split()[0]
    return found
