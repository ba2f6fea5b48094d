"""Writes into each wheel and source archive which build it is (src/tacenda/_version.py)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACES = {"wheel": "tacenda/_built.txt", "sdist": "src/tacenda/_built.txt"}


class BuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or (Path(self.root) / PLACES["sdist"]).exists():
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "_built.txt"
        file.write_text(f"{self.metadata.version}\n", "utf-8")
        build_data["force_include"][str(file)] = PLACES[self.target_name]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
