"""The HTML page: complete, self-contained and safe to open."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import register
from ranksim.report.assumptions import basis_of, row
from ranksim.report.heading import Heading, answer_of, tiles_of
from ranksim.report.mentions import foldable
from ranksim.report.page import cell, tables_page
from ranksim.report.readings import NO_READINGS, Readings, TriedField
from ranksim.report.summary import run_page, summary
from ranksim.report.tables import View
from ranksim.report.terminal import rendered
from ranksim.twin.sim.result_heading import verdict_words

Tables = dict[str, list[dict[str, Any]]]

XMLNS = "http://www.w3.org/2000/svg"
SVG = f'<svg xmlns="{XMLNS}"></svg>'

EMPTY = {"meta", "img", "br", "link", "hr", "input"}


class Reader(HTMLParser):
    """Collects the text and the attributes, and sees that every element is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text.replace("<wbr>", ""))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.words.append(data.strip())


def test_it_tells_the_whole_story(heading: Heading, tables: Tables) -> None:
    read = Reader(run_page(heading, tables, {"slots": SVG}))
    for text in (
        "A small agency & its <b>nightly</b> runs",
        "10d from 2026-03-01T00:00:00Z, 1 account, 20 replications, seed 7, policy default",
        "One account tracks 300 keywords.",
        "Its pipeline starts rank runs at night.",
        "1 of 2 expectations failed.",
        "jobs.rank_run.wait.p95 is 4m, expected at most 1m: 3m above",
        "74,283 ± 3,710",
        "cooldown_active",
        "8.80 ± 0.44 USD",
        "(assumptions.window = gcra).",
        "one sample in 2 is kept",
        "ranksim run scenarios/quickstart.yaml --seed 7 --replications 20",
    ):
        assert text in read.words
    assert ("svg", {"role": "img", "aria-label": "Plot: slots", "xmlns": XMLNS}) in read.seen


def test_names_may_be_parted_where_a_line_is_too_narrow_and_numbers_may_not(
    heading: Heading, tables: Tables
) -> None:
    asked = "policy.catalogue.plans.pro.cost_ceiling is 60.50 USD, see ranksim.io/U.1"
    text = run_page(replace(heading, title=asked), tables, {})
    parted = "policy.<wbr>catalogue.<wbr>plans.<wbr>pro.<wbr>cost_<wbr>ceiling is 60.50 USD"
    assert f"<h1>{parted}, see ranksim.<wbr>io/U.1</h1>" in text
    assert f"<title>{asked} – ranksim</title>" in text


def test_long_text_keeps_some_room_on_a_narrow_page(heading: Heading, tables: Tables) -> None:
    tables["jobs"][0]["kind"] = "pro.cost_ceiling 90 USD, free.cost_ceiling 1 USD"
    tables["jobs"][1]["kind"] = "crawl"
    text = run_page(heading, tables, {})
    assert '<td class="long" data-of="kind">pro.<wbr>cost_<wbr>ceiling 90 USD' in text
    assert '<td data-of="kind">crawl</td>' in text
    assert "td.long { min-width: 9rem; }" in text


def test_it_loads_nothing_and_runs_nothing(heading: Heading, tables: Tables) -> None:
    text = run_page(heading, tables, {"slots": SVG})
    read = Reader(text)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in read.seen}
    ids = {attributes.get("id") for _, attributes in read.seen}
    for _, attributes in read.seen:
        link = attributes.get("href") or "#U1"
        assert link.startswith("#")
        assert link[1:] in ids
        assert (attributes.get("src") or "data:").startswith("data:")
    assert "http" not in text.replace("http-equiv", "").replace(XMLNS, "")
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_everything_from_outside_is_escaped(heading: Heading, tables: Tables) -> None:
    evil = "<script>alert('x')</script>&\""
    tables["jobs"][0]["kind"] = tables["calls"][0]["operation"] = tables["slots"][0]["account"] = evil
    worst = replace(
        heading,
        name=evil,
        title="",
        description=evil,
        policy=evil,
        verdicts=(replace(heading.verdicts[0], text=evil),),
        notes=(evil,),
        overrides=((evil, evil, evil),),
        command=evil,
    )
    read = Reader(run_page(worst, tables, {evil: SVG}))
    assert "script" not in {tag for tag, _ in read.seen}
    assert "\n".join(read.words).count(evil) >= 9


