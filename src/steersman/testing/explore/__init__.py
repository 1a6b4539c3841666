"""Explores the failures of an operator in a scenario: crashes, lost responses, late and missed events.

`explored` marks a test. The scenario runs on a simulated cluster, once as the reference and once for each plan; a plan
is a sequence of faults at numbered points of the reference run. Runs are forks of one started cluster and take no
real time.
"""

from steersman.testing.explore.decorator import Explored, ExploredError, explored, thorough
from steersman.testing.explore.exploration import DEFAULT_PERTURB, Exploration, Failure, Request, explore, replay
from steersman.testing.explore.findings import ORACLES, Finding
from steersman.testing.explore.generation import ChangeSequence
from steersman.testing.explore.options import RunOptions
from steersman.testing.explore.plans import FAULT_KINDS, PERTURBATIONS, Fault, Plan, PlanError, read_plans
from steersman.testing.explore.running import Job, Outcome
from steersman.testing.explore.scenario_run import ScenarioRun
from steersman.testing.explore.sequences import SequenceFailure, SequenceResult, any_sequence, explore_sequences
from steersman.testing.explore.state import NormalState, State, difference

__all__ = [
    "DEFAULT_PERTURB",
    "FAULT_KINDS",
    "ORACLES",
    "PERTURBATIONS",
    "ChangeSequence",
    "Exploration",
    "Explored",
    "ExploredError",
    "Failure",
    "Fault",
    "Finding",
    "Job",
    "NormalState",
    "Outcome",
    "Plan",
    "PlanError",
    "Request",
    "RunOptions",
    "ScenarioRun",
    "SequenceFailure",
    "SequenceResult",
    "State",
    "any_sequence",
    "difference",
    "explore",
    "explore_sequences",
    "explored",
    "read_plans",
    "replay",
    "thorough",
]
