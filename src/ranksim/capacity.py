"""Answers to the ready questions of capacity planners.

The public names load their modules on first use.
"""

from ranksim.core.lazy import attach_stub

COMMANDS = {
    "workers": "workers_of_scenario, or workers_needed of peaks,",
    "outage": "scenario_outage, or outage_cost of an Outage,",
    "slots": "slot_use of a Churn, or simulate_slot_use,",
    "sync": "sync_time of a Sync",
    "portfolio": "largest of a Portfolio",
}
"""What answers in Python what a command of the same package does."""

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__, COMMANDS)