def test_the_answer_comes_first_and_the_figure_that_shows_it_next(heading: Heading, tables: Tables) -> None:
    drawn = {
        name: f'<svg xmlns="{XMLNS}"><title>{name}</title></svg>' for name in ("slots", "jobs", "refusals")
    }
    text = run_page(heading, tables, drawn)
    order = [
        "1 of 2 expectations failed",
        "3m above",
        "<title>jobs",
        "<h2>Tables",
        "<h2>Further",
        "<title>slots",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    calm = run_page(replace(heading, verdicts=()), tables, drawn)
    assert calm.index("<h2>Tables") < calm.index("<title>refusals")  # no figure answers what nobody asked


def test_tiles_are_what_the_scenario_asks_about_what_fails_first(heading: Heading, tables: Tables) -> None:
    asked = (
        verdict_words(True, "", "endpoints.four.events", "8"),
        verdict_words(True, "", "endpoints.three.disabled", "0"),
        verdict_words(True, "", "endpoints.four.lost_cancelled", "4"),
        verdict_words(True, "", "endpoints.four.lost_cancelled", "4"),
        verdict_words(False, "", "jobs.rank_run.wait.p95", "4m"),
        verdict_words(True, "", "slots.acme.used", ""),
    )
    tiles = tiles_of(replace(heading, verdicts=asked, invoice=58_000_000), tables)
    assert tiles == [
        ("4m", "95th percentile of waits of rank_run jobs", False),
        ("4", "events for four lost as it was disabled", True),
        ("8", "events meant for four", True),
        ("0", "disablings of three", True),
        ("9.44 ± 0.47 USD", "highest provider cost of a month", True),
        ("58.00 USD", "invoice of the last month", True),
    ]
    assert ("74,283 ± 3,710", "calls", True) in tiles_of(heading, tables)


def test_the_answer_is_a_sentence_with_the_numbers_that_were_asked_for(
    heading: Heading, tables: Tables
) -> None:
    asked = (
        verdict_words(True, "", "refusals.quota_exhausted", "1"),
        verdict_words(True, "", "endpoints.four.lost", "7.7 (7.4 to 7.9)"),
        verdict_words(True, "", "endpoints.three.lost", "0"),
        verdict_words(True, "", "endpoints.four.disabled_at", "2026-01-05T04:46:00Z"),
        verdict_words(False, "", "slots.acme.used", "510 ± 25.5"),
    )
    assert answer_of(replace(heading, verdicts=asked), tables) == (
        "820.5 ± 41 jobs were done and 0.1 % of 74,283 ± 3,710 calls were refused. "
        "510 ± 25.5 slots of acme were used at the end; 7.7 (7.4 to 7.9) events for four were lost; "
        "the first disabling of four was 2026-01-05 04:46:00Z; 1 call was refused with quota_exhausted."
    )
    unsent = {"what": "lost", "unit": "count", "value": 180, "low": None, "high": None}
    parts = ("lost_cancelled", "lost_suppressed", "disabled")
    of_losses = tuple(verdict_words(True, "", f"endpoints.ops.{part}", "8") for part in parts)
    failed = verdict_words(False, "", "endpoints.ops.lost_suppressed", "167")
    with_losses = {**tables, "totals": [*tables["totals"], unsent]}
    assert answer_of(replace(heading, verdicts=of_losses), with_losses).endswith(" webhook events were lost.")
    assert "167 events" in answer_of(replace(heading, verdicts=(*of_losses, failed)), with_losses)
    off = [row | {"lost_suppressed": 167 if row["endpoint"] == "ops" else 0} for row in tables["endpoints"]]
    answer = answer_of(
        replace(heading, verdicts=()), {**tables, "totals": [*tables["totals"], unsent], "endpoints": off}
    )
    assert answer == (
        "Jobs done: 820.5 ± 41. "
        "180 of 1,640 ± 82 webhook events were lost, 167 of them never sent: ops had been disabled after "
        "failures. Longest wait for a worker: rank_run, 4m ± 12s at the 95th percentile. "
        "Refused most: ci, 22 ± 4.4 of jobs.create, 10 % of these (cost_cap_reached). "
        "Too early for a rate limit: 40 calls. "
        "Nearest its limit: slots of acme, 510 of 500."
    )
    limits = [{"account": "acme", "used": used, "limit": limit} for used, limit in ((450, 500), (510, 900))]
    answer = answer_of(replace(heading, verdicts=()), {**tables, "slots": limits})
    assert answer.endswith("Nearest its limit: research_lookups of acme, 100 of 100.")
    limits = [row | {"used": 600} if row["used"] == 450 else row for row in limits]
    answer = answer_of(replace(heading, verdicts=()), {**tables, "slots": limits})
    assert answer.endswith("Nearest its limit: slots of acme, 600 of 500, which changed.")
    lost = (verdict_words(True, "", "endpoints.ops.lost", "180"),)
    answer = answer_of(replace(heading, verdicts=lost), {**tables, "totals": [*tables["totals"], unsent]})
    assert answer.endswith("180 events for ops were lost.")
    assert "webhook events" not in answer
    nothing = {"totals": [row for row in tables["totals"] if row["what"] in ("calls", "refused")]}
    nothing["totals"][1] |= {"value": 0.0, "low": None, "high": None}
    assert answer_of(replace(heading, verdicts=()), nothing) == "None of 74,283 ± 3,710 calls was refused."
    words = Reader(run_page(replace(heading, verdicts=asked), tables, {})).words
    assert words.index("1 of 5 expectations failed.") == 1 + next(
        at for at, text in enumerate(words) if text.startswith("820.5 ± 41 jobs were done")
    )


@pytest.mark.parametrize(
    ("metric", "plot"),
    [
        ("endpoints.four.lost", "timeline"),
        ("refusals.rate_limited", "windows"),
        ("refusals.slot_limit_exceeded", "slots"),
        ("deliveries.delay.max", "timeline"),
        ("jobs.rank_run.wait.max", "jobs"),
        ("refusals.total", "refusals"),
    ],
)
def test_the_figure_that_stands_first_shows_what_is_asked(
    heading: Heading, tables: Tables, metric: str, plot: str
) -> None:
    asked = replace(heading, verdicts=(verdict_words(True, f"{metric} is 3", metric, "3"),))
    drawn = dict.fromkeys(("timeline", "slots", "windows", "jobs", "refusals", "deliveries"), SVG)
    text = run_page(asked, tables, drawn)
    assert text.index("Plot: ") == text.index(f"Plot: {plot}") < text.index("<h2>Expectations")


def test_plans_of_accounts_are_named(heading: Heading) -> None:
    few = replace(heading, accounts=2, plans={"acme": "pro", "shop": "agency"})
    assert ", 2 accounts (acme on pro, shop on agency), 20 replications" in few.line
    many = replace(heading, accounts=6, plans={**{f"a{n}": "pro" for n in range(5)}, "b": "agency"})
    assert ", 6 accounts (5 on pro, 1 on agency), " in many.line


def test_mentions_of_facts_and_assumptions_lead_to_what_they_say_at_the_end_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RANKSIM_DOCS", raising=False)
    text = tables_page("A study", ["60 USD, by U48 and S62 <", "S999"], [], {})
    assert '<p class="answer">60 USD, by <a href="#U48" title="' in text
    assert ">S62</a> &lt;</p>" in text
    assert "<p>S999</p>" in text
    named = text[text.index("<summary>Facts and assumptions named here</summary>") :]
    assert '<dt id="S62">S62</dt><dd>Check 3: the monthly cost ceiling is not reached' in named
    assert '<dt id="U48">U48</dt><dd>When the cost ceiling refuses: once settled' in named
    assert named.index("S62") < named.index("U48") < named.index("<footer>")
    assert text.count("<dt ") == 2
    assert "<h2>" not in tables_page("A study", ["60 USD"], [], {})  # neither table nor figure nor number
    monkeypatch.setenv("RANKSIM_DOCS", "https://docs.example/")
    text = tables_page("A study", ["by U48"], [], {})
    assert '<dt id="U48"><a href="https://docs.example/reference/assumptions.html#u48">U48</a></dt>' in text


def test_each_page_leads_to_what_was_verified_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKSIM_DOCS", raising=False)
    assert "“May I believe this?” (docs/validity.md)" in tables_page("A study", ["60 USD"], [], {})
    monkeypatch.setenv("RANKSIM_DOCS", "https://docs.example")
    link = '<a href="https://docs.example/validity.html">May I believe this?</a>'
    assert link in tables_page("A study", ["60 USD"], [], {})


def test_a_page_of_tables_tells_its_question_its_basis_and_its_command() -> None:
    policy = Policy().replace(assumptions={"cap": "refuse"})
    basis = basis_of("Which plan?", policy, ["assumptions.window"], "ranksim price compare --b 'x y'")
    words = Reader(tables_page("Plans", ["The plan pro."], [], {}, basis)).words
    order = [
        "Plans",
        "Which plan?",
        "The plan pro.",
        "Assumptions that the result rests on",
        "Other than by default, but not read:",
        "(assumptions.cap = refuse).",
        "Read on the way to it: 1 open point of the specification,",
        "Run it again",
        "ranksim price compare --b 'x y'",
        "Facts and assumptions named here",
    ]
    assert [words.index(part) for part in order] == sorted(words.index(part) for part in order)


def test_what_would_change_a_result_stands_before_all_else_it_read_and_nothing_twice(
    heading: Heading, tables: Tables
) -> None:
    read = [
        row(entry, Policy())
        for entry in register()
        if {"assumptions.window", "assumptions.cap", "assumptions.graphql_cost"} & set(entry.fields)
    ]
    tried = (
        TriedField("assumptions.window", "first_hit", {"clock": "holds", "gcra": "two fail"}),
        TriedField("assumptions.cap", "truncate", {"refuse": "holds"}),
        TriedField("assumptions.graphql_cost", "request", {"field": "holds"}),
    )
    known = replace(heading, rests_on=tuple(read), overrides=(), readings=Readings("holds", tried))
    text = run_page(known, tables, {})
    rests = text[text.index("<h2>Assumptions that the result rests on</h2>") : text.index("<h2>Notes")]
    assert rests.count("<p>") == 2
    assert (rests.index("under gcra two fail"), "2 others leave the verdict as it is" in rests) == (
        text[text.index("<h2>Assumptions") :].index("under gcra two fail"),
        True,
    )
    assert "<table" not in rests
    assert text.count('<dt id="U1"') == text.count('<details class="told">') == 1
    plain = run_page(replace(known, readings=NO_READINGS), tables, {})
    assert "Read on the way to it: 3 open points of the specification, <a" in plain
    lines = rendered(summary(known, tables)).splitlines()
    first, last = (
        next(n for n, line in enumerate(lines) if part in line)
        for part in ("under gcra two fail", "2 others leave the verdict as it is: U11, U47.")
    )
    assert first < lines.index("Calls") < last


def test_it_reads_in_light_and_dark_and_on_a_phone(heading: Heading, tables: Tables) -> None:
    text = run_page(heading, tables, {})
    assert "prefers-color-scheme: dark" in text
    assert 'content="width=device-width, initial-scale=1"' in text


@pytest.mark.parametrize(
    "part", ["Expectations", "Further figures", "Assumptions that differ from their default", "Notes"]
)
def test_what_there_is_none_of_has_no_heading(heading: Heading, tables: Tables, part: str) -> None:
    bare = replace(heading, verdicts=(), notes=(), overrides=())
    assert part not in Reader(run_page(bare, tables, {})).words
    assert part in Reader(run_page(heading, tables, {"slots": SVG, "jobs": SVG})).words


def test_wide_tables_stand_as_stacks_on_a_phone_and_small_ones_as_they_are() -> None:
    small = View("Small", ("code", "count"), 1, (("quota_exhausted", "12"),))
    wide = View("Wide", ("code", "what it says"), 1, (("quota_exhausted", "12 (11 to 13), " * 3),))
    text = tables_page("Two tables", [], [small, wide], {})
    assert "<table>" in text[text.index("Small") : text.index("Wide")]
    assert '<table class="stacks">' in text[text.index("Wide") :]
    assert text.count('data-of="code"') == 1
    assert '<td class="number" data-of="what it says">' in text


def _stacks(headings: tuple[str, ...], words: int, *rows: tuple[str, ...]) -> bool:
    return 'class="stacks"' in tables_page("A table", [], [View("One", headings, words, rows)], {})


def test_a_table_whose_words_fold_to_a_phone_stays_a_table() -> None:
    path = "plans.pro.quotas.keyword_brief_refreshes.limit"
    assert not _stacks(("path", "A", "B"), 3, ("plans.free", "sold", "not sold"), (path, "50", "80"))
    assert _stacks(("path", "A", "B"), 1, ("plans.free", "sold", "not sold"), (path, "50" * 7, "80" * 7))
    assert not _stacks(("code", "says"), 2, ("refused", "one two three four five six seven"))
    assert _stacks(("code", "says"), 2, ("refused", "one two three four five six seven " * 4))


def test_rows_beyond_the_first_wait_for_a_click_on_a_phone() -> None:
    def page(rows: int) -> str:
        return tables_page("A table", [], [View("One", ("n",), 1, tuple((str(n),) for n in range(rows)))], {})

    assert page(8).count('class="rest"') == page(8).count("<label") == 0
    assert page(11).count('<tr class="rest">') == 3
    assert '<label class="all"><input type="checkbox"> all 11 rows</label>' in page(11)


def test_an_amount_in_a_column_of_words_stands_in_one_line() -> None:
    assert cell("td", "90 USD", False) == '<td class="line">90 USD</td>'
    assert cell("td", "not sold", False) == "<td>not sold</td>"


def test_an_instant_is_not_parted_and_a_name_is() -> None:
    assert foldable("clients.ci at 2026-01-05T00:00:00Z") == (
        'clients.<wbr>ci at <span class="line">2026-01-05T00:00:00Z</span>'
    )


def test_long_tables_are_cut_and_it_is_said(heading: Heading, fake: Any) -> None:
    read = Reader(run_page(heading, fake(accounts=80).tables(), {}))
    assert "And 120 more rows." in read.words
