"""What a profile is, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

from ranksim.core.callers.steps import Program
from ranksim.core.clock import Micros
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.fixtures import User


@dataclass(frozen=True, slots=True)
class Needs:
    """What it takes to go once through a profile: about how long (µs), and what all users together use up.

    `jobs` they start, `briefs` they ask for and `slots` they fill, at the most where a deployment admits all
    of it. What a job costs no deployment says before it has run, so money is bounded by a spend cap alone.
    About so many calls are of the `expensive` class, of which a key makes few a minute.
    """

    length: Micros
    jobs: int = 0
    briefs: int = 0
    slots: int = 0
    expensive: int = 0

    def times(self, laps: int) -> Needs:
        """Return what it takes to go through so many times."""
        each = (self.length, self.jobs, self.briefs, self.slots, self.expensive)
        return Needs(*(amount * laps for amount in each))


@dataclass(frozen=True, slots=True)
class Claim:
    """What the cases of a profile want at least of what each account has only once: units, not calls."""

    briefs: int = 0
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of load: its aim, the rules it exercises, and the program of each user.

    `rules` are names or beginnings of names ("windows.") of the judges' rules: what it is for, beside what
    any call shows. `users` and `duration` are what it runs with unless told otherwise; `needs(reach, users)`
    says what going through it once takes there, None where nobody knows. What a user `plays` ends by itself
    where the profile `ends`, or says at each `Lap` that it has been once through, and goes on until it is
    stopped. Where it `spreads`, users of a load share all keys of whole accounts; those of a check do not.
    A check keeps for it what it makes `claim` to.
    """

    name: str
    aim: str
    rules: tuple[str, ...]
    users: int
    duration: Micros
    plays: Callable[[User], Program]
    needs: Callable[[Reach, int], Needs] | None = None
    ends: bool = False
    spreads: bool = False
    claim: Claim = Claim()

    def program(self, reach: Reach, user: int, users: int, seed: int, *, load: bool = False) -> Program:
        """Return the program of a user, by its number; it is empty where no key works."""
        if not reach.main:
            return
        keys = [key.name for key in reach.sharing()] if load and self.spreads else [reach.main]
        view = reach.with_main(keys[user % len(keys)])
        yield from self.plays(User(view, user, users, seed, len(keys)))

    def once(self, reach: Reach, users: int) -> Needs:
        """Return what it takes to go through it once: its length alone where nothing else is known."""
        return Needs(self.duration) if self.needs is None else self.needs(reach, users)

    def serves(self, rule: str) -> bool:
        """Return whether it is for a rule."""
        return rule.startswith(self.rules)


def most_by_chance(calls: int, percent: int) -> int:
    """Return how many of so many calls are of a kind that each is by chance: hardly ever more."""
    mean = calls * percent // 100 + 1
    return mean + 4 * isqrt(mean)
