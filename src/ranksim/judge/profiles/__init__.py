"""Profiles: what a load run does, and what for."""

from ranksim.core.errors import BadInput, near
from ranksim.judge.profiles.calibration import CALIBRATION
from ranksim.judge.profiles.cooldowns import COOLDOWNS
from ranksim.judge.profiles.cost_cap import CEILING
from ranksim.judge.profiles.coverage import BREADTH
from ranksim.judge.profiles.everyday import EVERYDAY, SOAK
from ranksim.judge.profiles.ladder import LADDER, RUNGS
from ranksim.judge.profiles.profile import Profile
from ranksim.judge.profiles.race import RACE
from ranksim.judge.profiles.retry import RETRY
from ranksim.judge.profiles.scope import SCOPE
from ranksim.judge.profiles.smoke import LAST, SMOKE
from ranksim.judge.profiles.walk import WALK
from ranksim.judge.profiles.webhooks import ENDPOINTS, WEBHOOKS, WEBHOOKS_LONG
from ranksim.judge.profiles.windows import BURST, BURSTS, LIMITS, WINDOWS

__all__ = ["OF_LOADS", "PROFILES", "Profile", "profile"]

PROFILES = (
    *(EVERYDAY, BREADTH, BURST, WINDOWS, RACE, RETRY, SMOKE, LIMITS, BURSTS, WALK, LADDER, RUNGS, CEILING),
    *(COOLDOWNS, ENDPOINTS, WEBHOOKS, WEBHOOKS_LONG, SCOPE, LAST, SOAK, CALIBRATION),
)
"""All profiles, the most general first."""

OF_LOADS = (EVERYDAY, BURST, RACE, RETRY, WEBHOOKS, SOAK)
"""Those that a load is made of; the others are tasks of a check."""


def profile(name: str) -> Profile:
    """Return the profile of a name. Raises BadInput."""
    for candidate in PROFILES:
        if candidate.name == name:
            return candidate
    names = [candidate.name for candidate in PROFILES]
    raise BadInput(f"profile: expected one of {', '.join(names)}, found {name!r}{near(name, names)}")
