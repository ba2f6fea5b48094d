"""Where a ledger may live, and how a data set is named in it: file system check, salted fingerprint."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable
from pathlib import Path

from tacenda.errors import InputError, StateError

# File systems shared between machines: SQLite's write-ahead log needs memory shared by all users of the file.
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
REMOTE_FUSE = {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.cephfs", "fuse.davfs", "davfs"}
MOUNTS = Path("/proc/self/mountinfo")

Chunk = bytes | bytearray | memoryview


def fingerprint(chunks: Iterable[Chunk], salt: bytes) -> str:
    """HMAC-SHA256 of the concatenated chunks under the ledger's salt, in hex.

    The salt keeps outsiders from confirming a guess of the data by its hash. It names exactly these bytes: a data set
    with one record changed has another name, so who keeps several versions must say that they share one budget.
    """
    if len(salt) < 16:
        raise InputError(f"salt must be at least 16 bytes, not {len(salt)}; use the ledger's own (LedgerStore.fingerprint).")
    digest = hmac.new(salt, digestmod=hashlib.sha256)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def check_place(path: Path) -> None:
    """Refuse a file system on which two machines could write at once without seeing each other's locks."""
    if not path.parent.is_dir():
        raise StateError(f"the ledger's folder must exist, and {str(path.parent)!r} does not; create it first.")
    if path.exists() and not path.is_file():
        raise StateError(f"the ledger must be a file, and {str(path)!r} is none; choose another path.")
    if not MOUNTS.exists():  # not Linux: nothing more can be found out
        return
    kind = mount_type(os.path.realpath(path), MOUNTS.read_text())
    if kind in REMOTE or kind in REMOTE_FUSE:
        raise StateError(
            f"the ledger must lie on a local file system, and {str(path)!r} is on {kind}, where SQLite's write-ahead log is "
            "not safe between machines; choose a path on a local disk."
        )


def mount_type(path: str, mountinfo: str) -> str:
    """The file system type of the mount that holds `path`, from the text of /proc/self/mountinfo."""
    best, found = "", "unknown"
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split()
        if not separator or len(fields) < 5:
            continue
        point = fields[4].encode().decode("unicode_escape")  # blanks are written \\040
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # a later mount on the same point hides the earlier one
            best, found = point, right.split()[0]
    return found
