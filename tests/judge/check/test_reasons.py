"""Why a check says that it left a rule open, and what it says would decide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from ranksim.bridges.rehearsal import Rehearsal
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.clock import MINUTE
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Trace
from ranksim.judge.check.checking import Checking
from ranksim.judge.check.plan import CheckPlan, make_plan
from ranksim.judge.conformance.compare import RULES, Judgement, compare
from ranksim.judge.deployment.discovery import explore


@cache
def planned(*only: str, time: int = 3 * MINUTE) -> CheckPlan:
    service, target = make_world(seed=1)
    target = target.model_copy(update={"keys": {"main": target.keys["main"]}})
    reach = Rehearsal(service, target).alone(explore(target))
    return make_plan(reach, RULES, time, only, receiver=True)


class Nobody:
    """Neither makes calls nor records any."""

    def tell(self, **message: Any) -> None: ...

    def hear(self, seconds: float) -> Mapping[str, Any] | None:
        return None

    def kill(self) -> None: ...

    def close(self) -> None: ...

    def judged(self, policy: Policy | None) -> Judgement:
        return compare(Trace())

    def lines(self) -> Iterator[dict[str, Any]]:
        return iter(())


def ended(plan: CheckPlan, begun: Iterable[str] = (), cut: Iterable[str] = ()) -> Checking:
    """A check that saw nothing: which tasks it began, and which of them it cut."""
    checking = Checking(plan, Nobody(), Nobody(), None, lambda news: None, 0, now=lambda: 0)
    checking.judgement = compare(Trace())
    checking.rounds.begun.update(dict.fromkeys(begun, 1))
    checking.cut.update(dict.fromkeys(cut, 1))
    return checking


RATES = "bursts of writes and reads, rate limits, how rates are limited"

NOTHING = "nothing came up that would show it"


def test_what_had_no_time_says_how_much_it_wants() -> None:
    plan = planned("rate.read", "paging")
    assert (
        ended(plan, ["walk"]).undecided_because()["rate.read"]
        == f"{NOTHING}; wants --time 6m, for bursts of writes and reads"
    )
    cut = ended(plan, ["walk", "bursts", "burst"], cut=["burst"]).undecided_because()
    assert cut["rate.read"] == f"{NOTHING}; wants a longer --time, for rate limits"


def test_what_was_stopped_does_not_want_more_time() -> None:
    checking = ended(planned("rate.read", "paging"), ["walk"], cut=["walk"])
    checking._stop("it was asked to stop")
    said = checking.undecided_because()
    assert said["paging.once"] == f"{NOTHING}; it was asked to stop before pages of lists had run through"
    assert said["rate.read"] == f"{NOTHING}; it was asked to stop before {RATES} had run through"


def test_where_all_tasks_ran_it_says_what_would_show_it() -> None:
    checking = ended(
        planned("guards.slots", "cooldown.enforced"), ["ladder of main", "race", "cooldowns", "smoke", "last"]
    )
    assert checking.undecided_because() == {
        "guards.slots": f"{NOTHING}; would show it: no slots left, best with a cooldown running on the same "
        "operation",
        "cooldown.enforced": f"{NOTHING}; would show it: several start the same job at once; or repeat a job",
    }


def test_where_nothing_is_said_of_a_rule_its_cases_say_what_would_show_it() -> None:
    said = ended(planned("paging.once"), ["walk"]).undecided_because()
    assert said["paging.once"] == (
        f"{NOTHING}; would show it: one of its cases, which `ranksim explain` names"
    )


def test_what_keys_and_the_deployment_keep_from_view_is_no_matter_of_time() -> None:
    said = ended(planned("header.deprecation", "access")).undecided_because()
    assert said["header.deprecation"] == (
        "nothing is to go before there is a /v2; wants a deployment that has one"
    )
    assert said["access.scoped_writes"] == said["access.scope"]
    assert said["access.scope"].startswith("no key is bound to one domain; wants a key with")
