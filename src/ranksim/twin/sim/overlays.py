"""A scenario file's catalogue and assumptions, laid over its policy."""

from pathlib import Path

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.located import Located, validate
from ranksim.core.contract.policy import Policy


def read_policy(located: Located, folder: Path) -> Policy:
    """Return the policy of a scenario file: its `policy`, with `catalogue` laid over it. Raises BadInput."""
    policy = Policy()
    if "policy" in located.data:
        given = located["policy"]
        if isinstance(given.data, str):
            path = folder / given.data
            if not path.is_file():
                raise given.error(f"no such file as {str(path)!r}; give a path relative to the scenario")
            policy = Policy.load(path)
        else:
            policy = Policy.read(given, folder)
    if "catalogue" in located.data:
        alone = Located(located.where, {"catalogue": located.data["catalogue"]}, located.lines, located.path)
        policy = policy.model_copy(update={"catalogue": Policy.read(alone, folder).catalogue})
    return policy


def with_assumptions(policy: Policy, located: Located) -> Policy:
    """Return the same policy with the `assumptions` of a scenario laid over it."""
    if "assumptions" not in located.data:
        return policy
    given = validate(Assumptions, located["assumptions"])
    stated = {name: getattr(given, name) for name in given.model_fields_set}
    assumptions = policy.assumptions.model_copy(update=stated)
    return policy.model_copy(update={"assumptions": assumptions})
