"""Results that are only read: when they exist, what they show, and that they are the same every time."""

from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from ranksim.core.clock import DAY
from ranksim.core.service.synthetic_data import DEPTH, MOST_PAGES, pages_of, position
from ranksim.core.service.synthetic_results import Ids

DESKTOP, MOBILE = "google/desktop", "google/mobile"


def page(desk: Any, operation: str, **call: Any) -> Any:
    reply = desk.call(operation, **call)
    assert reply.status == 200, reply.body
    return reply.body


def walked(desk: Any, operation: str, limit: int = 200, key: str | None = None, **query: str) -> list[Any]:
    """Walk a list to its end."""
    items: list[Any] = []
    query["limit"] = str(limit)
    while True:
        body = page(desk, operation, query=query, key=key)
        items += body["data"]
        if body["next_cursor"] is None:
            return items
        query["cursor"] = body["next_cursor"]


def run(desk: Any, kind: str = "rank_run", domain: str = "") -> None:
    """Run a job to its end, and wait until the same may be run again."""
    desk.must(desk.job(kind, domain=domain))
    desk.wait(DAY)


def tracking(open_desk: Any, **more: Any) -> Any:
    """Open a desk that tracks three words on two pairings in two countries: twelve positions a run."""
    desk = open_desk(words=["red shoes", "boots", "laces"], **more)
    desk.must(desk.scan([DESKTOP, MOBILE], ["DE", "AT"]))
    return desk


# Positions


@pytest.mark.fact("S10", "U82", "U109")
@pytest.mark.parametrize("operation", ["positions.list", "positions.history"])
def test_without_a_finished_run_there_is_a_notice_and_no_position(open_desk: Any, operation: str) -> None:
    desk = tracking(open_desk)
    body = page(desk, operation)
    assert (body["data"], body["has_more"], body["notice"]["code"]) == ([], False, "no_positions")
    run(desk)
    assert "notice" not in page(desk, operation)


@pytest.mark.fact("S5", "U85")
def test_every_keyword_has_a_position_in_every_place(open_desk: Any) -> None:
    desk = tracking(open_desk)
    run(desk)
    items = walked(desk, "positions.list")
    words = {keyword["id"] for keyword in walked(desk, "keywords.list")}
    places = {(i["keyword_id"], i["engine"], i["device"], i["country"]) for i in items}
    assert places == {
        (word, "google", device, country)
        for word in words
        for device in ("desktop", "mobile")
        for country in ("DE", "AT")
    }
    assert len(items) == 12
    assert list(items[0]) == [
        "keyword_id",
        "domain_id",
        "date",
        "checked_at",
        "engine",
        "device",
        "country",
        "location_id",
        "language",
        "position",
        "url",
        "serp_features",
    ]
    for item in items:
        assert item["date"] == "2026-03-04"
        assert item["position"] is None or 1 <= item["position"] <= DEPTH
        assert (item["url"] is None) == (item["position"] is None)


@pytest.mark.fact("S5", "U85", "U110")
def test_history_has_every_run_and_the_latest_are_its_last(open_desk: Any) -> None:
    desk = tracking(open_desk)
    for _ in range(3):
        run(desk)
    history = walked(desk, "positions.history")
    assert [item["date"] for item in history] == sorted(item["date"] for item in history)
    assert [history.count(item) for item in history] == [1] * 36
    assert walked(desk, "positions.list") == [item for item in history if item["date"] == "2026-03-06"]
    assert walked(desk, "positions.history", date="2026-03-05") == history[12:24]
    assert walked(desk, "positions.list", date="2026-03-05") == history[12:24]
    assert walked(desk, "positions.list", date="2026-03-09") == []


@pytest.mark.fact("U110")
def test_positions_are_filtered_by_keyword_and_domain(open_desk: Any) -> None:
    desk = tracking(open_desk)
    other = desk.new_domain("other.example")
    run(desk)
    for operation in ("positions.list", "positions.history"):
        items = walked(desk, operation)
        word = items[5]["keyword_id"]
        assert walked(desk, operation, keyword_id=word) == [i for i in items if i["keyword_id"] == word]
        assert walked(desk, operation, keyword_id="none") == []
        assert walked(desk, operation, domain_id=desk.domain) == items
        assert walked(desk, operation, domain_id=other) == []


