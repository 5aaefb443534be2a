"""Profiles: what a load run does, and what for."""

from ranksim.callers.profiles.breadth import BREADTH, TWINS
from ranksim.callers.profiles.calibration import CALIBRATION
from ranksim.callers.profiles.ceiling import CEILING
from ranksim.callers.profiles.cooldowns import COOLDOWNS
from ranksim.callers.profiles.everyday import EVERYDAY
from ranksim.callers.profiles.ladder import LADDER, RUNGS
from ranksim.callers.profiles.profile import Profile
from ranksim.callers.profiles.race import RACE
from ranksim.callers.profiles.retry import RETRY
from ranksim.callers.profiles.scope import SCOPE
from ranksim.callers.profiles.soak import SOAK
from ranksim.callers.profiles.walk import WALK
from ranksim.callers.profiles.webhooks import ENDPOINTS, WEBHOOKS, WEBHOOKS_LONG
from ranksim.callers.profiles.windows import BURST, WINDOWS
from ranksim.errors import BadInput, near

__all__ = ["PROFILES", "Profile", "profile"]

PROFILES = (
    EVERYDAY,
    BREADTH,
    BURST,
    WINDOWS,
    RACE,
    RETRY,
    TWINS,
    WALK,
    LADDER,
    RUNGS,
    CEILING,
    COOLDOWNS,
    ENDPOINTS,
    WEBHOOKS,
    WEBHOOKS_LONG,
    SCOPE,
    SOAK,
    CALIBRATION,
)
"""All profiles, the most general first."""


def profile(name: str) -> Profile:
    """Return the profile of a name. Raises BadInput."""
    for known in PROFILES:
        if known.name == name:
            return known
    names = [known.name for known in PROFILES]
    raise BadInput(f"profile: expected one of {', '.join(names)}, found {name!r}{near(name, names)}")
