"""What a run may write to: what it made, and in domains that the target says may be used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ranksim.core.callers.steps import Pause, Program, Received, Send, Spawn
from ranksim.core.callers.target import Target
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.deployment.ownership import Ownership, kept
from ranksim.judge.profiles.graphql import over_graphql

LISTS = [{"id": "lst_used", "domain_id": "dom_used"}, {"id": "lst_theirs", "domain_id": "dom_theirs"}]


def ownership() -> Ownership:
    """Of a run that may use two domains, one of them that whose jobs fail, and has made dom_ours."""
    simple = Target.simple("http://127.0.0.1:9", "rk_1")
    update = {"use_domains": ("dom_used",), "failing_domain": "dom_failing"}
    target = simple.model_copy(
        update={**update, "environments": {**simple.environments, "sandbox": "http://s"}}
    )
    key = KeyReach("main", "production", "full", usable=True, reads={"keyword_lists.list": LISTS})
    owned = Ownership.of(Reach(target, {"main": key}, "main"))
    owned.saw(
        Send("domains.create", body={"host": "a.example"}), reply({"id": "dom_ours", "host": "a.example"})
    )
    return owned


def reply(data: Any, status: int = 201) -> Received:
    return Received(status, {"data": data}, {}, 0, 0)


def job(domain: str, **options: Any) -> Send:
    return Send("jobs.create", body={"kind": "crawl", "domain_id": domain, **options})


OURS = [
    Send("domains.get", path={"id": "dom_theirs"}),
    Send("domains.create", body={"host": "b.example"}),
    Send("domains.update", path={"id": "dom_ours"}, body={"path": None}),
    Send("domains.update", path={"id": "none"}, body={"path": None}),
    Send("domains.update", path={"id": "dom_theirs"}, surface="preflight"),
    Send("webhooks.create", body={"url": "https://r.example", "domain_id": None}),
    Send("labels.create", raw=b"{"),
    job("dom_ours"),
    job("dom_used"),
    job("dom_failing"),
    Send("keywords.create", body={"list_id": "lst_used", "keywords": ["a"]}),
]
THEIRS = [
    Send("domains.update", path={"id": "dom_theirs"}, body={"path": None}),
    Send("domains.update", path={"id": "dom_used"}, body={"path": None}),
    Send("domains.delete", path={"id": "dom_used"}),
    Send("domains.update", path={"id": "dom_ours"}, body={"path": None}, environment="sandbox"),
    Send("keyword_lists.update", path={"id": "lst_used"}, body={"name": "b"}),
    Send("webhooks.test", path={"id": "whk_theirs"}),
    Send("webhooks.create", body={"url": "https://r.example", "domain_id": "dom_theirs"}),
    Send("scans.create", body={"domain_id": "dom_ours", "list_ids": ["lst_theirs"]}),
    Send("keywords.create", body={"list_id": "lst_theirs", "keywords": ["a"]}),
    Send("jobs.create", raw=json.dumps({"kind": "crawl", "domain_id": "dom_theirs"}).encode()),
    job("dom_theirs"),
    job("dom_theirs", dry_run=True),
]


@pytest.mark.parametrize("send", OURS)
def test_what_is_ours_or_may_be_used_is_written_to(send: Send) -> None:
    assert ownership().permits(send)


@pytest.mark.parametrize("send", THEIRS)
def test_what_is_somebody_elses_is_not(send: Send) -> None:
    assert not ownership().permits(send)


@pytest.mark.parametrize("domain", ["dom_ours", "dom_theirs"])
def test_it_is_the_same_over_graphql(domain: str) -> None:
    for send in (job(domain), Send("domains.update", path={"id": domain}, body={"label": "a"})):
        over = over_graphql(send)
        assert over is not None
        assert ownership().permits(over) == (domain == "dom_ours")


def test_what_a_reply_shows_is_ours_only_where_it_is_what_was_asked_for() -> None:
    owned, change = ownership(), Send("domains.update", path={"id": "dom_2"})
    making = Send("domains.create", body={"host": "b.example"})
    owned.saw(making, reply({"id": "dom_2", "host": "theirs.example"}))
    owned.saw(making, reply({"id": "dom_2", "host": "b.example"}, status=409))
    owned.saw(Send("domains.get", path={"id": "dom_2"}), reply({"id": "dom_2", "host": "b.example"}))
    assert not owned.permits(change)
    owned.saw(making, reply({"id": "dom_2", "host": "b.example"}))
    assert owned.permits(change)


def test_created_keywords_are_ours() -> None:
    owned = ownership()
    owned.saw(Send("keywords.create", body={"keywords": ["a"]}), reply({"created": [{"id": "kw_1"}]}))
    assert owned.permits(Send("keywords.delete", path={"id": "kw_1"}))


def test_what_is_not_permitted_is_counted_and_answered_like_silence() -> None:
    owned, answers = ownership(), []

    def program() -> Program:
        answers.append((yield THEIRS[0]))
        yield Spawn(beside())

    def beside() -> Program:
        answers.append((yield job("dom_theirs")))
        answers.append((yield Send("domains.list")))

    running = kept(program(), owned)
    assert isinstance(next(running), Pause)
    spawned = running.send(5)
    assert isinstance(spawned, Spawn)
    assert isinstance(next(spawned.program), Pause)
    assert spawned.program.send(5) == Send("domains.list")
    assert [one.status for one in answers] == [0, 0]
    assert owned.held_back == 2
