"""All terms, by the section of a file in which their settings are."""

from __future__ import annotations

from typing import Any

from tacenda.terms.data import StatedData
from tacenda.terms.network import StatedNetwork
from tacenda.terms.privacy import StatedPrivacy
from tacenda.terms.problem import StatedProblem
from tacenda.terms.run import StatedRun

SECTIONS: dict[str, Any] = {
    "data": StatedData,
    "problem": StatedProblem,
    "network": StatedNetwork,
    "privacy": StatedPrivacy,
    "run": StatedRun,
}
