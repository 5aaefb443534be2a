"""What others have in their accounts stays as it was: a deployment with content, before and after.

Everything that can be listed is read before a run and after it. What was there is there still, the same in
every field; what has come carries the mark of the run, or lies in what does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.judge.check.in_virtual_time import check_in
from tests.judge.conformance.elsewhere.sockets import ran, served
from tests.judge.conformance.elsewhere.virtual import Elsewhere, elsewhere, rehearsal

from ranksim.bridges.rehearsal import rehearse_in
from ranksim.bridges.scripted_receivers import BASE
from ranksim.core.callers.network import Network
from ranksim.core.callers.retry import pages
from ranksim.core.callers.steps import Send
from ranksim.core.clock import MINUTE
from ranksim.core.records import read_lines
from ranksim.judge.conformance.compare import compare
from ranksim.judge.deployment.cleanup import Created, Remains, mark, remove_created
from ranksim.judge.deployment.discovery import Reach, explore
from ranksim.judge.load.untouched import Untouched
from ranksim.judge.profiles import PROFILES, profile

SEED = 13
LISTED = (
    *("domains", "keyword_lists", "keywords", "labels", "competitors", "scans", "webhooks"),
    *("jobs", "keyword_briefs"),
)

Dump = dict[tuple[str, str, str], dict[str, Any]]
"""What an account lists, by account, kind and id."""


def furnished(**numbers: Any) -> Elsewhere:
    """A deployment whose accounts track keywords by scans, and have labels and competitors."""
    drawn = replace(elsewhere.drawn(SEED, quick=True), **numbers)
    made = rehearsal(drawn, SEED, network=Network())
    for account in made.service.deployment.accounts:
        for number, domain in enumerate(list(account.tables["domains"].values())):
            domain["path"] = "/blog"
            bound = {"domain_id": domain["id"]}
            account.add("labels", **bound, name="of theirs")
            account.add("competitors", **bound, host=f"rival{number}.example")
    return made


def dump(made: Elsewhere) -> Dump:
    """Read all that can be listed, with every key that reads a whole account."""
    reach: Reach = made.alone(explore(made.target))
    whole = {(key.environment, key.account): key.name for key in reach.usable() if key.purpose != "scoped"}
    found: Dump = {}
    for (environment, account), key in whole.items():
        for noun in LISTED:
            for item in made.alone(pages(Send(f"{noun}.list", key), 1_000)):
                found[f"{environment} {account}", noun, item["id"]] = item
    return found


def foreign(before: Dump, after: Dump, marks: tuple[str, ...]) -> Iterator[str]:
    """What differs, and neither carries a mark nor lies in what does."""
    for key, item in before.items():
        now = after.get(key)
        if now is None:
            yield f"{key} is gone"
        elif now != item:
            fields = [name for name in item if now.get(name) != item[name]]
            yield f"{key} has other {fields}"
    come = {key: item for key, item in after.items() if key not in before}
    ours = {key[2] for key, item in come.items() if any(one in json.dumps(item) for one in marks)}
    for key, item in come.items():
        inside = {str(item.get("domain_id")), str(item.get("list_id"))}
        if key[2] not in ours and not inside & ours:
            yield f"{key} came, and carries no mark: {item}"


@pytest.mark.parametrize("name", [one.name for one in PROFILES])
def test_a_load_changes_nothing_but_what_carries_its_mark(name: str) -> None:
    made = furnished()
    before = dump(made)
    known = profile(name)
    rehearse_in(made, known, duration=min(known.duration, 3 * MINUTE), seed=SEED)
    assert list(foreign(before, dump(made), (f"{mark(SEED)}-", f"{mark(SEED)} ", BASE))) == []


@pytest.mark.slow
@pytest.mark.parametrize("dry", [False, True], ids=["", "dry-run-only"])
def test_a_check_changes_nothing_but_what_carries_its_mark(dry: bool) -> None:
    made = furnished()
    made.target = made.target.model_copy(update={"dry_run_only": dry})
    before = dump(made)
    checked = check_in(made, 10 * MINUTE, seed=SEED)
    seeds = range(SEED, SEED + 100)
    marks = (*(mark(seed) for seed in seeds), BASE)
    assert list(foreign(before, dump(made), () if dry else marks)) == []
    reach: Reach = made.alone(explore(made.target))
    made.alone(remove_created(reach, Created(frozenset(map(mark, seeds)), (BASE,)), Remains()))
    assert list(foreign(before, dump(made), marks)) == []
    assert checked.ownership is not None
    assert checked.ownership.held_back == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rule", "case"),
    [("webhooks", "webhook.sent", "crawl failed"), ("rungs", "job.reason", "failed")],
)
@pytest.mark.parametrize("named", [True, False])
def test_jobs_fail_where_the_target_names_a_domain_for_it(
    name: str, rule: str, case: str, named: bool
) -> None:
    made = furnished(failing=0.0)
    account = made.service.deployment.accounts[0]
    failing = list(account.tables["domains"])[2]
    made.service.deployment.failing_domains.add(failing)
    if named:
        made.target = made.target.model_copy(update={"failing_domain": failing})
    before = dump(made)
    trace = rehearse_in(made, profile(name), users=4, duration=5 * MINUTE, seed=SEED)
    seen = {one.name: one for one in compare(trace).finding(rule).cases}[case]
    assert seen.conforms == named
    after = dump(made)
    jobs = [item for (_, noun, _), item in after.items() if noun == "jobs" and item["domain_id"] == failing]
    assert bool(jobs) == named
    kept = {key: item for key, item in after.items() if item not in jobs}
    assert list(foreign(before, kept, (mark(SEED), BASE))) == []


@pytest.mark.slow
def test_a_run_tells_of_its_own_readings_that_what_was_there_is_untouched(tmp_path: Path) -> None:
    with served(tmp_path) as target:
        trace = ran("check load", target, "--profile", "scope", "--duration", "5s", "--seed", "7", out="out")
    said = Untouched.of(map(json.loads, read_lines(trace))).lines()
    counted = "12 domains, 12 keyword lists, 186 keywords, 4 scans"
    assert said == [f"untouched: what was there before reads the same after: {counted}"]
