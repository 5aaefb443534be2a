"""What a call created is read from its reply in one way."""

from typing import Any

import pytest

from ranksim.core.contract.views import created_by

CREATED: dict[str, tuple[Any, list[Any] | None]] = {
    "keywords": ({"list_id": "list_1", "created": [{"id": "kw_1"}]}, [{"id": "kw_1"}]),
    "keywords that were all there": ({"list_id": "list_1", "created": []}, []),
    "briefs": ({"id": "brief_1", "briefs": [{"id": "brief_1"}]}, [{"id": "brief_1"}]),
    "one resource": ({"id": "dom_1", "created_at": "2026-03-02T09:00:00Z"}, None),
    "one resource with a field of that name": ({"id": "dom_1", "created": "2026-03-02"}, None),
    "ids alone": ({"created": ["kw_1", "kw_2"]}, ["kw_1", "kw_2"]),
    "a page": ([{"id": "dom_1"}], None),
    "no data": (None, None),
}


@pytest.mark.fact("U109")
@pytest.mark.parametrize(("data", "created"), CREATED.values(), ids=CREATED)
def test_what_a_call_created(data: Any, created: list[Any] | None) -> None:
    assert created_by(data) == created
