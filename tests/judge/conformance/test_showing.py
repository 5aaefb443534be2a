"""`ranksim trace show`: an exchange whole, as a curl line, and what is stated around it."""

import re
from collections.abc import Sequence
from pathlib import Path

from click.testing import Result
from tests.kit import spending, traces
from typer.testing import CliRunner

from ranksim import cli
from ranksim.core.clock import SECOND
from ranksim.core.trace import DeliveryAttempt, Exchange, Header, Trace, TraceKey
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.standing import standing_lines
from ranksim.judge.conformance.states_around import state_lines


def show(*words: object) -> Result:
    return CliRunner().invoke(cli.app, ["trace", "show", *map(str, words)])


def written(path: Path, *calls: Exchange, came: Sequence[DeliveryAttempt] = ()) -> Path:
    Trace(Header(), list(calls), list(came)).write(path)
    return path


def attempt(at: float, number: int, *, of: str = "evt_7", at_endpoint: str = "w1") -> DeliveryAttempt:
    received = spending.NOON + round(at * SECOND)
    headers = {"Service-Event-Id": of, "Service-Delivery-Attempt": str(number), "Service-Signature": "t=1"}
    return DeliveryAttempt(
        received=received,
        answered=received + 2_500,
        endpoint=at_endpoint,
        headers=headers,
        body='{"type": "test"}',
        status=500 if number == 1 else None,
    )


def test_an_exchange_is_shown_whole_between_what_others_state(tmp_path: Path) -> None:
    middle = spending.briefs(10, headers={"RateLimit-Limit": "20", "RateLimit-Remaining": "4"})
    trace = written(tmp_path / "trace.jsonl", spending.usage(0, used=2), middle, spending.usage(20, used=3))
    told = show(trace, middle.id)
    assert told.exit_code == 0, told.output
    assert "curl -i -X POST" in told.stdout
    assert "Bearer $RANKSIM_KEY" in told.stdout
    assert "keyword_brief_refreshes of account main, limit 10, used:" in told.stdout
    assert "it says: 4 left" in told.stdout
    assert show(tmp_path, middle.id).stdout == told.stdout  # the directory of a run


def test_an_attempt_is_shown_whole_with_the_others_of_its_event(tmp_path: Path) -> None:
    came = [attempt(1, 1), attempt(61, 2), attempt(61, 2, at_endpoint="w2"), attempt(70, 1, of="evt_8")]
    told = show(written(tmp_path / "trace.jsonl", spending.usage(0), came=came), "evt_7/2")
    assert told.exit_code == 0, told.output
    assert "evt_7/2  2026-03-04T12:01:01Z  no answer after 2.5 ms  endpoint w1" in told.stdout
    assert "evt_7/2  2026-03-04T12:01:01Z  no answer after 2.5 ms  endpoint w2" in told.stdout
    assert "  > Service-Signature: t=1" in told.stdout
    assert '>  "type": "test"' in told.stdout
    assert "    evt_7/1  1m before, answered 500" in told.stdout
    assert "evt_8" not in told.stdout


def test_what_is_known_is_shown_and_the_rest_is_named(tmp_path: Path) -> None:
    call = spending.usage(0)
    told = show(written(tmp_path / "trace.jsonl", call), "nothing", call.id, f"evt_1/{call.id}")
    assert told.stdout.startswith(f"{call.id}  2026-03-04T12:00:00Z")
    assert (told.exit_code, f"is called 'nothing', 'evt_1/{call.id}'; expected" in told.stderr) == (2, True)
    assert f"such as {call.id}" in told.stderr


def test_ids_of_several_traces_are_those_of_their_joint_report(tmp_path: Path) -> None:
    first, second = spending.usage(0, used=2), spending.usage(5, used=3)
    one, two = written(tmp_path / "one.jsonl", first), written(tmp_path / "two.jsonl", second)
    told = show(one, two, f"2/{second.id}")
    assert told.stdout.startswith(f"{second.id}  2026-03-04T12:00:05Z")
    alone = show(one, f"2/{first.id}")
    assert (alone.exit_code, alone.stdout.strip()) == (2, "")
    assert "it is of trace 2 of several: give all that were judged, in their order" in alone.stderr
    assert "expected ids of a report behind the traces" in show(one, two).stderr


def around(*calls: Exchange, of: int, exclusive: bool = True) -> str:
    """Tell what stood around one of these calls, with its name for its number."""
    trace = Trace(Header(keys={"main": TraceKey(account="acme")}, exclusive=exclusive), list(calls))
    history = read_history(trace)
    [seen] = history.named({calls[of].id})
    text = "\n".join(standing_lines(history, seen))
    for number, one in reversed(list(enumerate(calls))):
        text = re.sub(rf"\b{one.id}\b", f"#{number}", text)
    return text


def test_a_meter_lies_between_readings_and_what_was_admitted() -> None:
    d = spending
    calls = [d.usage(0, 2), d.briefs(1), d.briefs(2, lost=True), d.briefs(3), d.usage(4, 5)]
    text = around(*calls, of=3)
    assert "before: at least 3 (#0, #1), at most 4 (" in text
    assert "after: at least 4 (#0, #1, #3), at most 5 (" in text
    assert "before: nothing in the trace bounds it" in around(*calls, of=3, exclusive=False)


