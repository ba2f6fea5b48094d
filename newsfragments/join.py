"""Join the news fragments to CHANGELOG.md under Unreleased, and delete them: `make news`."""

from __future__ import annotations

import sys
from pathlib import Path

KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
HEADING = "## [Unreleased]\n"


def join(folder: Path, changelog: Path) -> int:
    """The number of fragments that were joined."""
    files = sorted(file for file in folder.glob("*.md") if file.name != "README.md")
    wrong = [f.name for f in files if f.name.split(".")[-2] not in KINDS]
    text = changelog.read_text("utf-8")
    if wrong or HEADING not in text:
        sys.exit(f"Named otherwise than NAME.KIND.md: {wrong}" if wrong else f"No {HEADING!r}.")
    news = ""
    for kind in KINDS:
        lines = [
            f"- {' '.join(f.read_text('utf-8').split())}\n"
            for f in files
            if f.name.split(".")[-2] == kind
        ]
        news += f"\n### {kind.capitalize()}\n\n{''.join(lines)}" if lines else ""
    changelog.write_text(text.replace(HEADING, HEADING + news, 1), "utf-8")
    for file in files:
        file.unlink()
    return len(files)


if __name__ == "__main__":
    here = Path(__file__).parent
    print(f"{join(here, here.parent / 'CHANGELOG.md')} fragments joined.")
