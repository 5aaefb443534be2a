"""What two catalogues differ in, and that what they leave out of how jobs run does not set them apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from flat_customers import CALENDAR, USD, population

from ranksim.core.contract.plans import JOB_DURATIONS, Catalogue
from ranksim.core.contract.policy import shipped_catalogue
from ranksim.core.errors import BadInput
from ranksim.planner.pricing.back_test import back_test
from ranksim.planner.pricing.catalogues import alike, changes, changes_text, read_catalogue, taken_over
from ranksim.planner.pricing.compare import compare
from ranksim.planner.pricing.pareto import changed
from ranksim.planner.pricing.recorded_sides import Side
from ranksim.planner.pricing.recording import read_recording

EXAMPLES = Path(__file__).parents[3] / "examples" / "pricing"
SHIPPED = shipped_catalogue("illustrative")
SLOW = {"job_durations.rank_run": {"lognormal": {"median": "40m", "sigma": 0.5}}}


def rows(a: Catalogue, b: Catalogue) -> list[tuple[str, str, str]]:
    return [(one.path, one.a, one.b) for one in changes(a, b)]


def without(catalogue: Catalogue, *parts: str) -> Catalogue:
    """The catalogue as a file states it that leaves some parts out."""
    stated = catalogue.model_fields_set - set(parts)
    return Catalogue(**{name: getattr(catalogue, name) for name in stated})


@pytest.mark.parametrize(
    ("settings", "row"),
    [
        ({"plans.pro.price": "99 USD"}, ("plans.pro.price", "129 USD", "99 USD")),
        ({"plans.pro.slot_limit": 7}, ("plans.pro.slot_limit", "5000", "7")),
        ({"plans.pro.cooldowns.scans": "1m"}, ("plans.pro.cooldowns.scans", "–", "1m")),
        (
            {"plans.free.capabilities": ["site_crawl", "rank_tracking"]},
            ("plans.free.capabilities", "rank_tracking", "rank_tracking, site_crawl"),
        ),
        ({"add_ons.brief_pack.amount": 60}, ("add_ons.brief_pack.amount", "50", "60")),
        ({"unit_costs.crawl_page": "1 USD"}, ("unit_costs.crawl_page", "0.0001 USD", "1 USD")),
        ({"capability_of.scans": "site_crawl"}, ("capability_of.scans", "rank_tracking", "site_crawl")),
        ({"job_failure_rates.crawl": 5}, ("job_failure_rates.crawl", "0", "5")),
        (
            SLOW,
            (
                "job_durations.rank_run",
                "{lognormal: {median: 4m, sigma: 0.5}}",
                "{lognormal: {median: 40m, sigma: 0.5}}",
            ),
        ),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_a_difference(settings: dict[str, object], row: tuple[str, str, str]) -> None:
    other = changed(SHIPPED, settings)
    assert rows(SHIPPED, other) == [row]
    assert rows(other, SHIPPED) == [(row[0], row[2], row[1])]
    (one,) = changes(SHIPPED, other)
    assert one.commercial == row[0].startswith(("plans", "add_ons"))


def test_a_plan_or_an_add_on_that_one_sells() -> None:
    fewer = SHIPPED.model_copy(update={"add_ons": {}, "plans": {"pro": SHIPPED.plans["pro"]}})
    assert rows(SHIPPED, fewer) == [
        *((f"plans.{name}", "sold", "not sold") for name in ("free", "starter", "agency")),
        ("add_ons.brief_pack", "sold", "not sold"),
    ]


def test_names_and_notes_are_no_differences() -> None:
    assert changes(SHIPPED, SHIPPED.model_copy(update={"name": "other", "note": "else"})) == ()
    assert changes_text(()) == "B does not differ from A."


def test_differences_in_a_sentence() -> None:
    other = changed(SHIPPED, SLOW | {"plans.pro.price": "1 USD", "unit_costs.crawl_page": "1 USD"})
    assert changes_text(changes(SHIPPED, other)) == (
        "B differs from A in 3 values, 2 of them not commercial: plan pro, unit costs, job durations."
    )


def test_whom_a_difference_concerns() -> None:
    concerned = {
        one.path: (one.concerns("pro", ()), one.concerns("pro", ("brief_pack",)), one.concerns("free", ()))
        for one in changes(SHIPPED, shipped_catalogue("illustrative-metered"))
    }
    assert concerned["plans.pro"] == (True, True, False)
    assert concerned["plans.free.cost_ceiling"] == (False, False, True)
    assert concerned["add_ons.run_pack"] == (False, False, False)
    assert concerned["unit_costs.crawl_page"] == (True, True, True)
    assert concerned["job_durations.crawl"] == (True, True, True)


def test_what_one_leaves_out_is_as_the_other_states() -> None:
    bare = without(SHIPPED, "job_durations")
    assert bare.job_durations == JOB_DURATIONS != SHIPPED.job_durations
    assert changes(*alike(SHIPPED, bare)) == changes(*alike(bare, SHIPPED)) == ()
    assert taken_over(SHIPPED, bare) == ("B leaves out job_durations; both run as A states.",)
    assert taken_over(bare, SHIPPED) == ("A leaves out job_durations; both run as B states.",)


def test_what_both_leave_out_is_as_by_default_and_what_both_state_stays() -> None:
    bare = without(SHIPPED, "job_durations")
    assert alike(bare, bare) == (bare, bare)
    slow = changed(SHIPPED, SLOW)
    assert alike(slow, SHIPPED) == (slow, SHIPPED)
    assert taken_over(slow, SHIPPED) == ()


def test_setting_a_value_states_nothing_else() -> None:
    bare = changed(without(SHIPPED, "job_durations"), {"plans.pro.price": "1 USD"})
    assert alike(SHIPPED, bare)[1].job_durations == SHIPPED.job_durations


def test_the_shipped_example_differs_in_what_it_says() -> None:
    tighter = read_catalogue(EXAMPLES / "tighter.yaml")
    assert rows(*alike(SHIPPED, tighter)) == [
        ("plans.free", "sold", "not sold"),
        ("plans.starter.cost_ceiling", "10 USD", "5 USD"),
        ("plans.pro.price", "129 USD", "99 USD"),
        ("plans.pro.quotas.keyword_brief_refreshes.limit", "50", "80"),
        ("plans.pro.cost_ceiling", "90 USD", "40 USD"),
    ]


def test_a_back_test_of_two_catalogues_says_in_what_they_differ() -> None:
    recording = read_recording(EXAMPLES / "trace.jsonl")
    tighter = read_catalogue(EXAMPLES / "tighter.yaml")
    found = back_test(recording, [Side(SHIPPED, "pro"), Side(tighter, "pro")])
    assert [(change.path, change.a, change.b) for change in found.terms] == rows(*alike(SHIPPED, tighter))
    assert found.notes[1] == "B leaves out capability_of and job_durations; both run as A states."
    assert next(iter(found.tables)) == "terms"
    assert found.views()[0].title == "What B changes"
    alone = back_test(recording, [Side(tighter, "pro")])
    assert (alone.terms, alone.taken_over) == ((), ())
    same = back_test(recording, [Side(SHIPPED, "starter"), Side(SHIPPED, "pro")])
    assert (same.terms, same.views()[0].title) == ((), "Invoices")


def test_half_a_part_is_refused(tmp_path: Path) -> None:
    text = (EXAMPLES / "tighter.yaml").read_text("utf-8")
    (tmp_path / "half.yaml").write_text(text + "job_durations:\n  crawl: 3m\n", "utf-8")
    with pytest.raises(BadInput) as error:
        read_catalogue(tmp_path / "half.yaml")
    line = text.count("\n") + 1
    assert str(error.value).endswith(
        f"half.yaml:{line}: job_durations: says nothing of rank_run, site_optimization, ai_scan; in a "
        "comparison state all of rank_run, crawl, site_optimization, ai_scan, or leave the whole part out, "
        "to take it from the other catalogue"
    )


def test_an_answer_lists_the_differences_before_what_they_cause() -> None:
    other = changed(SHIPPED, SLOW | {"plans.pro.price": "9 USD"})
    found = compare(population("pro"), SHIPPED, other, policy=CALENDAR, replications=2)
    assert found.sentence.startswith("B differs from A in 2 values, 1 of them not commercial: plan pro, job")
    tables = found.tables
    assert next(iter(tables)) == "changes"
    assert [(row["path"], row["a"], row["b"], row["commercial"]) for row in tables["changes"]] == [
        ("plans.pro.price", "129 USD", "9 USD", True),
        ("job_durations.rank_run", "{lognormal: {median: 4m, sigma: 0.5}}",
         "{lognormal: {median: 40m, sigma: 0.5}}", False),
    ]  # fmt: skip
    assert found.views()[0].title == "What B changes"
    assert found.views()[0].rows[0] == ("plans.pro.price", "129 USD", "9 USD")
    assert found.row("revenue")["difference"] == -10 * 120 * USD
