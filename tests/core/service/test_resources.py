"""Domains, lists, keywords, labels, competitors and scans: shapes, updates, filters, deletion and scope."""

from typing import Any

import pytest

from ranksim.core.clock import MINUTE, SECOND

DESKTOP, MOBILE = "google/desktop", "google/mobile"


def listed(desk: Any, operation: str, key: str | None = None, **query: str) -> list[Any]:
    reply = desk.call(operation, key=key, query=query)
    assert reply.status == 200, reply.body
    items: list[Any] = reply.body["data"]
    return items


def ids(desk: Any, operation: str, key: str | None = None, **query: str) -> list[str]:
    return [item["id"] for item in listed(desk, operation, key, **query)]


# Shapes


@pytest.mark.fact("S8", "S12", "S17", "U43", "U104")
@pytest.mark.parametrize(
    ("body", "path", "label"),
    [
        ({"host": "a.example"}, None, "a.example"),
        ({"host": "A.Example", "path": "/shop", "label": " Shop "}, "/shop", "Shop"),
        ({"host": "a.example", "path": None, "label": None}, None, "a.example"),
    ],
)
def test_a_domain_has_the_specified_fields(desk: Any, body: Any, path: str | None, label: str) -> None:
    reply = desk.call("domains.create", body)
    assert reply.status == 201
    assert reply.body == {
        "data": {
            "id": reply.body["data"]["id"],
            "host": "a.example",
            "path": path,
            "label": label,
            "created_at": "2026-03-04T10:00:00Z",
            "last_full_crawl_at": None,
        }
    }
    assert desk.get("domains.get", id=reply.body["data"]["id"]) == reply.body["data"]


@pytest.mark.fact("S12", "U43")
def test_a_finished_crawl_is_noted_on_its_domain(desk: Any) -> None:
    desk.must(desk.job("crawl"))
    desk.wait(20 * MINUTE)
    assert desk.get("domains.get", id=desk.domain)["last_full_crawl_at"] == "2026-03-04T10:20:00Z"


@pytest.mark.fact("U85", "U108")
def test_a_scan_shows_pairings_and_geographies_in_full(desk: Any) -> None:
    body = {
        "domain_id": desk.domain,
        "list_ids": [desk.list, desk.list],
        "engine_devices": [DESKTOP, {"engine": "bing", "device": "mobile"}, DESKTOP],
        "geographies": [{"country": "DE", "location_id": "2276", "language": "de"}, {"country": "AT"}],
    }
    scan = desk.made("scans.create", body)
    assert scan["list_ids"] == [desk.list]
    assert scan["engine_devices"] == [
        {"engine": "google", "device": "desktop"},
        {"engine": "bing", "device": "mobile"},
    ]
    assert scan["geographies"] == [
        {"country": "DE", "location_id": "2276", "language": "de"},
        {"country": "AT", "location_id": None, "language": None},
    ]
    assert (scan["active"], scan["domain_id"]) == (True, desk.domain)
    assert desk.get("scans.get", id=scan["id"]) == scan


@pytest.mark.fact("U85")
def test_a_keyword_shows_its_list_and_labels(open_desk: Any) -> None:
    desk = open_desk(words=["Red Shoes"])
    (keyword,) = listed(desk, "keywords.list")
    label = desk.made("labels.create", {"domain_id": desk.domain, "name": "brand"})
    changed = desk.must(desk.call("keywords.update", {"label_ids": [label["id"]]}, id=keyword["id"]))
    assert changed == keyword | {"label_ids": [label["id"]]}
    assert changed["keyword"] == "Red Shoes"
    assert changed["list_id"] == desk.list


# Reading and configuring (S5)

CREATED: dict[str, Any] = {
    "domains": {"host": "b.example"},
    "keyword_lists": {"name": "n"},
    "labels": {"name": "n"},
    "competitors": {"host": "rival.example"},
}


def make(desk: Any, name: str) -> str:
    """Make one resource of the desk's domain by its operation's name."""
    if name == "keywords":
        return str(desk.must(desk.keywords("made"))["created"][0]["id"])
    if name == "scans":
        return str(desk.must(desk.scan())["id"])
    body = CREATED[name] if name == "domains" else CREATED[name] | {"domain_id": desk.domain}
    return str(desk.made(f"{name}.create", body)["id"])


CHANGES = [
    ("domains", {"label": "Other"}, {"label": "Other"}),
    ("domains", {"path": "/shop"}, {"path": "/shop"}),
    ("keyword_lists", {"name": "other"}, {"name": "other"}),
    ("keywords", {"label_ids": []}, {"label_ids": []}),
    ("labels", {"name": "other"}, {"name": "other"}),
    ("competitors", {"host": "other.example"}, {"host": "other.example"}),
    ("scans", {"name": "other"}, {"name": "other"}),
    ("scans", {"name": None}, {"name": None}),
    ("scans", {"active": False}, {"active": False}),
]