@pytest.mark.fact("U110")
@pytest.mark.parametrize("date", ["", "yesterday", "2026-02-30", "2026-03-04T10:00:00Z", "2026-3-4"])
def test_a_date_must_be_a_date(desk: Any, date: str) -> None:
    for operation in ("positions.list", "positions.history"):
        reply = desk.call(operation, query={"date": date})
        assert (reply.status, reply.code) == (422, "validation_failed")


@pytest.mark.fact("S44", "S46")
@pytest.mark.parametrize("limit", [1, 5, 12, 200])
def test_walks_of_any_step_see_the_same(open_desk: Any, limit: int) -> None:
    desk = tracking(open_desk)
    run(desk)
    run(desk)
    desk.must(desk.keywords("untracked", list_id=desk.new_list()))
    for operation, count in (("positions.list", 12), ("positions.history", 24)):
        items = walked(desk, operation, limit)
        assert len(items) == count
        assert items == walked(desk, operation)


@pytest.mark.fact("S46")
def test_a_run_that_ends_during_a_walk_repeats_nothing(open_desk: Any) -> None:
    desk = tracking(open_desk)
    run(desk)
    before = page(desk, "positions.list", query={"limit": "5"})
    run(desk)
    rest = walked(desk, "positions.list", cursor=before["next_cursor"])
    places = [(i["keyword_id"], i["device"], i["country"]) for i in before["data"] + rest]
    assert len(set(places)) == len(places) == 12


def test_a_run_has_seen_only_what_was_tracked_then(open_desk: Any) -> None:
    desk = open_desk(words=["early"], scan=True)
    run(desk)
    desk.must(desk.keywords("late"))
    desk.must(desk.scan([MOBILE]))
    assert [item["device"] for item in walked(desk, "positions.list")] == ["desktop"]
    run(desk)
    assert len(walked(desk, "positions.list")) == 4
    assert len(walked(desk, "positions.history")) == 5


@pytest.mark.fact("S70")
def test_domains_run_apart_and_a_scoped_key_sees_its_own(open_desk: Any) -> None:
    desk = tracking(open_desk)
    other = desk.new_domain("other.example")
    words = desk.new_list(other)
    desk.must(desk.keywords("boots", list_id=words))
    desk.must(desk.scan(domain=other, lists=[words]))
    run(desk, domain=other)
    assert [item["domain_id"] for item in walked(desk, "positions.list")] == [other]
    run(desk)
    run(desk, domain=other)
    bound = desk.token("bound", other)
    for operation, count, own in (("positions.list", 13, 1), ("positions.history", 14, 2)):
        items = walked(desk, operation, 4)
        assert len(items) == count
        assert walked(desk, operation, 1, key=bound) == [i for i in items if i["domain_id"] == other]
        assert len(walked(desk, operation, key=bound)) == own


@pytest.mark.fact("S15")
def test_a_failed_run_shows_nothing(open_desk: Any) -> None:
    desk = tracking(open_desk, pooled=["rank_run"])
    desk.ended(desk.job(), "failed", error="down")
    assert page(desk, "positions.list")["notice"]["code"] == "no_positions"


def test_the_seed_decides_what_is_found(open_desk: Any) -> None:
    found = []
    for seed in (1, 1, 2):
        desk = tracking(open_desk, seed=seed)
        run(desk)
        found.append([item["position"] for item in walked(desk, "positions.list")])
    assert found[0] == found[1] != found[2]


@pytest.mark.slow
def test_positions_are_a_bounded_random_walk() -> None:
    begins, steps, missing, count = [], [], 0, 0
    for word in range(200):
        place = "google/desktop|DE//"
        course = [position(1, "a.example", f"w{word}", place, 0, d * DAY) for d in range(120)]
        found = [p for p in course if p is not None]
        count, missing = count + len(course), missing + course.count(None)
        begins.append(course[0] or DEPTH + 1)
        assert all(1 <= p <= DEPTH for p in found)
        if len(found) == len(course):
            stride = max(abs(b - a) for a, b in pairwise(found))
            assert stride <= 1 + course[0] // 20
            steps += [b - a for a, b in pairwise(found)]
    assert min(begins) < 5
    assert median(begins) < 50 < max(begins)
    assert abs(sum(steps)) < 0.02 * len(steps) * max(steps), "it drifts neither up nor down"
    assert 0.2 < steps.count(0) / len(steps) < 0.45
    assert 0.01 < missing / count < 0.25


