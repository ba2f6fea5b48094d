"""The wheel as a user gets it: built, looked into, installed into a clean environment and used."""

from __future__ import annotations

import importlib.util
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest


def _script(name: str = "try_wheel") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_wheel_built_here_works_in_a_clean_environment_of_this_python() -> None:
    pytest.importorskip("build")
    pytest.importorskip("twine")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    _script().main(["--types", "--only", own, "--python", sys.executable])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tacenda/py.typed": None}, "lacks tacenda/py.typed"),
        ({"tacenda/__pycache__/a.pyc": ""}, "holds tacenda/__pycache__"),
        ({"tests/test_a.py": ""}, "beside the package"),
        ({"tacenda-1.dist-info/licenses/LICENSE": None}, "no licence"),
        ({"tacenda-1.dist-info/sboms/a.cdx.json": None}, "no bill of materials"),
    ],
)
def test_a_wheel_that_lacks_or_holds_too_much_is_refused(
    tmp_path: Path, changed: dict[str, str | None], words: str
) -> None:
    script = _script()
    content: dict[str, str | None] = dict.fromkeys(script.NEEDED, "")
    content["tacenda-1.dist-info/licenses/LICENSE"] = ""
    content["tacenda-1.dist-info/sboms/a.cdx.json"] = ""
    for case, expected in (({}, None), (changed, words)):
        wheel = tmp_path / "tacenda-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in {**content, **case}.items():
                if text is not None:
                    archive.writestr(name, text)
        if expected is None:
            script.check_wheel(wheel)
            continue
        with pytest.raises(AssertionError, match=expected):
            script.check_wheel(wheel)


def test_the_bill_in_every_wheel_is_that_of_the_project() -> None:
    script = _script("write_sbom")
    assert script.FILE.read_text("utf-8") == script.text(), "run tests/release/write_sbom.py"
    bill = json.loads(script.text())
    names = {one["name"]: one["scope"] for one in bill["components"]}
    assert names["numpy"] == "required" and names["grpcio"] == "optional"
    assert not {"pytest", "sphinx", "ruff"} & set(names)
