"""What a policy states is pinned; all else is open."""

from typing import Any

import pytest
from tests.kit.traces import policy_of

from ranksim.judge.conformance.verdict.options import Options


@pytest.mark.parametrize(
    ("stated", "name", "candidates"),
    [
        ({}, "fingerprint", ("canonical", "raw")),
        ({"fingerprint": "raw"}, "fingerprint", ("raw",)),
        ({"fingerprint": "canonical"}, "fingerprint", ("canonical",)),
        ({}, "refused_calls_count", (False, True)),
        ({"refused_calls_count": True}, "refused_calls_count", (True,)),
        ({}, "window", ("first_hit", "clock", "sliding_log", "sliding_counter", "gcra")),
    ],
)
def test_candidates(stated: dict[str, Any], name: str, candidates: tuple[Any, ...]) -> None:
    options = Options.of(policy_of(**stated))
    assert options.candidates(name) == candidates
    assert options.pinned(name) == bool(stated)


def test_without_a_policy_all_is_open() -> None:
    options = Options.of()
    assert not options.pinned("fingerprint")
    assert options.status("invalid_cursor") is None
    assert options.default_status("invalid_cursor") == 400


def test_a_pinned_status() -> None:
    options = Options.of(policy_of(statuses={"invalid_cursor": 422}))
    assert options.status("invalid_cursor") == options.default_status("invalid_cursor") == 422
    assert options.status("unauthorized") is None


def test_a_number_has_no_candidates_unless_it_is_pinned() -> None:
    with pytest.raises(ValueError, match="retry_jitter_percent is not a choice"):
        Options.of().candidates("retry_jitter_percent")
    assert Options.of(policy_of(retry_jitter_percent=7)).candidates("retry_jitter_percent") == (7,)
