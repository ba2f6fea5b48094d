"""A run folder's parts: what is made, read and taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacenda.errors import InputError, StateError
from tacenda.runtime.run_folder import FORMAT, RunFolder


def test_a_manifest_of_this_format_is_read_and_of_another_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a" / "run").make()
    assert (folder.path / "results").is_dir() and (folder.path / "checkpoints").is_dir()
    with pytest.raises(StateError, match="it is not a run folder"):
        RunFolder.open(folder.path)
    for values in ({"format": FORMAT, "runs": []}, {"format": "another"}, {}):
        folder.manifest_path.write_text(json.dumps(values))
        opened = RunFolder.open(folder.path)
        if values.get("format") == FORMAT:
            assert opened.manifest() == values
        else:
            with pytest.raises(StateError, match=f"has format .* reads {FORMAT!r}"):
                opened.manifest()
    with pytest.raises(InputError, match="there is no run folder"):
        RunFolder.open(tmp_path / "nowhere")


def test_only_a_folder_without_progress_is_taken_back(tmp_path: Path) -> None:
    empty, begun = (RunFolder(tmp_path / name).make() for name in ("empty", "begun"))
    begun.result_path("fit").write_bytes(b"x")
    for folder in (empty, begun):
        folder.config_path.write_text("")
        folder.discard_if_empty()
    assert not empty.path.exists()
    assert begun.has_progress() and begun.config_path.exists() and begun.result_path("fit").exists()
