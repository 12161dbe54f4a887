"""svrl: structured (low-rank) value-based planning and deep reinforcement learning.

A Q function is a matrix, states by actions, and often nearly of low rank, so that some of its
entries tell the others. Names are loaded on first use: importing svrl is quick.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from svrl.agents import (
        AUTHORS_WAY,
        Agent,
        AgentConfig,
        Batch,
        Completion,
        Games,
        RankStudy,
        Replay,
        StructuredTargets,
        Training,
        evaluate,
        load_agent,
        rank_study,
        train,
    )
    from svrl.envs import EnvSpec, Step, VectorEnv, describe_env, make_env
    from svrl.integrations import (
        RankMonitor,
        TargetHook,
        structure,
        structured,
        structured_quantiles,
        structured_values,
    )
    from svrl.matrix import (
        USVT,
        Bernoulli,
        Certificate,
        ContractBroken,
        CrossEstimate,
        Estimate,
        Estimator,
        FactorALS,
        HardImpute,
        NuclearNorm,
        Observed,
        Outcome,
        RowMean,
        SoftImpute,
        approximate_rank,
        certify,
        check_estimator,
        complete,
        cross,
        dual_point,
        duality_gap,
        effective_rank,
        objective,
        spectrum,
        stable_rank,
    )
    from svrl.mdp import (
        Axis,
        ControlTask,
        GridMDP,
        MarkovRewardProcess,
        Model,
        NoisyBackups,
        Sampler,
        Simulator,
        TabularMDP,
        TimeToGoal,
        UprightNorm,
        coordinates,
        make_task,
        toy_mdp,
    )
    from svrl.planning import (
        AsyncValueIteration,
        AveragedStructuredIteration,
        AveragedValueIteration,
        CoarseActions,
        CrossValueIteration,
        GreedyPolicy,
        IncumbentIteration,
        LowRankPolicy,
        Method,
        ModifiedPolicyIteration,
        Plan,
        PlanCertificate,
        PolicyIteration,
        PolicyLoss,
        Rollout,
        RowMeanUpdate,
        SampledMax,
        StructuredValueIteration,
        ValueIteration,
        certify_on_sample,
        certify_plan,
        draw_starts,
        evaluate_policy,
        low_rank_policy,
        make_method,
        paper_svp,
        plan,
        policy_loss,
        rollout,
        solve_exactly,
    )

__all__ = [
    "AUTHORS_WAY",
    "USVT",
    "Agent",
    "AgentConfig",
    "AsyncValueIteration",
    "AveragedStructuredIteration",
    "AveragedValueIteration",
    "Axis",
    "Batch",
    "Bernoulli",
    "Certificate",
    "CoarseActions",
    "Completion",
    "ContractBroken",
    "ControlTask",
    "CrossEstimate",
    "CrossValueIteration",
    "EnvSpec",
    "Estimate",
    "Estimator",
    "FactorALS",
    "Games",
    "GreedyPolicy",
    "GridMDP",
    "HardImpute",
    "IncumbentIteration",
    "LowRankPolicy",
    "MarkovRewardProcess",
    "Method",
    "Model",
    "ModifiedPolicyIteration",
    "NoisyBackups",
    "NuclearNorm",
    "Observed",
    "Outcome",
    "Plan",
    "PlanCertificate",
    "PolicyIteration",
    "PolicyLoss",
    "RankMonitor",
    "RankStudy",
    "Replay",
    "Rollout",
    "RowMean",
    "RowMeanUpdate",
    "SampledMax",
    "Sampler",
    "Simulator",
    "SoftImpute",
    "Step",
    "StructuredTargets",
    "StructuredValueIteration",
    "TabularMDP",
    "TargetHook",
    "TimeToGoal",
    "Training",
    "UprightNorm",
    "ValueIteration",
    "VectorEnv",
    "approximate_rank",
    "certify",
    "certify_on_sample",
    "certify_plan",
    "check_estimator",
    "complete",
    "coordinates",
    "cross",
    "describe_env",
    "draw_starts",
    "dual_point",
    "duality_gap",
    "effective_rank",
    "evaluate",
    "evaluate_policy",
    "load_agent",
    "low_rank_policy",
    "make_env",
    "make_method",
    "make_task",
    "objective",
    "paper_svp",
    "plan",
    "policy_loss",
    "rank_study",
    "rollout",
    "solve_exactly",
    "spectrum",
    "stable_rank",
    "structure",
    "structured",
    "structured_quantiles",
    "structured_values",
    "toy_mdp",
    "train",
]

_PACKAGES = ("svrl.matrix", "svrl.mdp", "svrl.envs", "svrl.planning", "svrl.agents", "svrl.integrations")


_ELSEWHERE = {
    "StructuredDQN": "stable_baselines3 (tianshou has one, too)",
    "StructuredQRDQN": "sb3_contrib (tianshou has one, too)",
    "DoubleDQN": "stable_baselines3",
    "DuelingDQN": "stable_baselines3",
    "StructuredDQNLoss": "torchrl",
    "StructuredDQNConfig": "rllib",
    "SoftImputer": "scikit_learn",
    "mdp_from_env": "gymnasium",
    "agent_from_plan": "gymnasium",
}
"""Names that need another library, and their file in svrl.integrations."""


def __getattr__(name: str) -> object:
    if name in __all__:
        # The packages in order of their weight: the first that has the name is the one it lives in.
        for package in _PACKAGES:
            module = importlib.import_module(package)
            if name in module.__all__:
                return getattr(module, name)
    if name in _ELSEWHERE:
        raise AttributeError(f"module 'svrl' has no attribute {name!r}. It is in svrl.integrations.{_ELSEWHERE[name]}.")
    close = difflib.get_close_matches(name, __all__, n=1)
    hint = f". Did you mean {close[0]}?" if close and not name.startswith("_") else ""
    raise AttributeError(f"module 'svrl' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