@pytest.mark.fact("S5", "S42", "U84", "U104")
@pytest.mark.parametrize(("name", "sent", "shown"), CHANGES)
def test_a_resource_is_made_read_changed_and_deleted(desk: Any, name: str, sent: Any, shown: Any) -> None:
    which = make(desk, name)
    before = desk.get(f"{name}.get", id=which)
    assert desk.must(desk.call(f"{name}.update", {"nonsense": 1}, id=which)) == before
    after = desk.must(desk.call(f"{name}.update", sent, id=which))
    assert after == before | shown
    assert desk.get(f"{name}.get", id=which) == after
    assert after in listed(desk, f"{name}.list")
    deleted = desk.call(f"{name}.delete", id=which)
    assert (deleted.status, deleted.body) == (204, None)
    assert which not in ids(desk, f"{name}.list")
    for verb in ("get", "update", "delete"):
        gone = desk.call(f"{name}.{verb}", {} if verb == "update" else None, id=which)
        assert (gone.status, gone.code) == (404, "not_found")


@pytest.mark.fact("U84")
def test_null_clears_a_path(desk: Any) -> None:
    domain = desk.made("domains.create", {"host": "b.example", "path": "/shop"})
    assert desk.must(desk.call("domains.update", {"path": None}, id=domain["id"]))["path"] is None


@pytest.mark.fact("S49", "S50", "E45")
def test_the_later_of_two_updates_wins_field_by_field(desk: Any) -> None:
    first = desk.call("domains.update", {"label": "first", "path": "/first"}, id=desk.domain)
    second = desk.call("domains.update", {"label": "second"}, id=desk.domain)
    shown = desk.get("domains.get", id=desk.domain)
    assert (shown["label"], shown["path"]) == ("second", "/first")
    assert "etag" not in {name.lower() for reply in (first, second) for name in reply.headers}


# Bodies that are not valid

SCAN = {"list_ids": ["x"], "engine_devices": [DESKTOP], "geographies": [{"country": "DE"}], "domain_id": "x"}
TEXT = "text of 1 to 200 characters, none of them a control character"


@pytest.mark.fact("U24", "U84", "U108")
@pytest.mark.parametrize(
    ("operation", "body", "field", "expected"),
    [
        ("domains.create", {}, "host", "a value: the field is required"),
        ("domains.create", {"host": "no host"}, "host", "a host name such as www.example.com"),
        ("domains.create", {"host": "localhost"}, "host", "a host name such as www.example.com"),
        ("domains.create", {"host": "a.example", "path": "shop"}, "path", "a path such as /shop, or null"),
        ("domains.create", {"host": "a.example", "path": "/a\0"}, "path", "a path such as /shop, or null"),
        ("domains.update", {"label": None}, "label", TEXT),
        ("domains.update", {"label": "a\0b"}, "label", TEXT),
        ("labels.create", {"domain_id": "x", "name": "\0"}, "name", TEXT),
        ("keyword_lists.create", {"domain_id": "x", "name": "a\tb"}, "name", TEXT),
        ("keywords.create", {"list_id": "x", "keywords": ["a\x7fb"]}, "keywords.0", TEXT),
        ("keywords.create", {"list_id": "x", "keywords": ["a\x9b31mb"]}, "keywords.0", TEXT),
        ("domains.update", {"label": ""}, "label", TEXT),
        ("keyword_lists.create", {"domain_id": 3, "name": "n"}, "domain_id", "an id"),
        ("keyword_lists.update", {"name": None}, "name", TEXT),
        ("labels.create", {"domain_id": "x", "name": "n" * 201}, "name", TEXT),
        ("competitors.update", {"host": None}, "host", "a host name such as www.example.com"),
        ("keywords.update", {"label_ids": None}, "label_ids", "a list"),
        ("keywords.create", {"list_id": "x", "keywords": []}, "keywords", "at least one item"),
        ("keywords.create", {"list_id": "x", "keywords": ["k", "  "]}, "keywords.1", TEXT),
        ("keywords.create", {"list_id": "x", "keywords": ["k"] * 10_001}, "keywords", "at most 10000 items"),
        ("keywords.create", {"list_id": "x", "keywords": [1]}, "keywords.0", TEXT),
        ("keywords.create", {"list_id": "x", "keywords": ["k"], "dry_run": 1}, "dry_run", "true or false"),
        ("scans.create", SCAN | {"geographies": []}, "geographies", "at least one item"),
        ("scans.create", SCAN | {"geographies": ["DE"]}, "geographies.0", "an object"),
        (
            "scans.create",
            SCAN | {"geographies": [{"country": "de"}]},
            "geographies.0.country",
            "a country code such as DE",
        ),
        (
            "scans.create",
            SCAN | {"engine_devices": ["google|desktop"]},
            "engine_devices.0",
            'a pairing such as "google/desktop" or {"engine": "google", "device": "desktop"}',
        ),
        ("scans.update", {"active": None}, "active", "true or false"),
        ("scans.update", {"list_ids": []}, "list_ids", "at least one item"),
        (
            "jobs.create",
            {"kind": "guess", "domain_id": "x"},
            "kind",
            "one of rank_run, crawl, site_optimization, ai_scan",
        ),
        ("keyword_briefs.create", {}, "body", "exactly one of keyword_ids, keyword_id, keywords"),
        ("keyword_briefs.create", {"keywords": ["k"]}, "body", "domain_id with keywords"),
    ],
)
def test_a_body_that_is_not_valid_names_the_field(
    desk: Any, operation: str, body: Any, field: str, expected: str
) -> None:
    reply = desk.call(operation, body, id="x" if operation.endswith("update") else "")
    assert (reply.status, reply.code) == (422, "validation_failed")
    assert reply.body["meta"] == {"errors": [{"field": field, "expected": expected}]}
    assert reply.body["detail"] == f"{field}: expected {expected}."


