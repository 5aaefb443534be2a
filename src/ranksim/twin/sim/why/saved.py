"""The run that `ranksim run --out` wrote, to ask on."""

from json import loads
from pathlib import Path

from ranksim.core.errors import BadInput
from ranksim.core.files import ITS_SCENARIO, MARKER
from ranksim.twin.sim.scenario import Scenario


def saved_run(folder: Path) -> tuple[Scenario, list[int]]:
    """Return the scenario that a directory of results is of, and the seeds of its replications.

    Raises BadInput.
    """
    try:
        scenario = Scenario.parse((folder / ITS_SCENARIO).read_text(encoding="utf-8"), str(folder))
        result = loads((folder / MARKER).read_text(encoding="utf-8"))
        return scenario, [replication["seed"] for replication in result["replications"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(
            f"{folder}: expected what `ranksim run --out` writes, {ITS_SCENARIO} and {MARKER} among it; "
            "run the scenario again, or give its file"
        ) from None
