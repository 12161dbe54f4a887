"""Plan from a model, or a simulator, to a policy with an error bar."""

from svrl.planning.averaged import AveragedStructuredIteration, AveragedValueIteration
from svrl.planning.baselines import (
    AsyncValueIteration,
    CoarseActions,
    IncumbentIteration,
    RowMeanUpdate,
    SampledMax,
)
from svrl.planning.catalogue import METHODS, make_method
from svrl.planning.certificate import PlanCertificate, certify_on_sample, certify_plan
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.evaluation import PolicyLoss, evaluate_policy, policy_loss
from svrl.planning.method import Method
from svrl.planning.plan import Plan, plan
from svrl.planning.policy import GreedyPolicy, LowRankPolicy, low_rank_policy
from svrl.planning.policy_iteration import ModifiedPolicyIteration, PolicyIteration, solve_exactly
from svrl.planning.rollout import Rollout, draw_starts, rollout
from svrl.planning.svp import StructuredValueIteration, paper_svp
from svrl.planning.value_iteration import ValueIteration

__all__ = [
    "METHODS",
    "AsyncValueIteration",
    "AveragedStructuredIteration",
    "AveragedValueIteration",
    "CoarseActions",
    "CrossValueIteration",
    "GreedyPolicy",
    "IncumbentIteration",
    "LowRankPolicy",
    "Method",
    "ModifiedPolicyIteration",
    "Plan",
    "PlanCertificate",
    "PolicyIteration",
    "PolicyLoss",
    "Rollout",
    "RowMeanUpdate",
    "SampledMax",
    "StructuredValueIteration",
    "ValueIteration",
    "certify_on_sample",
    "certify_plan",
    "draw_starts",
    "evaluate_policy",
    "low_rank_policy",
    "make_method",
    "paper_svp",
    "plan",
    "policy_loss",
    "rollout",
    "solve_exactly",
]
