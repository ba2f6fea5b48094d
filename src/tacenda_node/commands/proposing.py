"""`tacenda consortium propose`, `proposals`, and what `accept` does with one."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.errors import InputError
from tacenda_node.commands.options import consortium_app

if TYPE_CHECKING:
    from tacenda_node.identity.contract import Contract
    from tacenda_node.operate.settings import NodeSettings
    from tacenda_node.peer.public_start import PublicStart
    from tacenda_node.proposals.box import Box, Kept

TRANSPORT = " (failed to connect"  # the beginning of gRPC's own words, which say no more
Home = Annotated[
    Path, typer.Option("--folder", "-f", help="The member's folder, with its node.toml.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Without the question, after you have read it.")]


@consortium_app.command("propose", short_help="A member: the next run, another member, a stop.")
def consortium_propose(
    kind: Annotated[str, typer.Argument(help="next, without, with or stop.")],
    what: Annotated[
        list[str] | None, typer.Argument(help="without: members' names; with: card files.")
    ] = None,
    folder: Home = Path("."),
    title: Annotated[
        str | None, typer.Option(help="Of the next run; by default that of the last, numbered.")
    ] = None,
    contract: Annotated[
        Path | None,
        typer.Option("--contract", "-c", help="next: a contract with other terms to propose."),
    ] = None,
    joined_to: Annotated[
        list[str] | None, typer.Option(help="with: a neighbour of the new member.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(help="next: NAME=RECORDS, a member's new number of records.")
    ] = None,
    records: Annotated[
        str, typer.Option(help="next: which ids take part, 'all', 'new' or 'old' ones.")
    ] = "all",
    window: Annotated[
        int | None,
        typer.Option(help="next: only ids that joined in this number of latest trainings."),
    ] = None,
    drift: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="next: how much may have changed since the run before, a share of all there is to "
            "learn (0.01).",
        ),
    ] = None,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="next: do not continue the run before.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why, in words that the others read.")] = "",
    yes: Yes = False,
) -> None:
    """Propose something to all members, sign it, and send it to those who can be reached.

    next: a run on the same terms, which starts at the model of the run before and uses its map
    again, where this member has them. without NAME: the run under way goes on without these. with
    CARD: the next run with new members. stop: the run under way ends for good, once more than half
    have accepted.

    Example: tacenda consortium propose next --folder north --reason "October"
    """
    from tacenda_node.identity.certificates import Identity
    from tacenda_node.operate.settings import read_settings
    from tacenda_node.proposals.box import Box
    from tacenda_node.proposals.proposal import KINDS, NEXT, STOP, WITH, Proposal

    if kind not in KINDS:
        raise InputError(f"KIND must be one of {', '.join(KINDS)}, not {kind!r}.")
    settings = read_settings(folder)
    identity, place = Identity.read(settings.identity), _latest(folder)
    from tacenda_node.proposals.box import in_force

    base, box = in_force(place), Box(place.parent)
    begins = kind in (NEXT, WITH) and contract is None and not from_scratch
    start = _start_of(base, settings) if begins else None
    following = Following(start, _sizes(size), records, window, drift)
    text = (
        None
        if kind == STOP
        else _proposed(kind, base, box, what, title, contract, joined_to, following)
    )
    if kind in ("next", STOP) and what:
        raise InputError(f"`propose {kind}` takes no further words, and not {', '.join(what)}.")
    proposal = Proposal.made(kind, identity, base, reason, text)
    typer.echo(proposal.words())
    _explain(text, identity.name)
    _asked(yes, "Sign this proposal and send it to the other members?")
    box.take(proposal, {})
    start_file = None
    if text is not None and text.continues is not None and start is not None:
        start_file = start.write(place.parent)
        typer.echo(f"Send this file to members who have no result of the run before: {start_file}")
    kept = _accepted(folder, box, proposal.number)
    if kind == WITH and text is not None:
        new = ", ".join(name for name in text.names if name not in base.names)
        files = [box.place_of(kept), *([start_file] if start_file else [])]
        typer.echo(f"Send {new} {' and '.join(map(str, files))}; there: tacenda consortium accept.")
    _send(folder, base, box)
    _report(kept, box)


@consortium_app.command("proposals", short_help="What members have proposed, and who accepted.")
def consortium_proposals(
    folder: Home = Path("."),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
) -> None:
    """List the proposals that are known here, after asking the members who can be reached.

    Example: tacenda consortium proposals --folder north
    """
    from tacenda_node.proposals.box import Box, in_force

    place = _latest(folder)
    box = Box(place.parent)
    _send(folder, in_force(place), box, quiet=as_json)
    if as_json:
        typer.echo(json.dumps({"proposals": [one.to_plain() for one in box.all()]}))
        return
    for one in box.all():
        _report(one, box)
    if not box.all():
        typer.echo("There are no proposals.")


def is_proposal(given: Path, folder: Path) -> bool:
    """Whether what is to be accepted is a proposal: its file, or the beginning of its number."""
    from tacenda_node.proposals.box import FOLDER

    if given.suffix == ".json" and given.is_file():
        return True
    name = str(given)
    return not given.exists() and bool(name) and any((folder / FOLDER).glob(f"{name}*.json"))


def accept_proposal(given: Path, folder: Path, yes: bool) -> None:
    """Show what a proposal means, sign it, and tell the others."""
    from tacenda_node.identity.certificates import Identity
    from tacenda_node.operate.policy import PolicyFile, require
    from tacenda_node.operate.settings import read_settings
    from tacenda_node.proposals.box import Box, in_force
    from tacenda_node.proposals.proposal import read_proposal

    settings, place = read_settings(folder), _latest(folder)
    box, number = Box(place.parent), str(given)
    if given.is_file():
        proposal, signatures = read_proposal(given)
        if box.take(proposal, signatures) is None:
            raise InputError(
                f"{given} is about a run whose contract is not in {place.parent}; a new member "
                "accepts the contract itself, which the organiser sends."
            )
        number = proposal.number
    one, identity = box.find(number), Identity.read(settings.identity)
    text = one.proposal.text()
    typer.echo(one.proposal.words())
    _explain(text, identity.name)
    if settings.policy is not None and text is not None:
        require(PolicyFile.read(settings.policy), text, identity.signing_key)
    _asked(yes, "Accept this for your organisation?")
    kept = _accepted(folder, box, one.proposal.number)
    _send(folder, in_force(place), box)
    _report(kept, box)


def _latest(folder: Path) -> Path:
    from tacenda_node.operate.queue import Queue
    from tacenda_node.operate.settings import read_settings
    from tacenda_node.proposals.courier import latest_contract

    queued = [Path(one.what) for one in Queue(folder).entries()]
    return latest_contract(read_settings(folder), queued).resolve()


@dataclass(frozen=True)
class Following:
    """What a next run takes over, and of whom: as the flags say."""

    start: PublicStart | None
    sizes: dict[str, int]
    records: str
    window: int | None
    drift: float | None

    def terms(self, base: Contract) -> dict[str, Any] | None:
        """`continues` of the contract."""
        asked: dict[str, Any] = {"records": self.records}
        limits = {"window": self.window, "drift": self.drift}
        asked |= {name: value for name, value in limits.items() if value is not None}
        if self.start is None:
            if len(asked) > 1 or self.records != "all":
                raise InputError(
                    "--records, --window and --drift are of a run that continues one, and there is "
                    "no result of the run before here; propose at a member that has it."
                )
            return None
        return {"run": base.run_id(), "start": self.start.digest, **asked}


def _sizes(given: list[str] | None) -> dict[str, int]:
    found = {}
    for one in given or ():
        name, _, number = one.partition("=")
        if not name or not number.isdecimal() or int(number) < 1:
            raise InputError(f"--size must be NAME=RECORDS, for example m1=2100, not {one!r}.")
        found[name] = int(number)
    return found


def _start_of(base: Contract, settings: NodeSettings) -> PublicStart | None:
    """What the run before left here; it must be what a next run can take over."""
    from tacenda_node.peer.public_start import own_start, results_of
    from tacenda_node.peer.run_plan import can_be_continued

    if not base.has_training:
        return None
    if not can_be_continued(base):
        typer.echo(
            "The run starts from scratch: a run of this algorithm ends without one model for all "
            'members, or uses no start. With finish_mixing = "exact" it can be continued.',
            err=True,
        )
        return None
    found = own_start(results_of(settings.state), base)
    if found is None:
        typer.echo(
            f"The run starts from scratch: there is no result of {base.title!r} here.", err=True
        )
        return None
    if base.prepare is not None and not len(found.for_next):
        raise InputError(
            f"The result of {base.title!r} has no moment to use again; add --from-scratch for "
            "this run, and the next one can continue it."
        )
    return found


def _proposed(
    kind: str,
    base: Contract,
    box: Box,
    what: list[str] | None,
    title: str | None,
    contract: Path | None,
    joined_to: list[str] | None,
    following: Following,
) -> Contract:
    from tacenda_node.identity import contract_files
    from tacenda_node.membership.amendments import amended, next_run
    from tacenda_node.proposals.box import numbered
    from tacenda_node.proposals.proposal import WITH, WITHOUT
    from tacenda_node.setup import drafting

    if contract is not None:
        return contract_files.read(contract)
    if kind == WITHOUT:
        if not what:
            raise InputError("`propose without` needs the names of the members who leave.")
        return amended(base, [], what)
    if kind == WITH and not what:
        raise InputError("`propose with` needs the card files of the new members.")
    titles = {text.title for _, text in box.bases()}
    cards = [drafting.read_card(Path(path)) for path in what or ()] if kind == WITH else []
    name = title or numbered(base.title, titles)
    own = following.terms(base) if base.has_training else None
    return next_run(base, name, cards, joined_to or [], following.sizes, own)


def _explain(text: Contract | None, me: str) -> None:
    if text is not None and me in text.signatories and text.amendment is None:
        from tacenda_node.peer.run_plan import make_plan
        from tacenda_node.setup.meaning import in_plain_words

        typer.echo("\n".join(in_plain_words(make_plan(text), me)))


def _asked(yes: bool, question: str) -> None:
    if not yes and not (sys.stdin.isatty() and typer.confirm(question)):
        raise InputError("Nothing was signed; read the lines above, then add --yes or answer y.")


def _accepted(folder: Path, box: Box, number: str) -> Kept:
    """Signed here; a next run goes into the queue."""
    from tacenda_node.identity.certificates import Identity
    from tacenda_node.operate.queue import Queue
    from tacenda_node.operate.settings import read_settings
    from tacenda_node.proposals.courier import runs

    kept = box.accept(number, Identity.read(read_settings(folder).identity))
    place, queue = box.place_of(kept), Queue(folder)
    if runs(kept) and place is not None:
        known = {Path(one.what).resolve() for one in queue.entries()}
        if place.resolve() not in known:
            queue.add(place)
    return kept


def _send(folder: Path, base: Contract, box: Box, *, quiet: bool = False) -> None:
    from tacenda_node.identity.certificates import Identity
    from tacenda_node.operate.settings import read_settings
    from tacenda_node.proposals.post import call_all
    from tacenda_node.wire.proxy import Proxy

    settings = read_settings(folder)
    proxy = None if settings.proxy is None else Proxy.read(settings.proxy, settings.proxy_login)
    found: dict[str, Any] = call_all(
        box, base, Identity.read(settings.identity), settings.addresses, proxy
    )
    reached = [name for name, why in found.items() if not why]
    if quiet:
        return
    typer.echo(f"Shown to {', '.join(reached) or 'no member'}.")
    for name, why in found.items():
        if why:
            typer.echo(f"Not to {name}: {why.split(TRANSPORT)[0]}.")


def _report(kept: Kept, box: Box) -> None:
    one = kept.proposal
    said = ", ".join(sorted(kept.signatures)) or "no member"
    rest = "in effect" if kept.in_effect else f"waits for {', '.join(kept.missing)}"
    typer.echo(f"{one.words()}. Accepted by {said}; {rest}.")
    if not kept.in_effect:
        typer.echo(
            f"As a file, for members who were not reached: {box.folder / f'{one.number}.json'}"
        )
