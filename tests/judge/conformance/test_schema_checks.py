"""What every response looks like, one exchange at a time."""

from typing import Any

import pytest
from tests.kit.traces import Entry, a_job, call, error, found, judged

from ranksim.judge.conformance.calls import responses, schema_checks

DOMAIN = {
    "id": "dom_1",
    "host": "a.example",
    "path": None,
    "label": "a",
    "created_at": "2026-03-02T09:00:00Z",
    "last_full_crawl_at": None,
}
QUOTA = {"metric": "m", "used": 1, "limit": 1, "resets_at": "2026-03-09T00:00:00Z"}
TYPES = [{"type": "job.completed"}, {"type": "job.failed"}]


def domains(*things: Any, **more: Any) -> Entry:
    return call("domains.list", 0, 1, list(things), **more)


def refused(status: int = 404, **fields: Any) -> Entry:
    body = error("not_found", 404) | fields
    return call("domains.get", 0, 1, status=status, path={"id": "x"}, reply=body)


def limited(code: str, **meta: Any) -> Entry:
    return call("keyword_briefs.create", 0, 1, code=code, status=402, meta=meta, body={})


def without(thing: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in thing.items() if key != name}


def polled(**fields: Any) -> dict[str, Any]:
    return a_job(**fields)


def job(data: Any) -> Entry:
    return call("jobs.get", 0, 1, data, path={"kind": "crawl", "id": "job_1"})


def usage(*metrics: Any) -> Entry:
    return call("account.usage", 0, 1, {"metrics": list(metrics)})


def types(*things: Any, **more: Any) -> Entry:
    return call("webhook_events.list", 0, 1, list(things), key=None, **more)


def unfinished(**fields: Any) -> Entry:
    return job(without(polled(**fields), "finished_at"))