def test_a_meter_lies_between_nothing_and_its_limit() -> None:
    """Of what a later reading shows, lost calls between may have taken more than all."""
    d = spending
    lost = [d.briefs(1, 8, lost=True), d.briefs(2, 8, lost=True)]
    text = around(d.briefs(0), *lost, d.usage(9, 3, limit=10), of=0)
    assert "before: at least 0, at most 2 (#3)" in text
    text = around(d.usage(0, 1, limit=10), *lost, d.briefs(3), of=3)
    assert "after: at least 2 (#0, #3), at most 10 (its limit)" in text


def test_readings_that_contradict_each_other_leave_no_value() -> None:
    calls = [spending.usage(0, 5), spending.briefs(1), spending.usage(2, 5)]
    assert "before: no value fits: at least 5 (#0), at most 4 (#2)" in around(*calls, of=1)


def test_no_meter_counts_what_its_readings_rule_out() -> None:
    """Three runs were done and none is counted, so a fourth is not either; of one that was, it may be."""
    d = spending
    done = [one for n in range(3) for one in (d.job(n, id=f"j{n}"), d.shown(n + 10, f"j{n}"))]
    calls = [d.usage(-1, 0), *done, d.usage(20, 0), d.job(30, on="d2")]
    assert "after: 0 (#0)" in around(*calls, of=8)
    calls = [d.usage(-1, 0), *done, d.usage(20, 3), d.job(30, on="d2")]
    assert "after: at least 0, at most 4 (#0, #1, #8)" in around(*calls, of=8)


def test_what_came_before_a_trace_began_may_stand_in_its_windows() -> None:
    headers = {"RateLimit-Limit": "600", "RateLimit-Remaining": "575", "RateLimit-Reset": "9"}
    calls = [spending.usage(at, headers=headers) for at in (0, 59, 61)]
    assert "at least 1 (#0 to #0), and what came before the trace began" in around(*calls, of=1)
    assert "at least 1 (#1 to #1), at most 1 (#1 to #1)" in around(*calls, of=2)


def test_a_window_holds_what_was_admitted_and_perhaps_what_was_lost() -> None:
    headers = {"RateLimit-Limit": "20", "RateLimit-Remaining": "4", "RateLimit-Reset": "9"}
    calls = [spending.briefs(at, headers=headers, lost=at == 70) for at in (0, 50, 70, 80)]
    text = around(*calls, of=3)
    assert "before: at least 1 (#1 to #1), at most 2 (#1 to #2)" in text
    assert "after: one more (#3); it says that 4 are left" in text


def test_a_cooldown_runs_from_what_began_it() -> None:
    d = spending
    calls = [d.entitled(0, crawl=100), d.domain(1), d.job(2), d.job(50, **d.cooling(52))]
    text = around(*calls, of=3)
    assert "cooldown of crawl on d1, 1m40s (#0), per domain, from acceptance" in text
    assert "before: until 2026-03-04T12:01:42Z to 2026-03-04T12:01:42.1" in text
    assert ", by #2, unless that run had failed" in text
    assert "after: the same, as it was refused" in text
    assert "before: not cooling by any call of the trace" in around(*calls, of=2)


def state_around(of: int, *calls: Exchange) -> str:
    """Tell what the states that are run could have been around one of these calls."""
    trace = traces.a_trace(calls)
    history = read_history(trace)
    [seen] = history.named({trace.exchanges[of].id})
    return "\n".join(state_lines(history, seen))


def relabelled(sent: float, received: float | None, label: str) -> Exchange:
    shown = {"id": "d", "label": label}
    body = {"label": label}
    return traces.call("domains.update", sent, received, shown, path={"id": "d"}, body=body)


def test_a_field_is_what_either_of_two_patches_at_once_left_it_until_it_is_read() -> None:
    read = traces.call("domains.get", 5, 6, {"id": "d", "label": "tea"}, path={"id": "d"})
    calls = [relabelled(0, 3, "tea"), relabelled(1, 4, "ale"), read]
    assert "  label by its PATCHes:\n    before: 'ale' or 'tea'\n    after: 'tea'" in state_around(2, *calls)


def test_a_lost_patch_may_have_taken_effect_or_not() -> None:
    calls = [relabelled(0, 1, "tea"), relabelled(2, None, "ale"), relabelled(3, 4, "rum")]
    text = state_around(2, *calls)
    assert "before: 'ale' as the deployment writes it or 'tea'" in text
    assert "after: 'ale' as the deployment writes it or 'rum'" in text


def test_a_key_keeps_the_reply_of_one_of_two_posts_at_once() -> None:
    def post(sent: float, received: float | None, job: str, body: dict[str, str]) -> Exchange:
        made = {"id": job, "kind": "crawl"}
        return traces.call("jobs.create", sent, received, made, status=202, body=body, once="k1")

    body = {"kind": "crawl", "domain_id": "d"}
    calls = [post(0, None, "", body), post(1, 2, "job_1", body), post(3, 4, "job_1", body)]
    text = state_around(1, *calls)
    assert "kept under key main, Idempotency-Key k1:\n    before: a reply not seen or nothing" in text
    assert "after: job_1" in text
