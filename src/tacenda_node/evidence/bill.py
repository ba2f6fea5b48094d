"""The bill of materials: the installed distributions that this program consists of, as CycloneDX
1.6 in JSON, and their versions."""

from __future__ import annotations

import platform
import re
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

SPEC = "1.6"
ROOT = "tacenda"


@cache
def bill_of_materials() -> dict[str, Any]:
    """Tacenda and everything that it needs as it is installed here, extras included."""
    found = _installed(ROOT)
    components = [_component(found[name]) for name in sorted(found) if name != ROOT]
    links = [
        {
            "ref": _url(one),
            "dependsOn": sorted({_url(found[n]) for n in _needs(one) if n in found} - {_url(one)}),
        }
        for _, one in sorted(found.items())
    ]
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {
            "component": {**_component(found[ROOT]), "type": "application"},
            "properties": [
                {"name": "tacenda:python", "value": platform.python_version()},
                {"name": "tacenda:system", "value": platform.system()},
                {"name": "tacenda:machine", "value": platform.machine()},
            ],
        },
        "components": components,
        "dependencies": links,
    }


def versions(bill: dict[str, Any]) -> dict[str, str]:
    """Name and version of everything that a bill lists, with Python's."""
    properties = {one["name"]: one["value"] for one in bill["metadata"]["properties"]}
    listed = [bill["metadata"]["component"], *bill["components"]]
    return {
        "python": str(properties["tacenda:python"]),
        **{str(one["name"]): str(one["version"]) for one in listed},
    }


def _installed(root: str) -> dict[str, Distribution]:
    """The root and whatever it needs, directly or not, that is installed."""
    found: dict[str, Distribution] = {}
    waiting = [root]
    while waiting:
        name = _plain(waiting.pop())
        if name in found:
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed, or for another system
        found[name] = one
        # Extras of others are not followed: what is needed is installed by those who need it
        waiting += _needs(one, extras=name == root)
    return found


_DEVELOPERS = "test|docs|dev|bench|fuzz|release|deploy|mutants"


def _needs(one: Distribution, *, extras: bool = False) -> list[str]:
    lines = [line for line in one.requires or () if extras or "extra ==" not in line]
    # Extras of the root that only its developers install
    kept = [line for line in lines if not re.search(rf"extra == ['\"]({_DEVELOPERS})['\"]", line)]
    return [_plain(match[0]) for line in kept if (match := re.match(r"[A-Za-z0-9._-]+", line))]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _url(one: Distribution) -> str:
    return f"pkg:pypi/{_plain(one.metadata['Name'])}@{one.version}"


def _component(one: Distribution) -> dict[str, Any]:
    name = _plain(one.metadata["Name"])
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": _url(one),
        "name": name,
        "version": one.version,
        "purl": _url(one),
    }
    if "License-Expression" in one.metadata:
        found["licenses"] = [{"expression": one.metadata["License-Expression"]}]
    return found
