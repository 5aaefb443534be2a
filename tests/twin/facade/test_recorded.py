"""What users see stays byte for byte: fixed requests, and an old state file, against what was recorded.

`recorded/answers.json` has digests of what was answered before the facade's rooms were parted. Where a change
is intended, print what `recording` returns before and after it, look at each difference, and write the new
digests.
"""

import asyncio
import gzip
import json
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ranksim.core.clock import HOUR, instant
from ranksim.core.errors import BadInput
from ranksim.core.rulebook import rulebook_digest
from ranksim.core.service.calls import Answer, Attempt
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin

from . import recording

RECORDED = Path(__file__).with_name("recorded")

START = instant("2026-03-04T10:00:00Z")


def recorded(part: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((RECORDED / "answers.json").read_text("utf-8"))[part]
    return found


@pytest.mark.slow
def test_sample_calls_are_answered_as_before(stage: Any) -> None:
    found = {name: recording.digest(text) for name, text in recording.answers(stage).items()}
    assert len(found) > 209
    assert found == recorded("answers")


def test_the_control_api_answers_as_before() -> None:
    found = {name: recording.digest(text) for name, text in recording.control().items()}
    assert found == recorded("control")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file that was kept by the code before the rooms were parted, its every kind of input in it."""
    path = tmp_path / "state.db"
    path.write_bytes(gzip.decompress((RECORDED / "state.db.gz").read_bytes()))
    return path


def test_a_file_of_another_rulebook_is_refused_and_left_alone(old: Path) -> None:
    """The digest of the rulebook's sources, names included, decides: a renamed source is another rulebook."""
    before = old.read_bytes()
    with pytest.raises(BadInput, match="written by another version of the rulebook"):
        attach(Twin(clock="manual", start=START), old)
    assert old.read_bytes() == before


def test_a_file_of_before_leads_where_it_led(old: Path) -> None:
    """Its form and the meaning of its inputs are the same; only the rulebook's digest is put right here."""
    database = sqlite3.connect(old, isolation_level=None)
    database.execute("UPDATE about SET said = ? WHERE name = 'rulebook'", (rulebook_digest(),))
    database.close()
    sent: list[tuple[int, str, int]] = []

    def answer(attempt: Attempt) -> Answer | int:
        sent.append((attempt.attempt, attempt.url, attempt.number))
        return 200

    twin = Twin(clock="manual", start=START, sender=Scripted(answer), read_wall=lambda: START + 2 * HOUR)
    journal = attach(twin, old)
    opened = twin.service.save()

    async def story() -> None:
        await twin.start()
        await twin.advance(by=30 * HOUR)
        await twin.close()

    asyncio.run(story())
    journal.close()
    assert sha256(opened).hexdigest()[:12] == "3586788040f4"
    assert sha256(repr(sent).encode()).hexdigest()[:12] == "53de621ba74c"
    assert sha256(twin.service.save()).hexdigest()[:12] == "e4617cec68e3"
