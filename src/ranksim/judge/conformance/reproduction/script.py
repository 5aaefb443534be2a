"""A finding as a self-contained shell script: what it needs is made, its exchanges are sent again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.files import write_file
from ranksim.core.records import parsed
from ranksim.core.trace import Exchange
from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.exhibits import LONGEST, Exhibits, found_in
from ranksim.judge.conformance.following import causes
from ranksim.judge.conformance.history.observation import asks_dry
from ranksim.judge.conformance.history.trace_reader import Source
from ranksim.judge.conformance.reproduction.calls import ScriptCalls
from ranksim.judge.conformance.reproduction.needed import Provenance, items_of, provenance, tokens_of
from ranksim.judge.conformance.reproduction.signs import DEPENDS, SIGNS, Expression, Signs
from ranksim.judge.conformance.verdict.verdicts import Evidence, Finding

LONGEST_WAIT = 2 * MINUTE
"""A script waits no longer between two calls."""

MOST_CALLS = 60
"""A script of more calls is none that a person reads."""

RACES = 5
"""How often calls at once are tried."""

HEADERS = ("header", "rate")
"""Families of rules on what replies over GraphQL have, too."""

BURSTS = ("rate.read", "rate.write", "rate.expensive")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The script that shows a finding, or why there is none."""

    script: str = ""
    why_not: str = ""


def reproductions(
    sources: Sequence[Source], judgement: Judgement, exhibits: Exhibits
) -> dict[str, Reproduction]:
    """Return for each rule that deviates, and only follows from no other, its script or why it has none."""
    following = causes(judgement.findings)
    broken = [finding for finding in judgement.deviating if finding.rule.name not in following]
    wanted, listed = dict[str, Exchange](), set[str]()
    for finding in broken:
        names = [name for name in finding.evidence[0].named if name in exhibits.exchanges]
        if finding.rule.name in (*SIGNS, *BURSTS):
            wanted |= {name: exhibits.exchanges[name] for name in names}
            listed |= {*names} if finding.rule.name.startswith("paging.") else set()
    origin = provenance(sources, wanted, listed)
    return {finding.rule.name: _reproduction(finding, judgement, exhibits, origin) for finding in broken}


def _reproduction(
    finding: Finding, judgement: Judgement, exhibits: Exhibits, origin: Provenance
) -> Reproduction:
    rule, piece = finding.rule, finding.evidence[0]
    family, bursts = rule.name.partition(".")[0], rule.name in BURSTS
    depends = Reproduction(why_not=DEPENDS.get(family, "it depends on what the account has used"))
    proof = [name for name in piece.exchanges if name in origin.exchanges]
    if bursts:
        proof = [name for name in proof if _repeatable(origin.exchanges[name])][:1]
    shows = rule.name in (*SIGNS, *BURSTS)
    if not proof or not shows or (family not in HEADERS and origin.exchanges[proof[-1]].surface != "rest"):
        return depends
    walk = family == "paging"
    names = origin.needed(_with_items(piece, origin) if walk else proof)
    if why := _why_not(names, proof, origin):
        return Reproduction(why_not=why)
    calls = ScriptCalls(names, proof, origin, exhibits.headers[proof[0]], waits=family == "cooldown")
    gaps, steps = calls.gaps(), [*calls.steps()]
    loop = f"TRIES=${{TRIES:-{RACES if min(gaps, default=0) < 0 else 1}}} UNTIL=yes"
    if bursts:
        steps, loop, signs = _burst(finding, judgement, calls)
    else:
        signs = SIGNS[rule.name]([calls.read(name) for name in (names if walk else proof)], piece)
    if not signs or (calls.waits and max(gaps, default=0) > LONGEST_WAIT):
        return depends
    says = {
        "expected": piece.expected or rule.under(judgement.facts),
        "found": found_in(rule, piece, exhibits)[:LONGEST],
        "difference": piece.says,
    }
    about = f"{rule.name}: {rule.under(judgement.facts)} (S{', S'.join(map(str, rule.facts))})"
    return Reproduction(_text(about, says, calls, steps, loop, signs))


