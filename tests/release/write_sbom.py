"""Write `deploy/tacenda.cdx.json`, the bill of materials that every wheel carries (PEP 770): the
package and what it declares to need, as CycloneDX 1.6. `python tests/release/write_sbom.py`.

A wheel pins no versions, so the bill names requirements; `tacenda evidence` writes the bill of what
is installed.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from tacenda._version import RELEASE

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "tacenda.cdx.json"
OWN = ("test", "docs", "fuzz", "bench", "dev", "release", "deploy", "mutants")  # for developers


def bill(project: dict[str, Any]) -> dict[str, Any]:
    """The bill of a project table."""
    needs = [(line, None) for line in project["dependencies"]]
    for extra, lines in project["optional-dependencies"].items():
        needs += [(line, extra) for line in lines if extra not in OWN and "tacenda[" not in line]
    own = {
        "type": "library",
        "bom-ref": f"pkg:pypi/tacenda@{project['version']}",
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "licenses": [{"license": {"id": project["license"]}}],
        "purl": f"pkg:pypi/tacenda@{project['version']}",
    }
    components: dict[str, dict[str, Any]] = {}
    for line, extra in needs:
        name = re.split(r"[\[<>=;, ]", line, maxsplit=1)[0]
        one = components.setdefault(
            name,
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}",
                "name": name,
                "purl": f"pkg:pypi/{name}",
                "scope": "required" if extra is None else "optional",
                "properties": [{"name": "tacenda:requirement", "value": line}],
            },
        )
        if extra is not None:
            one["properties"].append({"name": "tacenda:extra", "value": extra})
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": [components[name] for name in sorted(components)],
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": [f"pkg:pypi/{n}" for n in sorted(components)]}
        ],
    }


def text() -> str:
    """The file as it should be."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    project["version"] = RELEASE
    return json.dumps(bill(project), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
