"""What only the organisation can say: the fields of an impact assessment and of a record of
processing that no program knows. Without an answer each is a blank, marked as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tacenda import checks
from tacenda.errors import InputError
from tacenda.formats.text import from_toml

SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
LONGEST = 4000


@dataclass(frozen=True)
class Field:
    """One question: its name in the file, what is asked, an example of an answer, and where the
    answer goes."""

    name: str
    question: str
    example: str
    used_in: str


FIELDS = (
    Field(
        "controller",
        "Name and contact details of the controller, and of joint controllers",
        "North Hospital, 1 Example Street; joint controllers: South Clinic, West Clinic",
        "Art. 30(1)(a)",
    ),
    Field(
        "representative",
        "The controller's representative in the Union, where there is one",
        "none, the controller is established in the Union",
        "Art. 30(1)(a)",
    ),
    Field(
        "data_protection_officer",
        "Name and contact details of the data protection officer",
        "A. Example, dpo@north.example",
        "Art. 30(1)(a)",
    ),
    Field(
        "purpose",
        "Purposes of the processing, and the legitimate interest where that is the ground",
        "To learn which patients are likely to be readmitted within 30 days",
        "Art. 30(1)(b), Art. 35(7)(a)",
    ),
    Field(
        "legal_basis",
        "Legal basis (Art. 6), and the condition of Art. 9(2) for special categories",
        "Art. 6(1)(e) and Art. 9(2)(j) with national law",
        "Art. 35(7)(b)",
    ),
    Field(
        "data_subjects",
        "Categories of data subjects",
        "Adult patients discharged in 2020 to 2025",
        "Art. 30(1)(c)",
    ),
    Field(
        "data_categories",
        "Categories of personal data, and which of them are special",
        "Age, diagnoses, length of stay; health data are special",
        "Art. 30(1)(c)",
    ),
    Field(
        "recipients",
        "Who will receive the model, and who the messages of the run",
        "The members of the contract; later the public",
        "Art. 30(1)(d)",
    ),
    Field(
        "third_countries",
        "Transfers to third countries or international organisations, and their safeguards",
        "none",
        "Art. 30(1)(e)",
    ),
    Field(
        "retention",
        "When records, state folder, evidence and model are erased",
        "Records by the hospital's rules; the state after 90 days; the evidence after 10 years",
        "Art. 30(1)(f)",
    ),
    Field(
        "security",
        "Measures of the organisation beyond those of the program",
        "Locked server room, full-disk encryption, two administrators",
        "Art. 30(1)(g), Art. 32",
    ),
    Field(
        "necessity",
        "Why the processing is necessary, and why less would not do",
        "A model of one hospital alone was not accurate enough, see the report of 3 May",
        "Art. 35(7)(b)",
    ),
    Field(
        "other_risks",
        "Risks that the program does not know: of the model's use, of errors, of unfair results",
        "A wrong prediction may delay a discharge; a physician decides in every case",
        "Art. 35(7)(c)",
    ),
    Field(
        "views",
        "Advice of the data protection officer, and the views of data subjects where sought",
        "The patients' council was heard on 12 April",
        "Art. 35(2) and (9)",
    ),
    Field(
        "why_this_epsilon",
        "Why this epsilon and this delta are small enough",
        "The officers of all members compared them with published deployments",
        "SP 800-226, deployments registry",
    ),
    Field(
        "tuning",
        "How bounds, classes and settings were chosen, and whether anybody looked at the records",
        "From published tables and a simulation on public data; no one looked at the records",
        "SP 800-226, deployments registry",
    ),
    Field(
        "data_permit",
        "Number, date and purpose of the permit of a health data access body, where there is one",
        "Permit 2026-017 of 3 May 2026",
        "Art. 61(1) of Regulation (EU) 2025/327",
    ),
    Field(
        "region",
        "Region that the data describe, or whose law applies",
        "Austria",
        "deployments registry",
    ),
    Field("author", "Who fills in this form", "A. Example", "deployments registry"),
    Field("sector", f"One of {', '.join(SECTORS)}; or empty", "Healthcare", "deployments registry"),
)
NAMES = tuple(field.name for field in FIELDS)


def read_organisation(path: str | Path | None) -> dict[str, str]:
    """The answers in a TOML file; {} without one."""
    if path is None:
        return {}
    try:
        return checked(from_toml(Path(path).read_text("utf-8")), str(path))
    except FileNotFoundError:
        raise InputError(
            f"There is no file {path}; `tacenda evidence form` prints one to fill in."
        ) from None
    except ValueError as wrong:  # TOML or encoding
        raise InputError(f"{path} is not valid TOML: {wrong}; correct it there.") from None


def checked(values: Mapping[str, object], where: str) -> dict[str, str]:
    """The answers that are not empty; InputError for a name or a value that is none."""
    found: dict[str, str] = {}
    for name, value in values.items():
        checks.one_of(f"{where} field", name, NAMES)
        if not isinstance(value, str) or len(value) > LONGEST:
            raise InputError(
                f"{where} field {name}: must be text of at most {LONGEST} characters; correct it."
            )
        # Signs that are not seen, and signs that turn the order of the others round
        if not "".join(value.split()).isprintable():
            raise InputError(
                f"{where} field {name}: must not hold signs that cannot be seen, such as "
                f"{next(s for s in value if not s.isspace() and not s.isprintable())!r}; remove "
                "them."
            )
        if value.strip():
            found[name] = " ".join(value.split())
    if "sector" in found:
        checks.one_of(f"{where} field sector", found["sector"], SECTORS)
    return found


def organisation_form() -> str:
    """Questions that only the organisation can answer, as a TOML file to fill in.

    Returns
    -------
    str
        TOML with one empty answer for each question, and an example above it.

    Examples
    --------
    >>> from tacenda_node import evidence
    >>> evidence.organisation_form().count(' = ""')
    20
    """
    head = (
        "# What only your organisation can say. An empty answer is printed as a blank to be filled "
        "in by hand.\n"
        "# tacenda evidence RUN -o FOLDER --organisation THIS_FILE\n"
    )
    parts = [
        f'\n# {field.question} ({field.used_in}).\n# Example: {field.example}\n{field.name} = ""\n'
        for field in FIELDS
    ]
    return head + "".join(parts)
