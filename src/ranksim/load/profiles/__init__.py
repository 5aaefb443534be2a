"""Profiles: what a load run does, and what for."""

from ranksim.errors import BadInput
from ranksim.load.profiles.calibration import CALIBRATION
from ranksim.load.profiles.everyday import EVERYDAY
from ranksim.load.profiles.ladder import LADDER
from ranksim.load.profiles.profile import Profile
from ranksim.load.profiles.race import RACE
from ranksim.load.profiles.retry import RETRY
from ranksim.load.profiles.scope import SCOPE
from ranksim.load.profiles.soak import SOAK
from ranksim.load.profiles.walk import WALK
from ranksim.load.profiles.webhooks import WEBHOOKS, WEBHOOKS_LONG
from ranksim.load.profiles.windows import BURST, WINDOWS

__all__ = ["PROFILES", "Profile", "profile"]

PROFILES = (
    EVERYDAY,
    BURST,
    WINDOWS,
    RACE,
    RETRY,
    WALK,
    LADDER,
    WEBHOOKS,
    WEBHOOKS_LONG,
    SCOPE,
    SOAK,
    CALIBRATION,
)
"""All profiles, the most general first."""


def profile(name: str) -> Profile:
    """Give the profile of a name. Raises BadInput."""
    for known in PROFILES:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in PROFILES)
    raise BadInput(f"profile: expected one of {names}, found {name!r}")
