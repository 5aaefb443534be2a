"""What a load run can exercise: found out by reading, from a base URL and one key.

A deployment is somebody else's program. What it lacks, what a key may not do and what it answers oddly is
noted and left alone; nothing here fails because of an answer, but where it contradicts what the target says.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from itertools import combinations
from types import MappingProxyType
from typing import Any, TypeGuard

from ranksim.core.callers.retry import pages, politely, puts_off_too_long
from ranksim.core.callers.steps import Program, Received, Send
from ranksim.core.callers.target import Target
from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.core.trace import TraceKey

SINGLES = ("account.get", "account.entitlements", "account.usage", "slots.get")
"""What tells of an account as a whole."""

LISTS = (
    *("domains.list", "keyword_lists.list", "scans.list", "webhooks.list"),
    *("jobs.list", "keyword_briefs.list", "webhook_deliveries.list"),
)
"""Lists that a run needs to know or to be judged by."""

REMOVALS = tuple(
    f"{noun}.delete"
    for noun in ("domains", "keyword_lists", "keywords", "labels", "competitors", "scans", "webhooks")
)
"""By what is removed what runs make."""

NOBODYS = "ranksim-none"
"""An id that nothing has."""

CONTENT = ("keywords.list", "labels.list", "competitors.list")
"""Lists that show, beside those, whether a run left alone what was there."""

GRAPHQL = "graphql"
"""The name under which `lacks` says that there is no GraphQL."""

LACKING = frozenset({403, 404, 405, 410, 501})

INACTIVE = frozenset({"past_due", "unpaid", "canceled"})

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""What was read of an object that could not be read."""


@dataclass(frozen=True, slots=True)
class KeyReach:
    """What one key can do: whether it works at all, else why not; what it may not read, and why.

    `purpose` is what the target says, corrected by what was read. `account` is its account's id, "" where
    that cannot be read. `reads` has what was read, by operation: an object, or the list of a first page.
    """

    name: str
    environment: str
    purpose: str
    usable: bool
    reason: str = ""
    account: str = ""
    domain_id: str | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, Any] = field(default_factory=dict)

    def room(self) -> int | None:
        """Return how many slots are free, or None where that cannot be read."""
        slots = self._object("slots.get")
        limit, used = slots.get("limit"), slots.get("used")
        return max(0, int(limit - used)) if _is_number(limit) and _is_number(used) else None

    def left(self, metric: str) -> int | None:
        """Return what is left of the first metered allowance whose name holds `metric`, or None."""
        metrics = self._object("account.usage").get("metrics")
        for entry in metrics if isinstance(metrics, list) else ():
            if isinstance(entry, dict) and metric in str(entry.get("metric")):
                limit, used = entry.get("limit"), entry.get("used")
                if _is_number(limit) and _is_number(used):
                    return max(0, int(limit - used))
        return None

    def cooldown(self, spend: str) -> Micros | None:
        """Return how long an operation cools by what the plan states (business time), or None."""
        lengths = self._object("account.entitlements").get("cooldown_seconds")
        seconds = lengths.get(spend) if isinstance(lengths, Mapping) else None
        if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0:
            return None
        return seconds * SECOND

    @property
    def account_id(self) -> str:
        """The id of its account, as GET /v1/account shows it; "" where that was not read."""
        return str(self._object("account.get").get("id") or "")

    def items(self, operation: str) -> tuple[Mapping[str, Any], ...]:
        """Return what the first page of a list shows that has an id, or nothing."""
        answer = self.reads.get(operation)
        items = answer if isinstance(answer, list) else []
        return tuple(item for item in items if isinstance(item, dict) and "id" in item)

    def ids(self, operation: str) -> tuple[str, ...]:
        """Return the ids on the first page of a list, or none."""
        return tuple(str(item["id"]) for item in self.items(operation))

    def _object(self, operation: str) -> Mapping[str, Any]:
        answer = self.reads.get(operation)
        return answer if isinstance(answer, dict) else NOTHING