TABLE: dict[str, tuple[str, Entry, str]] = {
    "an id": (responses.REQUEST_ID, domains(), "held"),
    "no id": (responses.REQUEST_ID, domains(headers={"X-Request-Id": ""}), "broken"),
    "the id that was sent": (
        responses.ECHO,
        domains(request_id="mine", headers={"X-Request-Id": "mine"}),
        "held",
    ),
    "another id than was sent": (responses.ECHO, domains(request_id="mine"), "broken"),
    "an id with a line break": (responses.ECHO, domains(request_id="mi\nne"), "nothing"),
    "JSON": (responses.JSON, domains(), "held"),
    "no JSON": (responses.JSON, domains(reply="<html>"), "broken"),
    "JSON that says text": (responses.JSON, domains(headers={"Content-Type": "text/plain"}), "broken"),
    "JSON with a lone surrogate": (responses.JSON, domains(reply='{"data":[],"x":"\\ud800"}'), "held"),
    "a gateway": (responses.JSON, domains(status=502, reply="<html>"), "open"),
    "a lost reply": (responses.JSON, call("domains.list", 0, None), "nothing"),
    "an empty refusal": (responses.JSON, domains(status=404, reply=""), "broken"),
    "an empty success": (
        responses.JSON,
        call("domains.delete", 0, 1, status=204, reply="", path={"id": "x"}),
        "nothing",
    ),
    "nine fields": (responses.ERROR, refused(), "held"),
    "a status that is not the reply's": (responses.ERROR, refused(409), "broken"),
    "a meta that is no object": (responses.ERROR, refused(meta=[]), "broken"),
    **{
        f"an error without {name}": (
            responses.ERROR,
            call("domains.list", 0, 1, status=404, reply=without(error("not_found", 404), name)),
            "broken",
        )
        for name in responses.ERROR_FIELDS
    },
    "its page": (responses.TYPE, refused(), "held"),
    "another page": (
        responses.TYPE,
        refused(documentation_url="https://docs.example/api/errors#gone"),
        "broken",
    ),
    "its id": (responses.ID, refused(), "held"),
    "another's id": (responses.ID, refused(request_id="other"), "broken"),
    "the numbers of a quota": (responses.META, limited("quota_exhausted", **QUOTA), "held"),
    **{
        f"a quota without {name}": (
            responses.META,
            limited("quota_exhausted", **without(QUOTA, name)),
            "broken",
        )
        for name in QUOTA
    },
    "a quota in text": (responses.META, limited("quota_exhausted", **QUOTA | {"used": "1"}), "broken"),
    "the numbers of a ceiling": (
        responses.META,
        limited("cost_cap_reached", a="1", b="2", c="3"),
        "held",
    ),
    "two numbers of a ceiling, and their currency": (
        responses.META,
        limited("cost_cap_reached", spent="5.00", ceiling="5.00", currency="USD"),
        "broken",
    ),
    "all of a ceiling": (
        responses.META,
        limited("cost_cap_reached", spent=5, ceiling="5.00", currency="USD", until="2026-04-01"),
        "held",
    ),
    "two numbers of a ceiling": (responses.META, limited("cost_cap_reached", a="1", b="2"), "broken"),
    "another code's": (responses.META, limited("slot_limit_exceeded"), "nothing"),
    "a collection": (schema_checks.ENVELOPE, domains(), "held"),
    "a collection without has_more": (
        schema_checks.ENVELOPE,
        domains(reply={"data": [], "next_cursor": None}),
        "broken",
    ),
    "a collection without next_cursor": (
        schema_checks.ENVELOPE,
        domains(reply={"data": [], "has_more": False}),
        "broken",
    ),
    "a bare list": (schema_checks.ENVELOPE, domains(reply={"items": []}), "broken"),
    "a bare single": (
        schema_checks.ENVELOPE,
        call("domains.get", 0, 1, path={"id": "x"}, reply=DOMAIN),
        "broken",
    ),
    "event types in any envelope": (schema_checks.ENVELOPE, types(reply={"data": []}), "held"),
    "a domain": (schema_checks.FIELDS, domains(DOMAIN), "held"),
    **{
        f"a domain without {name}": (schema_checks.FIELDS, domains(DOMAIN, without(DOMAIN, name)), "broken")
        for name in DOMAIN
        if name != "last_full_crawl_at"
    },
    "a domain that was never crawled, perhaps": (
        schema_checks.FIELDS,
        domains(DOMAIN, without(DOMAIN, "last_full_crawl_at")),
        "differs 43",
    ),
    "a job": (schema_checks.FIELDS, job(polled()), "held"),
    **{
        f"a job without {name}": (schema_checks.FIELDS, job(without(polled(), name)), "broken")
        for name in schema_checks.JOB
    },
    "a job that has not finished": (schema_checks.FIELDS, unfinished(status="running"), "differs 43"),
    "a job in a state of another name": (
        schema_checks.FIELDS,
        unfinished(status="retrying", error_detail="no such host"),
        "differs 43",
    ),
    "a job that ended in error": (
        schema_checks.FIELDS,
        unfinished(status="error", error_detail="no such host"),
        "broken",
    ),
    "a job without progress": (schema_checks.FIELDS, job(without(polled(), "progress")), "differs 42"),
    "a dry run is no job": (
        schema_checks.FIELDS,
        call("jobs.create", 0, 1, {"allowed": True}, body={"dry_run": True}),
        "nothing",
    ),
    "metrics": (schema_checks.FIELDS, usage(QUOTA, QUOTA | {"metric": "research_lookups"}), "held"),
    "a metric without resets_at": (schema_checks.FIELDS, usage(without(QUOTA, "resets_at")), "broken"),
    "UTC": (schema_checks.TIMES, domains(DOMAIN), "held"),
    "UTC in numbers": (
        schema_checks.TIMES,
        domains(DOMAIN | {"created_at": "2026-03-02T09:00:00.5+00:00"}),
        "held",
    ),
    "local time": (
        schema_checks.TIMES,
        domains(DOMAIN | {"created_at": "2026-03-02T09:00:00+02:00"}),
        "broken",
    ),
    "no zone": (schema_checks.TIMES, domains(DOMAIN | {"created_at": "2026-03-02T09:00:00"}), "broken"),
    "Unix time": (schema_checks.TIMES, domains(DOMAIN | {"created_at": 1772442000}), "broken"),
    "month 13": (schema_checks.TIMES, domains(DOMAIN | {"created_at": "2026-13-02T09:00:00Z"}), "broken"),
    "a field of later versions": (
        schema_checks.TIMES,
        domains({"last_full_crawl_at": None, "looked_at": "never"}),
        "nothing",
    ),
    "both types": (schema_checks.EVENTS, types(*TYPES), "held"),
    "both types and a later one": (schema_checks.EVENTS, types(*TYPES, {"type": "x.y"}), "held"),
    "one type": (schema_checks.EVENTS, types(TYPES[0]), "broken"),
}


