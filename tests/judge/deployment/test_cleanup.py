"""Tidying up: what carries the run's mark goes, all else stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from ranksim.bridges.rehearsal import Rehearsal
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.bridges.scripted_receivers import BASE
from ranksim.core.callers.retry import pages
from ranksim.core.callers.steps import Received, Send
from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE
from ranksim.judge.deployment.cleanup import Created, Left, Remains, find_created, mark, remove_created
from ranksim.judge.deployment.discovery import KeyReach, Reach, explore
from ranksim.judge.profiles import profile


def names(rehearsal: Rehearsal, key: str) -> Any:
    """Everything that a key sees and that a run could have made."""
    seen = {}
    for operation, shown in (
        ("domains", "host"),
        ("keyword_lists", "name"),
        ("keywords", "keyword"),
        ("labels", "name"),
        ("competitors", "host"),
        ("scans", "name"),
        ("webhooks", "url"),
    ):
        items = rehearsal.alone(pages(Send(f"{operation}.list", key)))
        seen[operation] = sorted(item[shown] for item in items)
    return seen


def removed(rehearsal: Rehearsal, reach: Reach, *seeds: int, urls: tuple[str, ...] = ()) -> list[Left]:
    remains = Remains()
    created = Created(frozenset(map(mark, seeds)), urls)
    rehearsal.alone(remove_created(reach, created, remains))
    return remains.listed()


def test_only_what_the_run_made_goes() -> None:
    service, target = make_world(seed=1)
    rehearsal = Rehearsal(service, target)
    reach: Reach = rehearsal.alone(explore(target))
    before = {key: names(rehearsal, key) for key in target.keys}
    for name in ("walk", "ladder", "race", "webhooks"):
        programs = [profile(name).program(reach, user, 3, 77) for user in range(3)]
        rehearsal.together(programs, rehearsal.now + MINUTE)
    made = names(rehearsal, "main")
    assert len(made["domains"]) > 5
    assert made["scans"]
    assert made["webhooks"]
    assert removed(rehearsal, reach, 78) == []
    assert names(rehearsal, "main") == made
    assert removed(rehearsal, reach, 76, 77, urls=(BASE,)) == []
    assert {key: names(rehearsal, key) for key in target.keys} == before


def test_marks_of_runs_differ() -> None:
    assert mark(1) != mark(2)
    assert mark(255) == "ranksim-ff"
    created = Created(frozenset({"ranksim-ff"}))
    for text in ("ranksim-ff-walk-1", "ranksim-ff", "ranksim-ff ladder 1", "x ranksim-ff-1.example.com"):
        assert created.names({"name": text})
    for text in ("ranksim-ffa-1", "ranksim-f-1", "ranksim-ffz", "", None):
        assert not created.names({"name": text})


class Deployment:
    """Things of an account by kind, of which some kinds cannot be removed; counts what it is asked."""

    def __init__(self, refusals: Mapping[str, int], **things: Iterable[Mapping[str, Any]]) -> None:
        self.refusals = refusals
        self.things = {kind: {str(one["id"]): one for one in items} for kind, items in things.items()}
        self.calls: list[str] = []

    def __call__(self, send: Send) -> Received:
        kind, _, done = send.operation.partition(".")
        here = self.things.get(kind, {})
        if done == "list":
            items = [
                one
                for one in here.values()
                if all(one.get(name) == value for name, value in send.query.items() if name != "limit")
            ]
            return reply(200, {"data": items})
        if done == "get":
            return reply(200 if send.path["id"] in here else 404, {})
        self.calls.append(send.operation)
        if kind in self.refusals:
            return reply(self.refusals[kind], {"code": "method_not_allowed"})
        gone = here.pop(send.path["id"], None)
        return reply(204 if gone else 404)


def reply(status: int, body: Any = None) -> Received:
    return Received(status, body, {}, 0, 1)


def run(program: Generator[Any, Any, Any], answers: Callable[[Send], Received], most: int = 5_000) -> int:
    """Run a program against a function, so many steps of it; return how many it had."""
    answer: Any = None
    for steps in range(most):
        try:
            step = program.send(answer)
        except StopIteration:
            return steps
        answer = answers(step) if isinstance(step, Send) else 0
    program.close()
    return most


def full(**refusals: int) -> Deployment:
    """Three marked domains with all that belongs to them, and the same of somebody else."""
    things: dict[str, list[dict[str, Any]]] = {}
    for number, host in enumerate(("ranksim-1-a.com", "ranksim-1-b.com", "ranksim-1-c.com", "ours.com")):
        things.setdefault("domains", []).append({"id": f"dom_{number}", "host": host})
        for kind in ("scans", "keyword_lists", "labels", "competitors"):
            item = {"id": f"{kind}_{number}", "domain_id": f"dom_{number}", "name": "plain"}
            things.setdefault(kind, []).append(item)
        words = [{"id": f"kw_{number}_{n}", "list_id": f"keyword_lists_{number}"} for n in range(4)]
        things.setdefault("keywords", []).extend(words)
        url = f"http://127.0.0.1:9/run/{number}" if number < 3 else "https://ours.com/hook"
        things.setdefault("webhooks", []).append({"id": f"hook_{number}", "url": url})
    return Deployment(refusals, **things)


ALONE = Reach(
    Target.simple("http://127.0.0.1:9", "rk_1"),
    {"main": KeyReach("main", "production", "full", usable=True, account="acc_1")},
    "main",
)
OURS = Created(frozenset({mark(1)}), ("http://127.0.0.1:9/run/",))


def test_a_kind_that_cannot_be_removed_is_asked_once_and_does_not_hold_up_the_others() -> None:
    """170 futile calls for domains left no time for active scans and live webhooks."""
    deployment, remains = full(domains=405, labels=405), Remains()
    run(remove_created(ALONE, OURS, remains), deployment)
    assert Counter(deployment.calls) == {
        "scans.delete": 3,
        "webhooks.delete": 3,
        "domains.delete": 1,
        "keywords.delete": 12,
        "keyword_lists.delete": 3,
        "labels.delete": 1,
        "competitors.delete": 3,
    }
    assert list(dict.fromkeys(deployment.calls))[:2] == ["scans.delete", "webhooks.delete"]
    why = "405 method_not_allowed: this deployment removes none"
    assert remains.listed() == [
        Left("labels", "main", why, ("labels_0", "labels_1", "labels_2")),
        Left("domains", "main", why, ("dom_0", "dom_1", "dom_2")),
    ]
    assert deployment.things["scans"].keys() == {"scans_3"}  # somebody else's
    assert deployment.things["webhooks"].keys() == {"hook_3"}
    assert len(deployment.things["keywords"]) == 4


def test_a_404_for_what_is_there_ends_a_kind_too() -> None:
    deployment, remains = full(domains=404), Remains()
    run(remove_created(ALONE, OURS, remains), deployment)
    assert deployment.calls.count("domains.delete") == 1
    [left] = remains.listed()
    assert (left.kind, len(left.ids)) == ("domains", 3)
    assert left.why.startswith("404")


def test_wherever_it_is_cut_what_is_there_or_was_not_looked_for_is_listed() -> None:
    steps = run(remove_created(ALONE, OURS, Remains()), full(domains=405))
    for cut in range(steps):
        deployment, remains = full(domains=405), Remains()
        run(remove_created(ALONE, OURS, remains), deployment, cut)
        listed = remains.listed()
        for kind, things in deployment.things.items():
            marked = {one for one in things if not one.partition("_")[2].startswith(("3", "lists_3"))}
            told = {one for left in listed if left.kind == kind for one in left.ids}
            unseen = any(left.kind == kind and not left.ids for left in listed) or cut == 0
            assert marked <= told or unseen, (cut, kind, listed)


def test_what_is_there_can_be_listed_without_touching_it() -> None:
    deployment, remains = full(), Remains()
    run(find_created(ALONE, OURS, remains), deployment)
    assert deployment.calls == []
    assert {left.kind: len(left.ids) for left in remains.listed()} == {
        "scans": 3,
        "webhooks": 3,
        "keywords": 12,
        "keyword_lists": 3,
        "labels": 3,
        "competitors": 3,
        "domains": 3,
    }