@dataclass(frozen=True, slots=True)
class Reach:
    """What can be exercised. `main` is the first key that works for a whole account, else any; "" for none.

    `lacks` says of an operation (or "graphql") that the main key cannot use it, and why. `date` is the
    deployment's own clock (µs) when that was found out, None where it dates no reply. `run` keeps the names
    and Idempotency-Keys of a run apart from those of another one with the same seed.
    """

    target: Target
    keys: Mapping[str, KeyReach] = field(default_factory=dict)
    main: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)
    date: Micros | None = None
    run: int = 0

    def can(self, operation: str, key: str = "") -> bool:
        """Return whether nothing speaks against an operation (or "graphql") with a key, or the main one."""
        lacks = self.keys[key].lacks if key in self.keys else self.lacks
        return bool(self.main) and operation not in lacks

    def cooldown(self, spend: str) -> Micros | None:
        """Return how long an operation cools by what the main account's plan states, or None."""
        return self.keys[self.main].cooldown(spend) if self.main else None

    def usable(self) -> tuple[KeyReach, ...]:
        """Return the keys that work."""
        return tuple(key for key in self.keys.values() if key.usable)

    def of(self, *purposes: str) -> tuple[KeyReach, ...]:
        """Return the keys that work and are for one of these purposes."""
        return tuple(key for key in self.usable() if key.purpose in purposes)

    def sharing(self) -> tuple[KeyReach, ...]:
        """Return the keys that load can be shared among: of whole accounts beside the main one, it first."""
        here = [key for key in self.of("full", "second", "other_account") if key.environment == self._home]
        return tuple(sorted(here, key=lambda key: key.name != self.main))

    def with_main(self, main: str) -> Reach:
        """Return what can be exercised with another key in place of the main one."""
        if main == self.main:
            return self
        old, new = self.keys[self.main], self.keys[main]
        swapped = {main: replace(new, purpose=old.purpose), self.main: replace(old, purpose=new.purpose)}
        return replace(self, keys={**self.keys, **swapped}, main=main, lacks=dict(new.lacks))

    @property
    def _home(self) -> str:
        return self.keys[self.main].environment if self.main in self.keys else ""


def declared(target: Target, reached: Mapping[str, KeyReach]) -> dict[str, TraceKey]:
    """Declare whose each key of a target is, for a trace's header: as found, else as the target says."""
    return {
        name: TraceKey(
            account=(reached[name].account if name in reached else "") or key.account,
            environment=key.environment,
            domain_id=reached[name].domain_id if name in reached else key.domain_id,
            variable=key.variable,
        )
        for name, key in target.keys.items()
    }


# Finding out


def explore(target: Target) -> Generator[Any, Any, Reach]:
    """Read with every key what there is to read, and return what can be exercised.

    Raises BadInput where the target gives accounts to keys that what they read contradicts.
    """
    keys: dict[str, KeyReach] = {}
    first: Received = yield Send("webhook_events.list", key="")
    for name in target.keys:
        keys[name] = yield from _explore_key(target, name)
    keys = {key.name: key for key in _corrected(keys)}
    usable = [key for key in keys.values() if key.usable]
    usable.sort(key=lambda key: key.purpose != "full")
    main = usable[0].name if usable else ""
    lacks = dict(keys[main].lacks) if main else {}
    if main:
        body = {"query": "query { domains(first: 1) { nodes { id } } }"}
        answer = yield Send("domains.list", main, body=body, surface="graphql")
        if not (answer.ok and isinstance(answer.body, dict) and not answer.body.get("errors")):
            lacks[GRAPHQL] = _why(answer)
    return Reach(target, keys, main, lacks, _date(first.header("date")))


def irremovable(key: str) -> Generator[Any, Any, dict[str, str]]:
    """Ask for something that nobody has to be removed, of each kind that runs make, with a key.

    Return why not for each operation by which a deployment removes nothing.
    """
    kept: dict[str, str] = {}
    for operation in REMOVALS:
        answer = yield from politely(Send(operation, key, path={"id": NOBODYS}))
        if answer.status in (403, 405, 501):
            kept[operation] = _why(answer)
        elif answer.status == 0:
            break
    return kept


