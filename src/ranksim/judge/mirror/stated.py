"""Accounts that a trace does not show: what somebody states of them, and what their calls name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ranksim.core.callers.portfolio import host_label
from ranksim.core.clock import iso
from ranksim.core.contract.facts import JobKind
from ranksim.core.contract.plans import Catalogue
from ranksim.core.errors import BadInput, one_among
from ranksim.core.records import parsed_object
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.trace import Exchange
from ranksim.judge.conformance.history.exchange_reader import route
from ranksim.judge.mirror.listed import ListedKeywords, counted_lists
from ranksim.judge.mirror.reading import KEYWORDS, Item, ReadAccount, StatedAccount
from ranksim.report import units

KEYWORDS_EACH = 50
"""Keywords of a domain where nobody says, as `ranksim price import` has it."""

STARTS = {"jobs.create": "jobs.list", "keyword_briefs.create": "keyword_briefs.list"}
"""Calls that are known by what they made, and the list that it stands in."""


def stated_account(
    plan: str, catalogue: Catalogue, domains: int | None = None, keywords: int | None = None
) -> StatedAccount:
    """State the plan of accounts, how many domains they track, and keywords of each; None: as calls say.

    Raises BadInput for a plan that the catalogue lacks.
    """
    if plan not in catalogue.plans:
        raise BadInput(f"--plan: expected {one_among(catalogue.plans, plan)}")
    terms = catalogue.plans[plan].model_dump(mode="json", exclude={"name"})
    return StatedAccount(plan, terms, domains, keywords, catalogue.prices_known)


def started_item(exchange: Exchange) -> dict[str, Any]:
    """Return what a call that starts something tells of that: kind and domain, and when it was answered."""
    body = parsed_object(exchange.body) or {}
    named = {name: body[name] for name in ("kind", "domain_id") if isinstance(body.get(name), str)}
    return {**named, "created_at": iso(exchange.received or exchange.sent)}


@dataclass(slots=True)
class NamedThings:
    """What the granted calls of an account name, by their requests alone.

    `domains` are by their ids, and have invented hosts; `words` are the keywords that were put in, `started`
    jobs and briefs that no recorded reply shows, `kindless` of them jobs of a kind that was not recorded
    either.
    """

    domains: dict[str, Item] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    started: dict[str, dict[str, Item]] = field(default_factory=dict)
    kindless: int = 0

    def learn(self, exchange: Exchange, operation: str, shows: bool) -> None:
        """Take what a call names, if it was granted; its reply `shows` what it made, or not."""
        if exchange.status is None or not 200 <= exchange.status < 300:
            return
        body = parsed_object(exchange.body) or {}
        ids = [(exchange.query or {}).get("domain_id"), body.get("domain_id")]
        if OPERATIONS[operation].path.startswith("domains/{id}"):
            ids.append(route(exchange.method, exchange.path)[1].get("id"))
        for each in ids:
            self.name_domain(each)
        keywords = body.get("keywords")
        words = [str(word) for word in keywords] if isinstance(keywords, list) else []
        if operation == "keywords.create":
            self.words.update(words)
        if operation in STARTS and not shows and not body.get("dry_run"):
            self.kindless += operation == "jobs.create" and "kind" not in body
            item = {"kind": JobKind.RANK_RUN.value, **started_item(exchange)}
            rows = self.started.setdefault(STARTS[operation], {})
            rows |= {f"{exchange.id}.{n}": item for n in range(max(1, len(words)))}

    def account(self, read: ReadAccount, stated: StatedAccount, listed: ListedKeywords) -> ReadAccount:
        """Return what a trace shows of an account with what is stated of it; what is neither is assumed."""
        lists = dict(read.lists)
        named = {str(row["id"]): row for row in lists.get("domains.list", ())}
        for word in lists.get(KEYWORDS, ()):
            self.name_domain(word.get("domain_id"))
        named = self.domains | named
        count = max(1 if stated.domains is None else stated.domains, len(named))
        each = -(-len(self.words) // count) or KEYWORDS_EACH if stated.keywords is None else stated.keywords
        complete = listed.domains(lists, named)
        lists["keyword_lists.list"] = list(counted_lists(lists, named, complete, each))
        lists["domains.list"] = list(named.values())
        for listing, rows in self.started.items():
            lists[listing] = [*lists.get(listing, ()), *rows.values()]
        stated = replace(stated, domains=count, keywords=each)
        assumed = self._assumed(read, stated, len(named), len(complete))
        return replace(read, lists=lists, stated=stated, assumed=assumed)

    def name_domain(self, which: Any) -> None:
        """Take a domain by its id, if it is one."""
        if isinstance(which, str) and which:
            self.domains[which] = {"id": which, "host": f"{host_label(which)}.example"}

    def _assumed(self, read: ReadAccount, stated: StatedAccount, named: int, complete: int) -> Sequence[str]:
        """Say what of an account nobody observed, where calls list all keywords of `complete` domains."""
        name = read.name
        silent = " where calls do not list all of them" if complete else ""
        words = f"{units.many(stated.keywords or 0, 'keyword')}{silent} and " * (complete != stated.domains)
        assumed = [
            f"that {name} is on plan {stated.plan}, and its terms",
            f"what {name} has used before",
            f"what {name} tracks where no call shows it: {units.many(stated.domains or 0, 'domain')}, of "
            f"which calls name {named}, with {words}one scan of google/desktop in US each; no endpoints",
        ]
        if len(read.keys) > 1:
            assumed.append(f"that the {len(read.keys)} keys of {name} are of one account")
        if self.kindless:
            assumed.append(f"that jobs of {name} whose kind was not recorded are rank runs")
        return assumed


def no_account(stated: StatedAccount | None, shows: bool) -> BadInput:
    """Return the error that a trace shows no account, or, of a plan that is stated, none without one."""
    if stated is None:
        return BadInput(
            "--trace: expected a trace in which an account is read (account.get, account.usage, "
            "account.entitlements), found none; state the plan of its accounts, such as --plan agency, give "
            "--host, too, or record these calls"
        )
    if shows:
        return BadInput("--plan: the trace shows the plan of each account in it; leave --plan out")
    return BadInput(
        "--trace: expected calls with a key that the header declares, found none; import them with "
        "ranksim trace import, and say whose they are (--account-from, --by-client or --one-key)"
    )