# Pages, analyses, AI visibility


@pytest.mark.fact("S6", "S10")
@pytest.mark.parametrize(
    ("kind", "operation", "notice"),
    [
        ("crawl", "crawled_pages.list", "no_crawl"),
        ("site_optimization", "analyses.list", "no_analysis"),
        ("ai_scan", "ai_visibility.list", "no_ai_scan"),
        ("ai_scan", "ai_visibility.industries", "no_ai_scan"),
    ],
)
def test_results_appear_when_their_job_has_finished(
    desk: Any, kind: str, operation: str, notice: str
) -> None:
    body = page(desk, operation)
    assert (body["data"], body["notice"]["code"]) == ([], notice)
    run(desk, kind)
    body = page(desk, operation)
    assert body["data"]
    assert "notice" not in body
    assert [item["domain_id"] for item in body["data"]] == [desk.domain] * len(body["data"])
    again = page(desk, operation, query={"limit": "1"})["data"]
    assert again == body["data"][:1]
    other = desk.new_domain("other.example")
    assert page(desk, operation, query={"domain_id": other})["data"] == []
    assert page(desk, operation, key=desk.token("bound", other))["data"] == []


@pytest.mark.fact("S53", "U47")
def test_a_crawl_shows_no_more_pages_than_the_plan_allows(open_desk: Any) -> None:
    desk = open_desk({"page_cap": 7})
    run(desk, "crawl")
    pages = walked(desk, "crawled_pages.list", 3)
    assert len(pages) == len({item["url"] for item in pages}) == 7
    assert (pages[0]["status_code"], pages[0]["depth"]) == (200, 0)
    assert {item["crawled_at"] for item in pages} == {"2026-03-04T10:20:00Z"}


@pytest.mark.fact("S6")
def test_an_analysis_has_findings(desk: Any) -> None:
    run(desk, "site_optimization")
    (analysis,) = page(desk, "analyses.list")["data"]
    assert 0 <= analysis["score"] <= 100
    findings = page(desk, "analyses.findings", id=analysis["id"])["data"]
    assert len(findings) == len({item["id"] for item in findings}) == analysis["finding_count"]
    assert {item["analysis_id"] for item in findings} == {analysis["id"]}
    assert desk.call("analyses.findings", id="none").code == "not_found"
    foreign = desk.token("bound", desk.new_domain("other.example"))
    assert desk.call("analyses.findings", id=analysis["id"], key=foreign).status == 404


@pytest.mark.fact("S6")
def test_links_and_integrations_need_no_job(desk: Any) -> None:
    (links,) = page(desk, "backlinks.list")["data"]
    assert links["domain_id"] == desk.domain
    assert links["backlinks"] >= links["referring_domains"] >= 1
    kinds = [(item["kind"], item["domain_id"]) for item in page(desk, "integrations.list")["data"]]
    assert kinds == [("analytics", desk.domain), ("search_console", desk.domain)]
    other = desk.new_domain("other.example")
    for operation in ("backlinks.list", "integrations.list"):
        items = page(desk, operation, key=desk.token("bound", other))["data"]
        assert {item["domain_id"] for item in items} == {other}


def test_the_sizes_of_sites_have_a_heavy_tail() -> None:
    sizes = [pages_of(1, f"{n}.example") for n in range(4_000)]
    assert 50 <= median(sizes) <= 70
    assert max(sizes) > 100 * median(sizes)
    assert 30 <= min(sizes) <= max(sizes) <= MOST_PAGES


def test_ids_are_made_when_they_are_looked_at() -> None:
    ids = Ids([(2, lambda n: f"a{n}"), (0, lambda n: ""), (10**9, lambda n: f"b{n}")])
    assert len(ids) == 10**9 + 2
    assert [ids[n] for n in (0, 1, 2, -1)] == ["a0", "a1", "b0", f"b{10**9 - 1}"]
    assert ids[1:4] == ["a1", "b0", "b1"]
    with pytest.raises(IndexError):
        ids[len(ids)]
