"""`make fuzz`: a coverage-guided fuzzer sends a node whatever a member may send.

    python tests/fuzz_frames.py [--seconds 60] [--corpus FOLDER]

Every input is a frame of `tests/helpers/hostile_frames.py`, changed in its fields or bytes, at each
door: hello, welcome, confirmation, a running stream. It ends with the number of inputs and how many
passed a door; anything but an answer, BadFrame or Refused stops it, and the input is kept in a
file. Without atheris the same inputs are drawn at random, and the first line says so.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

try:
    import atheris
except ImportError:
    atheris = None

GUIDES = [
    "hostile_frames",
    "tacenda_node.protocol.frames",
    "tacenda_node.protocol.handshake",
    "tacenda_node.protocol.signed_rows",
    "tacenda_node.wire.mailbox",
    "tacenda_node.wire.link",
    "tacenda_node.identity.edge_keys",
    "tacenda_node.membership.votes",
    "tacenda_node.membership.agreement",
]
sys.path.insert(0, str(Path(__file__).parent / "helpers"))
LONGEST = 60
seen: Any = SimpleNamespace(inputs=0, passed=0, began=0.0, seconds=60, doors=None)


def one_input(data: bytes) -> None:
    if time.monotonic() - seen.began > seen.seconds:
        print(
            f"{seen.inputs} inputs in {seen.seconds} s, {seen.passed} passed a door, none did harm",
            flush=True,
        )
        os._exit(0)  # the fuzzer would leave without a word
    seen.inputs += 1
    seen.passed += bool(seen.doors.feed(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long (default 60)")
    parser.add_argument("--corpus", help="a folder to keep and reuse interesting inputs")
    chosen = parser.parse_args()
    if atheris is None:
        print("atheris is not installed: inputs are drawn at random, without guidance", flush=True)
        from hostile_frames import Doors
    else:
        with atheris.instrument_imports(include=GUIDES):
            from hostile_frames import Doors
    with tempfile.TemporaryDirectory() as folder:
        seen.doors, seen.seconds, seen.began = Doors(Path(folder)), chosen.seconds, time.monotonic()
        if atheris is None:
            rng = random.Random(0)
            while True:
                one_input(rng.randbytes(rng.randrange(2, LONGEST)))
        arguments = [
            sys.argv[0],
            f"-max_len={LONGEST}",
            *([chosen.corpus] if chosen.corpus else []),
        ]
        atheris.Setup(arguments, one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
