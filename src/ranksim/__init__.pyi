from ranksim import capacity as capacity
from ranksim import check as check
from ranksim import load as load
from ranksim import price as price
from ranksim.core.contract.plans import Plan as Plan
from ranksim.core.contract.policy import Policy as Policy
from ranksim.core.errors import BadInput as BadInput
from ranksim.core.service.calls import Call as Call
from ranksim.core.service.calls import Reply as Reply
from ranksim.core.service.service import Service as Service
from ranksim.core.trace import Trace as Trace
from ranksim.judge.conformance.calibrate.calibrate import Calibration as Calibration
from ranksim.judge.conformance.calibrate.calibrate import calibrate as calibrate
from ranksim.judge.conformance.compare import Judgement as Judgement
from ranksim.judge.conformance.report.judged_trace import compare as compare
from ranksim.judge.limits.limits import JudgedLimits as JudgedLimits
from ranksim.judge.limits.limits import limits as limits
from ranksim.planner.fleet.engine import simulate_fleet as simulate_fleet
from ranksim.planner.fleet.population import Population as Population
from ranksim.planner.fleet.results import FleetResult as FleetResult
from ranksim.planner.study.study import Study as Study
from ranksim.twin.sim.results import Result as Result
from ranksim.twin.sim.runner import run as run
from ranksim.twin.sim.scenario import Scenario as Scenario
from ranksim.twin.sim.world import World as World

__version__: str
