"""What accounts start with: keys, and a portfolio of domains made through the service itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, Protocol, Self, TypeAlias

from pydantic import Field, model_validator

from ranksim.core.callers.requests import competitor_body, domain_body, keywords_body, named_body, scan_body
from ranksim.core.clock import Micros
from ranksim.core.contract.quantities import TEXT, Frozen, Instant, Money, also
from ranksim.core.errors import BadInput, near
from ranksim.core.service.bodies import MOST_KEYWORDS, Country, Expecting, Language, Location, PairingText
from ranksim.core.service.calls import Body, Reply
from ranksim.core.service.service import Service

MADE = "keyword "
"""What keywords that are made up begin with."""

Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
PairingWord = Annotated[PairingText, Expecting("a pairing such as google/desktop")]


def host_label(name: str) -> str:
    """Make a part of a host of a name: what is no letter or digit becomes a hyphen, as with "acc_01"."""
    return re.sub("[^A-Za-z0-9-]", "-", name).strip("-") or "unnamed"


class _FromText(Frozen):
    """What may be written as text alone, which is its first field."""

    model_config = also(TEXT)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {next(iter(cls.model_fields)): value} if isinstance(value, str) else value


class CallsSpec(Frozen):
    """Calls that a key has made before the start in windows under way (S102-S104): `count` of a class.

    Where the policy has windows of its own, they are `of` one that counts for each key. They were made `at`
    an instant, or at the start; `graphql` if they count in windows of its own (U11).
    """

    of: str
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    at: Instant | None = None
    graphql: bool = False


class KeySpec(_FromText):
    """An API key by name, for the whole account or scoped to the domain with that host (S70).

    `token` is what it is presented as, where that shall not be drawn; `calls` are counted already.
    """

    name: Text
    domain: str | None = None
    token: Annotated[str, Field(pattern=r"^[A-Za-z0-9._~-]{8,200}$")] | None = None
    calls: Annotated[tuple[CallsSpec, ...], Field(strict=False)] = ()  # a list of JSON, read from text or not


class GeographySpec(_FromText):
    """Where a scan looks from; written as the country alone, or with location and language (U85)."""

    country: Country
    location_id: Location | None = None
    language: Language | None = None


class ScanSpec(Frozen):
    """A scan over all keyword lists of each domain: engine-device pairings × geographies (S23)."""

    engine_devices: Annotated[tuple[PairingWord, ...], Field(min_length=1)] = ("google/desktop",)
    geographies: Annotated[tuple[GeographySpec, ...], Field(min_length=1)] = (GeographySpec(country="US"),)
    active: bool = True


class PortfolioSpec(Frozen):
    """What an account tracks at the start: `domains` as a count or as hosts; the rest is per domain.

    The keywords are dealt over the lists in turn; without a scan they take no slots (E47).
    """

    domains: Annotated[int, Field(ge=1)] | Annotated[tuple[Text, ...], Field(min_length=1)] = 1
    lists: Annotated[int, Field(ge=1)] = 1
    keywords: Count = 0
    scans: tuple[ScanSpec, ...] = (ScanSpec(),)
    labels: Count = 0
    competitors: Count = 0

    def hosts(self, account: str, after: int = 0) -> tuple[str, ...]:
        """The hosts of the domains, for the account of that name; numbers go on `after` some domains."""
        if isinstance(self.domains, tuple):
            return self.domains
        label = host_label(account)
        numbers = range(after + 1, after + self.domains + 1)
        return tuple(f"site{number}.{label}.example" for number in numbers)

    def slots(self) -> int:
        """The slots it takes (S23, S24)."""
        per_keyword = sum(len(s.engine_devices) * len(s.geographies) for s in self.scans if s.active)
        domains = len(self.domains) if isinstance(self.domains, tuple) else self.domains
        return domains * self.keywords * per_keyword


class ListSpec(Frozen):
    """A keyword list by name, with so many keywords or with these."""

    name: Text
    keywords: Count | tuple[Text, ...] = 0

    @property
    def size(self) -> int:
        """How many keywords it has."""
        return self.keywords if isinstance(self.keywords, int) else len(self.keywords)


class SiteScanSpec(ScanSpec):
    """A scan by name over the lists with these names, or over all (S23)."""

    name: Text
    lists: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None


class SiteSpec(Frozen):
    """A domain stated by itself, with all that it has by name; `id` fixes its id."""

    host: Text
    id: Annotated[str, Field(pattern="^dom_[0-9]{10}$")] | None = None
    lists: tuple[ListSpec, ...] = ()
    scans: tuple[SiteScanSpec, ...] = ()
    labels: tuple[Text, ...] = ()
    competitors: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _lists_fit(self) -> Self:
        names = [each.name for each in self.lists]
        for name in (name for scan in self.scans for name in scan.lists or () if name not in names):
            raise ValueError(f"a scan covers list {name!r}, and there is none{near(name, names)}")
        if len(set(names)) < len(names):
            raise ValueError("two lists have one name; give each its own")
        return self

    def slots(self) -> int:
        """The slots it takes (S23, S24)."""
        sizes = {each.name: each.size for each in self.lists}
        return sum(
            sum(sizes[name] for name in scan.lists or sizes)
            * len(scan.engine_devices)
            * len(scan.geographies)
            for scan in self.scans
            if scan.active
        )


class CooldownSpec(Frozen):
    """A cooldown under way: an operation on the domain with this host cools down since then (S65, U46)."""

    spend: Literal["rank_run", "crawl", "site_optimization", "ai_scan", "keyword_briefs", "keywords", "scans"]
    domain: str
    since: Instant


class UsedSpec(Frozen):
    """What an account has used when it starts: units by metric, cost (µUSD) of the month, held slots.

    Each belongs to the period that the start lies in (S108, S110, U51). `cooldowns` are those under way.
    """

    metrics: dict[str, Count] = Field(default_factory=dict)
    spent: Annotated[Money, Field(ge=0)] = 0
    held: Count = 0
    cooldowns: tuple[CooldownSpec, ...] = ()


class AccountSpec(Frozen):
    """A customer account: plan, subscription status, billing anchor, add-ons by count, keys, portfolio.

    `further` are portfolios of other domains, which track something else, `sites` domains stated one by one;
    `used` is what is used already, `id` what it shall be called.
    """

    plan: str
    id: Annotated[str, Field(pattern="^acc_[0-9]{10}$")] | None = None
    status: str = "active"
    anchor: Instant | None = None
    add_ons: dict[str, Count] = Field(default_factory=dict)
    environment: Literal["production", "sandbox"] = "production"
    keys: tuple[KeySpec, ...] = (KeySpec(name="main"),)
    portfolio: PortfolioSpec | None = None
    further: tuple[PortfolioSpec, ...] = ()
    sites: tuple[SiteSpec, ...] = ()
    used: UsedSpec | None = None

    @property
    def portfolios(self) -> tuple[PortfolioSpec, ...]:
        """All its portfolios."""
        return (*(() if self.portfolio is None else (self.portfolio,)), *self.further)

    def slots(self) -> int:
        """The slots it takes at the start (S23, S24)."""
        return sum(part.slots() for part in self.portfolios) + sum(site.slots() for site in self.sites)

    def hosts(self, name: str) -> tuple[str, ...]:
        """The hosts of the domains it starts with."""
        counted = (host for portfolio in self.portfolios for host in portfolio.hosts(name))
        return (*counted, *(site.host for site in self.sites))


@dataclass(slots=True)
class Actor:
    """An account at work at a host: its name, its id in the service, and the ids of what it started with.

    `words` counts the keywords made for each domain, so that `fresh_words` never makes one twice.
    """

    name: str
    account: str
    environment: str = "production"
    keys: dict[str, str] = field(default_factory=dict)
    """Key name to token."""
    domains: list[str] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)
    """Host to domain id."""
    lists: dict[str, list[str]] = field(default_factory=dict)
    """Domain id to the ids of its keyword lists."""
    scans: dict[str, list[str]] = field(default_factory=dict)
    """Domain id to the ids of its scans."""
    words: dict[str, int] = field(default_factory=dict)
    """Domain id to the number of keywords made for it so far."""

    def forget(self, host: str) -> str:
        """Take a domain out, by its host; return its id."""
        domain = self.hosts.pop(host)
        self.domains.remove(domain)
        del self.lists[domain], self.scans[domain]
        return domain

    def fresh_words(self, domain: str, count: int) -> list[str]:
        """Make keywords that this domain has never had: "keyword 1", "keyword 2" and so on."""
        made = self.words.get(domain, 0)
        self.words[domain] = made + count
        return [f"{MADE}{number}" for number in range(made + 1, made + count + 1)]


class Host(Protocol):
    """Where accounts are opened: a service at an instant, and its web app, which knows no rate limit."""

    service: Service

    @property
    def now(self) -> Micros:
        """The present instant."""

    def app_call(self, actor: Actor, operation: str, body: Body, /) -> Reply:
        """Make a call of the web app on behalf of an account."""


def open_actor(host: Host, name: str, spec: AccountSpec) -> Actor:
    """Open an account with its portfolio and keys. Raises BadInput when the service refuses part of it.

    The account is made healthy first and takes its status at the end, so that a past-due one can own things.
    """
    service, now = host.service, host.now
    with fixed_id(service, f"accounts.{name}.id", spec.id, list(service.state.accounts)):
        account = service.open_account(
            name, spec.plan, now, anchor=spec.anchor, add_ons=dict(spec.add_ons), environment=spec.environment
        )
    actor = Actor(name, account, spec.environment)
    for portfolio in spec.portfolios:
        make_portfolio(partial(_make, host, actor), portfolio_of(actor, portfolio, portfolio.hosts(name)))
    for number, site in enumerate(spec.sites):
        where, making = f"accounts.{name}.sites[{number}].id", site_of(actor, site)
        operation, body = next(making)
        owned = [*actor.domains, *service.state.domains.keys() & {site.id}]
        with fixed_id(service, where, site.id, owned):
            made = _make(host, actor, operation, body)
        make_portfolio(partial(_make, host, actor), making, made)
    if spec.used is not None:
        set_used(service, actor, spec.used, now)
    for key in spec.keys:
        domain = actor.hosts[key.domain] if key.domain is not None else None
        token = service.issue_key(account, key.name, now, domain=domain, token=key.token or "")
        actor.keys[key.name] = token
        for calls in sorted(key.calls, key=lambda calls: calls.at or now):
            service.count_calls(token, calls.of, calls.at or now, calls.count, now, graphql=calls.graphql)
    if spec.status != "active":
        service.set_status(account, spec.status, now)
    return actor


def set_used(service: Service, actor: Actor, used: UsedSpec, now: Micros) -> None:
    """Let an account have used of its month and week what is stated, and its domains cool down."""
    service.set_usage(actor.account, used.metrics, used.spent, used.held, now)
    for cooling in used.cooldowns:
        service.set_cooldown(actor.account, cooling.spend, actor.hosts[cooling.domain], cooling.since, now)


@contextmanager
def fixed_id(service: Service, where: str, id: str | None, before: Iterable[str]) -> Iterator[None]:
    """Let what a service makes meanwhile have a stated id, if any, that comes after some. Raises BadInput."""
    state, serial = service.state, service.state.serial
    if id is not None:
        if (last := max(before, default="")) >= id:
            raise BadInput(f"{where}: {id} is past, as ids ascend; state one after {last}")
        state.serial = int(id.rpartition("_")[2]) - 1
    yield
    state.serial = max(serial, state.serial)


Making: TypeAlias = Generator[tuple[str, Body], Any, None]
"""Yields an operation with its body, and is sent the data of its reply; None where a scan is refused."""


def portfolio_of(actor: Actor, spec: PortfolioSpec, sites: Iterable[str]) -> Making:
    """Make what an account tracks: a domain of each of these hosts, with lists, keywords, scans and so on.

    `actor` gets to know the ids as they are made.
    """
    words = tuple(f"{MADE}{number}" for number in range(1, spec.keywords + 1))
    lists = tuple(
        ListSpec(name=f"list {number + 1}", keywords=words[number :: spec.lists])
        for number in range(spec.lists)
    )
    scans = tuple(
        SiteScanSpec(name=f"scan {number}", **dict(scan)) for number, scan in enumerate(spec.scans, 1)
    )
    labels = tuple(f"label {number}" for number in range(1, spec.labels + 1))
    for site in sites:
        rivals = tuple(f"rival{number}.{site}" for number in range(1, spec.competitors + 1))
        yield from site_of(
            actor, SiteSpec(host=site, lists=lists, scans=scans, labels=labels, competitors=rivals)
        )


def site_of(actor: Actor, site: SiteSpec) -> Making:
    """Make a domain with lists, keywords, scans and so on; `actor` gets to know the ids as they are made."""
    domain = (yield "domains.create", domain_body(site.host))["id"]
    actor.domains.append(domain)
    actor.hosts[site.host] = domain
    ids: dict[str, str] = {}
    for listed in site.lists:
        ids[listed.name] = (yield "keyword_lists.create", named_body(domain, listed.name))["id"]
    actor.lists[domain] = list(ids.values())
    stated = [text for each in site.lists if isinstance(each.keywords, tuple) for text in each.keywords]
    actor.words[domain] = _last_made(stated)
    for listed in site.lists:
        texts = listed.keywords
        words = actor.fresh_words(domain, texts) if isinstance(texts, int) else list(texts)
        for first in range(0, len(words), MOST_KEYWORDS):
            batch = words[first : first + MOST_KEYWORDS]
            yield "keywords.create", keywords_body(ids[listed.name], batch)
    scans = actor.scans[domain] = []
    for scan in site.scans:
        made = yield "scans.create", _scan(domain, [ids[name] for name in scan.lists or ids], scan)
        scans += [made["id"]] if made else []
    for label in site.labels:
        yield "labels.create", named_body(domain, label)
    for host in site.competitors:
        yield "competitors.create", competitor_body(domain, host)


def _last_made(words: Iterable[str]) -> int:
    """Return the highest number of the keywords that were made up."""
    numbers = (word.removeprefix(MADE) for word in words if word.startswith(MADE))
    return max((int(number) for number in numbers if re.fullmatch("[0-9]{1,9}", number)), default=0)


def make_portfolio(make: Callable[[str, Body], Any], making: Making, made: Any = None) -> None:
    """Make what an account tracks, each part by a function that returns the data of its reply.

    `made` is that of the part that was made last, where the making is under way.
    """
    with suppress(StopIteration):
        while True:
            made = make(*making.send(made))


def _scan(domain: str, lists: list[str], scan: SiteScanSpec) -> Body:
    places = [place.model_dump(exclude_none=True) for place in scan.geographies]
    return {**scan_body(domain, lists, scan.name, scan.engine_devices, places), "active": scan.active}


def _make(host: Host, actor: Actor, operation: str, body: Body) -> Any:
    reply = host.app_call(actor, operation, body)
    if reply.status >= 400 or reply.body is None:
        detail = (reply.body or {}).get("detail", "").rstrip(".")
        if reply.check:
            hint = "make the portfolio smaller or choose another plan"
        elif operation == "domains.create":
            hint = f"found {body['host']!r}; list hosts in domains, else they have the account's name"
        else:
            hint = "correct it"
        raise BadInput(
            f"accounts.{actor.name}.portfolio: the service refused {operation} with {reply.code}: "
            f"{detail}; {hint}"
        )
    return reply.body["data"]