def _date(text: str) -> Micros | None:
    """Read an IMF-fixdate (RFC 9110)."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) * SECOND
    except (ValueError, OverflowError):
        return None


def _explore_key(target: Target, name: str) -> Generator[Any, Any, KeyReach]:
    given, reads, lacks = target.keys[name], dict[str, Any](), dict[str, str]()
    unusable = KeyReach(name, given.environment, given.purpose, usable=False)
    answer = yield from politely(Send("domains.list", name, query={"limit": "200"}))
    if answer.status in (0, 401) or puts_off_too_long(answer):
        return replace(unusable, reason="401: the key is refused" if answer.status == 401 else _why(answer))
    _note("domains.list", answer, reads, lacks)
    missing = answer.status == 404
    for operation in (*SINGLES, *LISTS[1:]):
        query = {"limit": "200"} if operation in LISTS else {}
        answer = yield from politely(Send(operation, name, query=query))
        _note(operation, answer, reads, lacks)
        missing = missing and answer.status == 404
    if missing:
        return replace(unusable, reason="404 for whatever is read: there is no such API")
    key = replace(unusable, usable=True, account=given.account, domain_id=given.domain_id)
    return replace(key, lacks=lacks, reads=reads)


def _note(operation: str, answer: Received, reads: dict[str, Any], lacks: dict[str, str]) -> None:
    """Keep what was read, or say why it was not."""
    expected = list if operation in LISTS else dict
    if answer.ok and isinstance(answer.data, expected):
        reads[operation] = answer.data
    elif answer.status != 429 or puts_off_too_long(answer):
        lacks[operation] = _why(answer)


def _why(answer: Received) -> str:
    if answer.status == 0:
        return "nothing was answered" + (f": {answer.error}" if answer.error else "")
    if puts_off_too_long(answer):
        return f"429 with Retry-After {answer.header('retry-after')}, which is longer than anybody waits here"
    if answer.status in LACKING:
        return f"{answer.status} {answer.code}".strip()
    return f"{answer.status}, and not what was expected"


def _corrected(keys: Mapping[str, KeyReach]) -> Iterator[KeyReach]:
    """Correct keys that were called full by what they were found to be, and find whose each is."""
    names = _account_names(keys.values())
    keys = {name: replace(key, account=names.get(name, key.account)) for name, key in keys.items()}
    first = next((key for key in keys.values() if key.usable and key.purpose == "full"), None)
    for key in keys.values():
        called_full = key.usable and key.purpose == "full"
        purpose = _found_purpose(key, first) if first is not None and called_full else key.purpose
        domains = key.ids("domains.list")
        domain = domains[0] if purpose == "scoped" and len(domains) == 1 else key.domain_id
        yield replace(key, purpose=purpose, domain_id=domain, account=key.account or _owner(key, keys))


def _account_names(keys: Collection[KeyReach]) -> dict[str, str]:
    """Name the account of each key that may read it: as the target names it for any of its keys, else its id.

    Raises BadInput where keys of one account read several, or keys of several read one.
    """
    readers = [key for key in keys if key.account_id]
    given = [key for key in readers if key.account]
    for reader, other in combinations(given, 2):
        alike = reader.account == other.account, reader.account_id == other.account_id
        if reader.environment == other.environment and alike[0] != alike[1]:
            raise BadInput(
                f"target: the keys {reader.name} and {other.name} are of the accounts {reader.account} and "
                f"{other.account} there, and GET /v1/account says {reader.account_id} and "
                f"{other.account_id}; "
                "give all keys of one account one account, and those of others another"
            )
    named = {(key.environment, key.account_id): key.account for key in given}
    return {key.name: named.get((key.environment, key.account_id), key.account_id) for key in readers}


def _found_purpose(key: KeyReach, first: KeyReach) -> str:
    """Return what a key that was called full was found to be, beside the first of them."""
    account = key.reads.get("account.get")
    status = account.get("status") if isinstance(account, dict) else None
    if isinstance(status, str) and status in INACTIVE:
        return "past_due"
    if key is first:
        return "full"
    if "account.get" in key.lacks and len(key.ids("domains.list")) == 1:
        return "scoped"
    if key.environment != first.environment:
        return "other_environment"
    if key.account and first.account:
        return "second" if key.account == first.account else "other_account"
    return "full"


def _owner(key: KeyReach, keys: Mapping[str, KeyReach]) -> str:
    """Return the account of a key that may not read it: the only one that lists all its domains; else ""."""
    domains = set(key.ids("domains.list"))
    near = (other for other in keys.values() if other.account and other.environment == key.environment)
    owners = {other.account for other in near if domains and domains.issubset(other.ids("domains.list"))}
    return owners.pop() if len(owners) == 1 else ""


# Before and after


def state(reach: Reach) -> Program:
    """Read into the trace the state that the keys may read, before the load and as it left it."""
    for key in reach.usable():
        yield from read_all(reach, key.name, (*SINGLES, *LISTS))


def content(reach: Reach) -> Program:
    """Read what else an account has that a run might change, once for each account, as far as lists go."""
    keys = [key for key in reversed(reach.usable()) if key.purpose != "scoped"]
    unbound = {(key.environment, key.account or key.name): key for key in keys}
    for key in unbound.values():
        yield from read_all(reach, key.name, CONTENT)


def read_all(reach: Reach, key: str, operations: Iterable[str]) -> Program:
    """Read all that a key may read of some operations, lists page by page."""
    for operation in operations:
        if reach.can(operation, key):
            send = Send(operation, key)
            yield from pages(send) if operation.endswith(".list") else politely(send)


def _is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number that can be counted with: neither infinite nor beyond what floats hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 53
