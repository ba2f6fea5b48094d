"""Exit codes, and how an error becomes one sentence on standard error.

0    done
1    unexpected: a fault of this program
2    bad input or usage
3    refused for privacy: it would break a budget or a guarantee, or noise would hide the answer
4    a stored state (checkpoint, ledger, run folder) is damaged or does not belong here, or the
     machine lacks the disk, memory or open files to go on
5    a peer or the network failed
130  interrupted; where there is a run folder, a checkpoint was kept
"""

from __future__ import annotations

import errno
import json
import sys
import traceback

OK, UNEXPECTED, INPUT, PRIVACY, STATE, NETWORK, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "unable to allocate")
_LOST_NOTHING = "run the same command again: what was saved before is whole."


def code_of(error: BaseException) -> int:
    """The exit code of an error."""
    from tacenda import errors

    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if is_disk(error) or lacks(error):
        return STATE
    kinds: tuple[tuple[type[BaseException], int], ...] = (
        (errors.PrivacyError, PRIVACY),
        (errors.StateError, STATE),
        (errors.NetworkError, NETWORK),
        (errors.TacendaError, INPUT),
        (ImportError, INPUT),
        (OSError, INPUT),
    )
    return next((code for kind, code in kinds if isinstance(error, kind)), UNEXPECTED)


def is_disk(error: BaseException) -> bool:
    """Whether a disk has failed: full, over a quota, or a database that cannot be written."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"{type(error).__module__}.{type(error).__name__}" == "sqlite3.OperationalError"


def lacks(error: BaseException) -> str:
    """What the machine has too little of, with the remedy, where that is the reason; otherwise
    ""."""
    text = str(error).lower()
    if (
        isinstance(error, MemoryError)
        or getattr(error, "errno", None) == errno.ENOMEM
        or (isinstance(error, ImportError) and any(words in text for words in _NO_MEMORY))
    ):
        return (
            "there is not enough memory for this process; give it more (ulimit -v, MemoryMax of "
            f"a service, the limit of a container), and {_LOST_NOTHING}"
        )
    if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
        return (
            "there are too many open files for this process; allow at least 1024 (ulimit -n, "
            f"LimitNOFILE of a service), and {_LOST_NOTHING}"
        )
    return ""


def sentence_of(error: BaseException) -> str:
    """What the user reads."""
    code, text = code_of(error), " ".join(str(error).split())
    if code == INTERRUPTED:
        return text or "interrupted."
    if words := lacks(error):
        return words
    if is_disk(error) and getattr(error, "filename", None) is None:  # one with a name says more
        return (
            f"the disk cannot be written ({getattr(error, 'strerror', None) or text}); "
            f"free some space or repair the disk, and {_LOST_NOTHING}"
        )
    if isinstance(error, ImportError) and "pip install" not in text:
        return f"a package is missing: {text}."
    if (
        isinstance(error, OSError)
        and error.filename is not None
        and not hasattr(error, "__notes__")
    ):
        return f"{error.filename}: {error.strerror or text}."
    if code == UNEXPECTED:
        return (
            f"unexpected {type(error).__name__}: {text or 'no message'}. "
            "Run again with --debug to see where, and report it."
        )
    return text


def show(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Write the error to standard error, and return its exit code."""
    code, sentence = code_of(error), sentence_of(error)
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if as_json:
        print(
            json.dumps(
                {"error": {"kind": type(error).__name__, "message": sentence, "exit_code": code}}
            ),
            file=sys.stderr,
        )
    else:
        print(f"tacenda: {sentence}", file=sys.stderr)
    return code