def _text(
    about: str, says: Mapping[str, str], calls: ScriptCalls, steps: Sequence[str], loop: str, signs: Signs
) -> str:
    """Return the script: what is its own, and what all have."""
    shows = [
        f"  sign {shlex.quote(sign.label)} {calls.words(sign.recorded)} {calls.evaluated(sign)}"
        for sign in signs
    ]
    used = " ".join([*steps, *shows])
    lines = [
        "#!/bin/sh",
        f"# {about}",
        "# Exit code 1: the deviation shows; 0: it does not; 2: what it needs could not be made.",
        "# Keys come from the environment, where BASE may name another address. What is made is removed.",
        *calls.settings(),
        f"{loop} NO_KEY= UNKNOWN_KEY=sk_live_nobody",
        *(f"echo {shlex.quote(f'{label}: {text}')}" for label, text in says.items()),
        *("", "steps() {"),
        *(f"  {line}" for line in steps if line[0] != "v" or f"${{{line.partition('=')[0]}}}" in used),
        *("}", "", "signs() {", *shows, "}", ""),
    ]
    runtime = files("ranksim").joinpath("data/reproduction.sh").read_text("utf-8")
    return "\n".join(lines) + "\n" + runtime


def _why_not(names: Sequence[str], proof: Sequence[str], origin: Provenance) -> str:
    """Return why calls make no script, "" where they do."""
    if any(origin.exchanges[name].status is None for name in proof):
        return "a reply of its evidence was not seen"
    if len(names) > MOST_CALLS:
        return f"it needs {len(names)} calls"
    for name in names:
        exchange = origin.exchanges[name]
        if any(token.isdecimal() for token in tokens_of(exchange)):
            return "its ids are plain numbers, which each kind of thing may have"
        changes = exchange.method in ("PATCH", "DELETE") and 200 <= (exchange.status or 0) <= 299
        if changes and not origin.issuers_of(name, tokens_of(exchange)):
            return "it changes what was there before"
    return ""


def _burst(finding: Finding, judgement: Judgement, calls: ScriptCalls) -> tuple[list[str], str, Signs]:
    """Return the steps, the loop and the signs of more calls at once than a window admits, or of as many.

    A window may end in the midst of them, which admits more: so it is done twice, and must show each time.
    """
    rates, [name] = judgement.facts.rates, calls.proof
    limit = {"rate.read": rates.read, "rate.write": rates.write}.get(finding.rule.name, rates.expensive)
    fewer = any(case.broken and case.name.endswith("fewer") for case in finding.cases)
    wait = "sleep $((WINDOW + 1))" if fewer else "test $try -eq 1 || sleep $((WINDOW * 3 / 2))"
    setup = [line for line in calls.steps() if not line.startswith(f"call {calls.step(name)} ")]
    count = limit if fewer else limit + limit // 4 + 5
    loop = f"TRIES=${{TRIES:-2}} UNTIL=no WINDOW=${{WINDOW:-{judgement.facts.rate_window // SECOND}}}"
    label = f"{'fewer' if fewer else 'more'} than {limit} are admitted"
    sign = Expression(label, ("below" if fewer else "beyond", str(limit)), "yes")
    return [*setup, wait, f"burst {count} {calls.request(name)}"], loop, [sign]


def _repeatable(exchange: Exchange) -> bool:
    """Return whether a call makes nothing, however often it is made."""
    return exchange.method in ("GET", "PATCH") or asks_dry(parsed(exchange.body), exchange.surface)


def _with_items(piece: Evidence, origin: Provenance) -> list[str]:
    """Return the exchanges of evidence on a walk, and those that made the items of its pages."""
    makers = list[str]()
    for name in origin.needed(piece.named):
        makers += origin.issuers_of(name, items_of(origin.exchanges[name]))
    return [*piece.named, *makers]


def write_scripts(
    sources: Sequence[Source], judgement: Judgement, exhibits: Exhibits, folder: Path
) -> dict[str, str]:
    """Write a script for each rule that has one into a folder; return what reports say of each rule.

    That is how its script is run, or why there is none. Raises BadInput where a file cannot be written.
    """
    says = dict[str, str]()
    for name, made in reproductions(sources, judgement, exhibits).items():
        path = folder / f"{name}.sh"
        says[name] = f"sh {shlex.quote(str(path))}" if made.script else f"no script, as {made.why_not}"
        if made.script:
            write_file(path, made.script, 0o777)
    return says
