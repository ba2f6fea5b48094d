"""Where compiled kernels are kept between starts, and who hears of it when they are not there yet.

Numba keeps them beside the sources or in the user's cache folder, and fails on import where it can
write to neither: a service with a read-only system and no home. There another folder is named, one
for each version of the program, before numba is first imported.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
PATIENCE = 0.5  # seconds of compiling of which nobody needs to hear
_say: Callable[[str], None] | None = None
_spent = 0.0


@contextmanager
def telling(say: Callable[[str], None] | None) -> Iterator[None]:
    """Within it, `say` is told once if kernels are compiled and that takes a while; None: nobody
    is."""
    global _say
    before, _say = _say, say
    try:
        yield
    finally:
        _say = before


def tell(seconds: float) -> None:
    """So much time went into compiling so far."""
    global _say, _spent
    _spent = seconds
    if _say is not None and seconds > PATIENCE:
        say, _say = _say, None
        say("Compiling the inner loops for this machine (first run only) ...")


def compiled_for() -> float:
    """Seconds that went into compiling in this process."""
    return _spent


def keep_compiled(folder: Path) -> None:
    """Use a folder below `folder` if nothing was chosen by NUMBA_CACHE_DIR and numba's own places
    cannot be written. Only this user may write there: what is kept is code."""
    from tacenda import __version__

    if os.environ.get(VARIABLE) or any(_writable(place) for place in _own_places()):
        return
    place = folder.absolute() / "compiled" / __version__
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.environ[VARIABLE] = str(place)


def _own_places() -> list[Path]:
    package, home = Path(__file__).parent, os.environ.get("XDG_CACHE_HOME")
    beside = [package / "privacy" / "noise" / "__pycache__"]
    try:
        return [*beside, Path(home) if home else Path.home() / ".cache"]
    except RuntimeError:  # nobody's home is known
        return beside


def _writable(place: Path) -> bool:
    """Whether files can be made there, or the folder itself where it is missing."""
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        tempfile.TemporaryFile(dir=place).close()  # rights alone do not tell
    except OSError:
        return False
    return True
