"""Keys: found in their own environment only, and scoped to one domain or none."""

from dataclasses import dataclass

import pytest

from ranksim.core.rules.access import resolve, sees


@dataclass
class Key:
    environment: str
    withdrawn: bool = False


KEYS = {"live": Key("production"), "test": Key("sandbox"), "gone": Key("production", withdrawn=True)}


@pytest.mark.fact("S3", "S68", "U12", "E48")
@pytest.mark.parametrize(
    ("token", "environment", "found"),
    [
        ("live", "production", True),
        ("test", "sandbox", True),
        ("live", "sandbox", False),
        ("test", "production", False),
        ("gone", "production", False),
        ("LIVE", "production", False),
        ("nobody's", "production", False),
        ("", "production", False),
        (None, "production", False),
    ],
)
def test_a_key_works_in_its_own_environment_only(token: str | None, environment: str, found: bool) -> None:
    assert resolve(KEYS, token, environment) is (KEYS[token or ""] if found else None)


@pytest.mark.fact("S70", "U13", "U97")
@pytest.mark.parametrize(
    ("scope", "domain", "seen"),
    [
        (None, "dom_1", True),
        (None, None, True),
        ("dom_1", "dom_1", True),
        ("dom_1", "dom_2", False),
        ("dom_1", None, False),
    ],
)
def test_a_scoped_key_sees_its_own_domain_only(scope: str | None, domain: str | None, seen: bool) -> None:
    assert sees(scope, domain) is seen