@pytest.mark.fact("S8", "S9", "S11", "S12", "S13", "S16", "S17", "S38", "S39", "S75")
@pytest.mark.fact("S94", "S95", "S96", "S98", "S99", "S107", "E36", "E46")
@pytest.mark.parametrize(("rule", "entry", "expected"), TABLE.values(), ids=TABLE)
def test_shapes(rule: str, entry: Entry, expected: str) -> None:
    assert found(judged(schema_checks, [entry]), rule) == expected


def test_paths_outside_the_api_are_nobodys() -> None:
    entry = call("domains.list", 0, 1, reply="<html>").model_copy(update={"path": "/health"})
    assert found(judged(schema_checks, [entry]), responses.JSON) == "nothing"


CRAWLED = DOMAIN | {"last_full_crawl_at": "2026-03-01T09:00:00Z"}
BARE = without(DOMAIN, "last_full_crawl_at")


def read(sent: float, thing: dict[str, Any], **more: Any) -> Entry:
    return call("domains.get", sent, sent + 1, thing, path={"id": "dom_1"}, **more)


def listed(sent: float, thing: dict[str, Any]) -> Entry:
    return call("domains.list", sent, sent + 1, [thing])


SEVERAL: dict[str, tuple[list[Entry], str]] = {
    "crawled in between": ([listed(0, BARE), read(2, CRAWLED)], "differs 43"),
    "crawled, and not in the list": ([read(0, CRAWLED), listed(2, BARE)], "broken"),
    "crawled, and null in the list": ([read(0, CRAWLED), listed(2, DOMAIN)], "broken"),
    "crawled, and empty later": (
        [listed(0, CRAWLED), read(2, DOMAIN | {"last_full_crawl_at": ""})],
        "broken",
    ),
    "at once": ([read(0, CRAWLED), listed(0.5, DOMAIN)], "held"),
    "another domain": ([read(0, CRAWLED), listed(2, DOMAIN | {"id": "dom_2"})], "held"),
    "another account's": ([read(0, CRAWLED), read(2, DOMAIN, key="other")], "held"),
    "of another host since": (
        [read(0, CRAWLED), call("domains.update", 2, 3, DOMAIN, path={"id": "dom_1"}), read(4, DOMAIN)],
        "held",
    ),
    "an id that is used again": (
        [
            read(0, CRAWLED),
            call("domains.delete", 2, None, path={"id": "dom_1"}),
            call("domains.create", 4, 5, DOMAIN, status=201),
            read(6, DOMAIN),
        ],
        "held",
    ),
}


@pytest.mark.fact("S12", "U43")
@pytest.mark.parametrize(("entries", "expected"), SEVERAL.values(), ids=SEVERAL)
def test_a_full_crawl_that_was_shown_has_happened(entries: list[Entry], expected: str) -> None:
    assert found(judged(schema_checks, entries), schema_checks.FIELDS) == expected


def test_others_may_have_changed_a_domain() -> None:
    entries = [read(0, CRAWLED), read(2, DOMAIN)]
    assert found(judged(schema_checks, entries, exclusive=False), schema_checks.FIELDS) == "held"


@pytest.mark.fact("U25")
@pytest.mark.parametrize(
    ("said", "differing"), [("application/json", [25]), ("application/problem+json", [])]
)
def test_errors_of_another_media_type_are_told(said: str, differing: list[int]) -> None:
    reply, path = error("not_found", 404), {"id": "x"}
    entry = call("domains.get", 0, 1, status=404, path=path, reply=reply, headers={"Content-Type": said})
    assert [one.number for one in judged(schema_checks, [entry]).differences] == differing