@pytest.mark.fact("U86")
@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("keyword_lists.create", {"domain_id": "none", "name": "n"}),
        ("labels.create", {"domain_id": "none", "name": "n"}),
        ("competitors.create", {"domain_id": "none", "host": "a.example"}),
        ("keywords.update", {"label_ids": ["none"]}),
        ("scans.update", {"list_ids": ["none"]}),
    ],
)
def test_an_id_in_a_body_must_exist(open_desk: Any, operation: str, body: Any) -> None:
    desk = open_desk(words=["a"], scan=True)
    name, verb = operation.split(".")
    which = ids(desk, f"{name}.list")[0] if verb == "update" else ""
    reply = desk.call(operation, body, id=which)
    assert (reply.status, reply.code) == (404, "not_found")


def test_a_scan_takes_no_list_and_a_keyword_no_label_of_another_domain(open_desk: Any) -> None:
    desk = open_desk(words=["a"], scan=True)
    other = desk.new_domain("other.example")
    label = desk.made("labels.create", {"domain_id": other, "name": "n"})["id"]
    (scan,), (keyword,) = ids(desk, "scans.list"), ids(desk, "keywords.list")
    lists = {"list_ids": [desk.new_list(other)]}
    assert desk.call("scans.update", lists, id=scan).status == 404
    assert desk.call("keywords.update", {"label_ids": [label]}, id=keyword).status == 404


# Filters


@pytest.mark.fact("U110", "S31")
def test_lists_are_filtered_by_domain(desk: Any) -> None:
    other = desk.new_domain("other.example")
    names = ("keyword_lists", "labels", "competitors", "keywords", "scans")
    made = {name: make(desk, name) for name in names}
    for name in names:
        assert made[name] in ids(desk, f"{name}.list", domain_id=desk.domain)
        assert ids(desk, f"{name}.list", domain_id=other) == []


@pytest.mark.fact("U110", "S31")
def test_keywords_are_filtered_by_list_label_and_word(open_desk: Any) -> None:
    desk = open_desk(words=["a", "b"])
    first, second = ids(desk, "keywords.list")
    other = desk.new_list()
    third = desk.must(desk.keywords("A", list_id=other))["created"][0]["id"]
    label = desk.made("labels.create", {"domain_id": desk.domain, "name": "n"})["id"]
    desk.must(desk.call("keywords.update", {"label_ids": [label, label]}, id=second))
    assert ids(desk, "keywords.list") == [first, second, third]
    assert ids(desk, "keywords.list", list_id=desk.list) == [first, second]
    assert ids(desk, "keywords.list", label_id=label) == [second]
    assert ids(desk, "keywords.list", keyword=" a ") == [first, third]
    assert ids(desk, "keywords.list", keyword="a", list_id=other) == [third]
    desk.call("labels.delete", id=label)
    assert desk.get("keywords.get", id=second)["label_ids"] == []


@pytest.mark.fact("U110")
def test_scans_are_filtered_by_whether_they_are_active(desk: Any) -> None:
    active, paused = desk.must(desk.scan())["id"], desk.must(desk.scan(active=False))["id"]
    assert ids(desk, "scans.list") == [active, paused]
    assert ids(desk, "scans.list", active="true") == [active]
    assert ids(desk, "scans.list", active="false") == [paused]
    assert desk.call("scans.list", query={"active": "yes"}).code == "validation_failed"


