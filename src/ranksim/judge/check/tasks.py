"""The tasks of a check: profiles, each with the keys that it takes, and which of them go side by side.

A task takes keys alone where it probes what a key is allowed, and wants quiet accounts where it counts what
is used up around each of its calls. All others go side by side, at a pace that rate limits admit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from itertools import cycle
from typing import Any

from ranksim.core.callers.steps import Program, Send
from ranksim.core.clock import MINUTE, Micros
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.deployment.budget import account_named
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.profiles import cost_cap, ladder, profile
from ranksim.judge.profiles.precedence import climbers
from ranksim.judge.profiles.profile import Claim, Needs
from ranksim.judge.profiles.windows import window_of

FIRST = (
    *("smoke", "scope", "breadth", "everyday", "walk", "endpoints", "webhooks"),
    *("retry", "cooldowns", "race", "last"),
)
"""Profiles that go side by side with the main key."""

TITLES = {
    "smoke": "calls twice at once",
    "limits": "a burst",
    "bursts": "bursts of writes and reads",
    "scope": "keys out of place",
    "breadth": "each resource",
    "walk": "pages of lists",
    "endpoints": "webhooks",
    "ladder": "the six checks{}",
    "cooldowns": "ends of cooldowns",
    "burst": "rate limits",
    "retry": "retries",
    "webhooks": "webhooks of jobs",
    "race": "races",
    "everyday": "everyday calls",
    "last": "the last slots and briefs",
    "ceiling": "the cost ceiling{}",
    "windows": "how rates are limited",
    "webhooks-long": "webhook retries of hours",
}
"""What tasks are called where people read, by the first word of their names; the rest is whose key climbs."""

ORDER = (
    *("smoke", "limits", "bursts", "scope", "breadth", "walk", "endpoints", "ladder", "cooldowns", "burst"),
    *("retry", "webhooks", "race", "everyday", "last", "ceiling", "windows", "webhooks-long"),
)
"""Which task comes before which of its stage: what decides most for what it takes."""

FREE = ("walk", "endpoints")
"""Profiles of these that use up nothing which is counted."""

USERS = {"everyday": (0, 1), "walk": (0, 1), "webhooks": (2, 3)}
"""Fewer users than a profile's own: expensive calls, 20 a minute and key, are what time goes to. Those of
"webhooks" that make endpoints and count failures are there as "endpoints", from the start."""

MEETING = ("smoke", "cooldowns", "race", "last")
"""Profiles whose calls are for an instant, which no pace may put off."""

READING = ("scope", "breadth", "everyday", "walk")
"""Profiles of these that decide something where nothing but reading is done."""

LONG: Micros = 15 * MINUTE
"""What must be left where probes would keep the one key from all else."""

PROBES = ("burst", "windows")
"""Profiles that use up what a key may call, so that no other task can use it meanwhile."""


class Stage(IntEnum):
    """When a task has its turn: what matters first, all else, what uses up slots and briefs, then money."""

    SMOKE = 0
    BROAD = 1
    LAST = 2
    END = 3


STAGES = {"smoke": Stage.SMOKE, "last": Stage.LAST}
"""The stage of those of these profiles that are not broad."""


@dataclass(frozen=True, slots=True)
class CheckTask:
    """A profile, or the part of it that some of its users have.

    `users` are the numbers of its users that run, of `of` in all, and `laps` how often they go through.
    `main` is the key that stands for the main one. `uses` are the keys that it calls with, and of these it
    takes `alone` what no other task may use meanwhile; `spends` are the accounts that it spends on, of which
    `quiet` are those where no other task may spend. `needs` is what once through takes, `waits` says that its
    calls can be put off to keep a pace, and `stage` that tasks of an earlier one which spend on its accounts
    come before it. It begins `after` so much time, where so much is `left` (µs). What spends is sent
    with the `spare` keys of its account in turn.
    """

    name: str
    profile: str
    users: tuple[int, ...]
    of: int
    main: str
    uses: frozenset[str]
    spends: frozenset[str]
    needs: Needs
    alone: frozenset[str] = frozenset()
    waits: bool = True
    quiet: frozenset[str] = frozenset()
    stage: Stage = Stage.BROAD
    after: Micros = 0
    left: Micros = 0
    laps: int = 1
    spare: tuple[str, ...] = ()

    def serves(self, rule: str) -> bool:
        """Return whether it is for a rule."""
        return profile(self.profile).serves(rule)

    @property
    def title(self) -> str:
        """What it tries, in the words of those who read of it."""
        first, _, key = self.name.partition(" of ")
        return TITLES[first].format(f" (key {key})")

    @property
    def aim(self) -> str:
        """What its profile is for."""
        return profile(self.profile).aim

    @property
    def claim(self) -> Claim:
        """What it claims of each account that it spends on."""
        return profile(self.profile).claim

    def beside(self, other: CheckTask) -> bool:
        """Return whether it can go side by side with another."""
        keys = not (self.alone & other.uses or other.alone & self.uses)
        return keys and not (self.quiet & other.spends or other.quiet & self.spends)

    def beside_all(self, others: Iterable[CheckTask]) -> bool:
        """Return whether it can go side by side with each of others."""
        return all(self.beside(other) for other in others)

    def programs(self, reach: Reach, seed: int) -> list[Program]:
        """Make the programs of its users."""
        view = reach.with_main(self.main)
        made = [profile(self.profile).program(view, user, self.of, seed) for user in self.users]
        return [alternate_keys(program, self.spare) for program in made] if self.spare else made


@cache
def served(name: str, rules: tuple[str, ...]) -> tuple[str, ...]:
    """Return which rules a profile is for; planning asks it ten thousand times."""
    return tuple(rule for rule in rules if profile(name).serves(rule))


def alternate_keys(program: Generator[Any, Any, Any], spare: tuple[str, ...]) -> Program:
    """Send what spends with a program's key and with spare ones by turns: each has a rate limit of its own.

    What is sent again goes with the same key, which its Idempotency-Key may belong to.
    """
    turns, answer, last, key = cycle(("", *spare)), None, None, ""
    while True:
        try:
            step = program.send(answer)
        except StopIteration:
            return
        if isinstance(step, Send) and OPERATIONS[step.operation].spends:
            if step is not last:
                last, key = step, next(turns) or step.key
            step = replace(step, key=key)
        answer = yield step


def tasks(reach: Reach) -> list[CheckTask]:
    """Return all that a check can do with the keys of a target; nothing without a key that works."""
    if not reach.main:
        return []
    unordered = (
        *_limits(reach),
        *_side_by_side(reach),
        *_ladders(reach),
        *_ceilings(reach),
        *_probes(reach),
        _long(reach),
    )
    return sorted(unordered, key=lambda task: (task.stage, ORDER.index(task.name.partition(" of ")[0])))


def _limits(reach: Reach) -> Iterator[CheckTask]:
    """A burst of expensive calls, and of writes and reads where no other task makes it.

    With the one key that all use they come after a minute, as they leave none of these calls for one; that
    of writes and reads only where time is left for what it puts off.
    """
    second, window = _second(reach).name, window_of(reach)
    task = replace(_at_once(reach, "limits", second), stage=Stage.SMOKE)
    if second != reach.main:
        yield task
        return
    yield replace(task, after=window)
    yield replace(_at_once(reach, "bursts", second), after=window, left=4 * window)


def _at_once(reach: Reach, name: str, key: str) -> CheckTask:
    """Return a task of a profile, all of whose users call with one key and never wait."""
    task = _of_profile(reach, name, tuple(range(profile(name).users)), key, (key,), ())
    return replace(task, waits=False)


def _side_by_side(reach: Reach) -> Iterator[CheckTask]:
    main_account, second = owner_of(reach.keys[reach.main]), _second(reach)
    third = next(iter(_spare(reach)), reach.keys[reach.main])
    instead = {"retry": second.name, "breadth": third.name, "cooldowns": third.name}
    keys: Mapping[str, Iterable[KeyReach]] = {
        "scope": reach.usable(),
        "retry": (reach.keys[reach.main], *reach.of("second"), *reach.of("other_account")),
        "race": (*reach.of("second")[:1], *reach.of("near_limit")),
        "last": reach.of("near_limit"),
        "endpoints": reach.of("scoped", "other_account"),
        "walk": (*reach.of("other_account"), *reach.of("scoped")),
    }
    for name in FIRST:
        users, spends = USERS.get(name, tuple(range(profile(name).users))), {main_account}
        if name in ("race", "last"):
            spends |= {owner_of(key) for key in reach.of("near_limit")}
        main = instead.get(name, reach.main)
        uses = (main, *(key.name for key in keys.get(name, ())))
        task = _of_profile(reach, name, users, main, uses, () if name in FREE else spends)
        yield replace(
            task,
            waits=name not in MEETING,
            laps=4 if name == "walk" else 1,
            stage=STAGES.get(name, Stage.BROAD),
            quiet=task.spends if name == "last" else frozenset(),
        )


def _of_profile(
    reach: Reach, name: str, users: tuple[int, ...], main: str, uses: Iterable[str], spends: Iterable[str]
) -> CheckTask:
    """Return a task of some users of a profile, the last of which is its last."""
    needs, of = profile(name).once(reach, len(users)), users[-1] + 1
    return CheckTask(name, name, users, of, main, frozenset(uses), frozenset(spends), needs)


def _ladders(reach: Reach) -> Iterator[CheckTask]:
    """A ladder for each account and purpose of a key, which counts what each call uses up there.

    No other task spends on its account.
    """
    for task, key in _climbs(reach, "ladder", "rungs", climbers(reach), ladder.needs_of):
        spare = tuple(extra.name for extra in _spare(reach)) if key.name == reach.main else ()
        quiet = frozenset[str]() if key.purpose == "scoped" else task.spends
        yield replace(task, uses=task.uses.union(spare), quiet=quiet, spare=spare)


def _ceilings(reach: Reach) -> Iterator[CheckTask]:
    """The climb to the cost ceiling of an account; to that of the main one, once all others spent there."""
    main_account = owner_of(reach.keys[reach.main])
    for task, _ in _climbs(reach, "ceiling", "ceiling", cost_cap.steep_ones(reach), cost_cap.needs_of):
        ends = task.spends & {main_account}
        yield replace(task, quiet=ends, stage=Stage.END if ends else Stage.BROAD)


def _climbs(
    reach: Reach,
    name: str,
    played: str,
    keys: Sequence[KeyReach],
    needs_of: Callable[[Reach, Sequence[KeyReach], int], Needs],
) -> Iterator[tuple[CheckTask, KeyReach]]:
    """Yield a task for each of the keys that climb, a user of the profile each."""
    for number, key in enumerate(keys):
        uses, spends, needs = frozenset({key.name}), frozenset({owner_of(key)}), needs_of(reach, [key], 1)
        title = f"{name} of {key.name}"
        yield CheckTask(title, played, (number,), len(keys), reach.main, uses, spends, needs), key


def _probes(reach: Reach) -> Iterator[CheckTask]:
    """Probes of rate windows, by a second key of the account where there is one, so that others go on."""
    second = _second(reach).name
    for name in PROBES:
        task = _at_once(reach, name, second)
        yield replace(task, alone=task.uses, left=LONG if second == reach.main else 0)


def _long(reach: Reach) -> CheckTask:
    main = reach.main
    return _of_profile(reach, "webhooks-long", (0,), main, (main,), (owner_of(reach.keys[main]),))


def _spare(reach: Reach) -> Sequence[KeyReach]:
    """Return the further keys of the main account that no probe takes alone."""
    main = reach.keys[reach.main]
    return [key for key in reach.of("second") if key.account == main.account and key != _second(reach)]


def _second(reach: Reach) -> KeyReach:
    """Return a second key of the main account, or the main one."""
    main = reach.keys[reach.main]
    return next((key for key in reach.of("second") if key.account == main.account), main)


def owner_of(key: KeyReach) -> str:
    """Return whose books a key touches, as far as that is known."""
    return account_named(key.environment, key.account) or key.name
