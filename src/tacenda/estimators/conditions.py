"""What the guarantee of a fit rests on, in plain words."""

from __future__ import annotations

from typing import Any

from tacenda.planning.advice import class_sentence
from tacenda.privacy.statement import UNIT
from tacenda.runtime.result import RunResult
from tacenda.words import counted


def conditions(model: Any, result: RunResult) -> list[str]:
    """What the guarantee rests on, in plain words."""
    if result.privacy is None:
        return [
            "There is no privacy (epsilon=None): the model and every message are exact "
            "functions of the records, and nothing is promised about them."
        ]
    sizes = (
        "record counts of the nodes"
        if model._relation == "replace-one"
        else "the declared public_sizes"
    )
    said = [
        f"{sizes[0].upper()}{sizes[1:]}, the network and all settings are public, "
        "and were not chosen by looking at the records.",
        "A person counts as one record of one node; "
        "several records of one person weaken the guarantee."
        if result.privacy.unit == UNIT
        else f"The guarantee is for {result.privacy.for_whom}, of one node; several records "
        "of one person weaken it."
        if result.privacy.one_record
        else f"The guarantee is for {result.privacy.for_whom}; records beyond that were left "
        "out by a random draw.",
        "The fit was simulated in one process: the person who ran it saw all records; "
        "the guarantee is about the messages and the model.",
        "history_ and any score on training data are computed without noise, and are not covered.",
    ]
    q = result.privacy.curve().coalition
    if q is not None:
        said.append(
            "Neighbours share noise: the guarantee holds against eavesdroppers and against "
            f"at most {q} curious data holder{'' if q == 1 else 's'} combining what they know; "
            "larger coalitions may learn more."
        )
    if model.bounds is not None and not isinstance(model.bounds, str):
        said.append("The declared feature bounds come from public knowledge.")
    said += model._shortening_notes()
    if model.plan_ is not None and model.plan_.public_records is not None:
        said.append(
            f"The step was tuned on {counted(model.plan_.public_records, 'record')} declared "
            "public: these have no protection, and nothing was charged for them."
        )
    if model.plan_ is not None:
        said += class_sentence(model.plan_.facts, model.plan_.privacy)
    if model._heaviest is not None:
        said.append(
            f"Records have weights from 0 to {model._heaviest:g}, a public bound for which the "
            "noise was made; a weight is part of its record, and class weights are public."
        )
    if model._started:
        said.append(
            "The fit started from the model given as init, which must be public or paid for "
            "elsewhere: nothing was charged for it."
        )
    if model.random_state is not None:
        said.append(
            "The noise came from a fixed random_state: "
            "anyone who knows it can subtract the noise. For simulation only."
        )
    if model.ledger is not None:
        said.append(
            "The fit was charged to a lasting ledger, "
            "which composes it with all other fits on the same data set."
        )
    return said