# Deletion


@pytest.mark.fact("S26", "S27")
def test_a_deleted_list_takes_its_keywords_along_and_leaves_its_scans(open_desk: Any) -> None:
    desk = open_desk(words=["a", "b"], scan=True)
    desk.call("keyword_lists.delete", id=desk.list)
    assert ids(desk, "keywords.list") == []
    (scan,) = listed(desk, "scans.list")
    assert (scan["list_ids"], scan["active"]) == ([], True)
    assert (desk.slots()["active"], desk.slots()["held"]) == (0, 2)


@pytest.mark.fact("S27")
def test_a_deleted_domain_takes_all_along_but_its_jobs(open_desk: Any) -> None:
    desk = open_desk(words=["a"], scan=True)
    other = desk.new_domain("other.example")
    for name in ("labels", "competitors"):
        make(desk, name)
    kept_list = desk.new_list(other)
    desk.must(desk.keywords("kept", list_id=kept_list))
    desk.must(desk.scan(domain=other, lists=[kept_list]))
    endpoint = {"url": "https://hook.example/", "domain_id": desk.domain}
    desk.made("webhooks.create", endpoint)
    kept_endpoint = desk.made("webhooks.create", {"url": "https://hook.example/"})["id"]
    job = desk.must(desk.job("crawl"))
    assert desk.call("domains.delete", id=desk.domain).status == 204
    assert ids(desk, "domains.list") == [other]
    for name in ("labels", "competitors"):
        assert ids(desk, f"{name}.list") == []
    assert ids(desk, "keyword_lists.list") == [kept_list]
    assert [keyword["keyword"] for keyword in listed(desk, "keywords.list")] == ["kept"]
    assert len(ids(desk, "scans.list")) == 1
    assert ids(desk, "webhooks.list") == [kept_endpoint]
    assert (desk.slots()["active"], desk.slots()["held"]) == (1, 1)
    desk.wait(20 * MINUTE + SECOND)
    assert desk.get("jobs.get", kind="crawl", id=job["id"])["status"] == "done"


# Scope

OWNED = ("keyword_lists", "labels", "competitors", "keywords", "scans")


@pytest.mark.fact("S70", "U13")
@pytest.mark.parametrize(("status", "shown"), [(404, "not_found"), (403, "not_found")])
@pytest.mark.parametrize("name", OWNED)
def test_a_scoped_key_sees_only_its_own_domain(open_desk: Any, name: str, status: int, shown: str) -> None:
    desk = open_desk(statuses={"out_of_scope": status})
    which = make(desk, name)
    other = desk.new_domain("other.example")
    own, foreign = desk.token("own", desk.domain), desk.token("foreign", other)
    assert desk.call(f"{name}.get", id=which, key=own).status == 200
    assert which in ids(desk, f"{name}.list", own)
    assert ids(desk, f"{name}.list", foreign) == []
    assert ids(desk, f"{name}.list", foreign, domain_id=desk.domain) == []
    for verb in ("get", "update", "delete"):
        reply = desk.call(f"{name}.{verb}", {} if verb == "update" else None, id=which, key=foreign)
        assert (reply.status, reply.code) == (status, shown)


@pytest.mark.fact("S70", "U13", "U97")
def test_a_scoped_key_sees_one_domain_and_adds_none(desk: Any) -> None:
    other = desk.new_domain("other.example")
    bound = desk.token("bound", other)
    assert ids(desk, "domains.list", bound) == [other]
    assert desk.call("domains.get", id=desk.domain, key=bound).status == 404
    assert desk.call("domains.update", {"label": "x"}, id=other, key=bound).status == 200
    reply = desk.call("domains.create", {"host": "third.example"}, key=bound)
    assert (reply.status, reply.code) == (403, "forbidden")
    body = {"domain_id": desk.domain, "name": "n"}
    assert desk.call("keyword_lists.create", body, key=bound).status == 404
    assert desk.call("keyword_lists.create", body | {"domain_id": other}, key=bound).status == 201


@pytest.mark.parametrize("name", ["domains", *OWNED])
def test_another_account_is_not_there(desk: Any, name: str) -> None:
    which = desk.domain if name == "domains" else make(desk, name)
    stranger = desk.service.issue_key(desk.service.open_account("other", "desk", desk.now), "k", desk.now)
    assert ids(desk, f"{name}.list", stranger) == []
    reply = desk.call(f"{name}.get", id=which, key=stranger)
    assert (reply.status, reply.code) == (404, "not_found")
