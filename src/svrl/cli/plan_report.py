"""What `svrl plan` answers: one JSON object, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from svrl.runtime.run_directory import finite

if TYPE_CHECKING:
    from svrl.cli.plan_request import PlanRequest
    from svrl.planning.method import Method
    from svrl.planning.plan import Plan
    from svrl.planning.score import Judge, Score

EXACT_BASELINES = ("async", "sampled-max", "row-mean-update", "incumbent", "coarse", "paper-svp")
NOISY_BASELINES = ("value-iteration", "averaged", "incumbent")
NO_OPTIMUM = (
    "the exact optimum is only computed for up to 200 million pairs of state and action; "
    "ask for it with --compare or --backup-cost"
)


def result_of(request: PlanRequest, method: Method, found: Plan, score: Score, judge: Judge) -> dict[str, Any]:
    """Everything that is said about a plan; what is None has its reason beside it."""
    from svrl.planning.score import ranks

    model, optimum = judge.model, judge.optimum if judge.exact else None
    optimal = judge.optimal if judge.exact else None
    grid = found.problem.get("states")
    return finite(
        {
            "task": request.task,
            **_or_reason("variant", found.problem.get("variant"), f"{request.task} has no variants"),
            "method": request.method,
            **_or_reason("estimator", estimator_name(method), f"{request.method} uses no matrix estimator"),
            **_or_reason(
                "observe", getattr(method, "observe", None), f"{request.method} chooses pairs by another rule"
            ),
            "states": grid if isinstance(grid, str) else str(model.n_states),
            "actions": model.n_actions,
            "seed": found.seed,
            "device": str(model.device),
            "iterations": found.iterations,
            "backups": found.ledger.backups,
            "sweep_equivalents": found.sweep_equivalents,
            "seconds_backup": found.ledger.seconds_backup,
            "seconds_estimate": found.ledger.seconds_estimate,
            **ranks(found, model),
            **_or_reason("policy_loss", score.policy_loss, NO_OPTIMUM),
            **_or_reason("policy_loss_relative", score.policy_loss_relative, NO_OPTIMUM),
            "discounted_return": score.discounted_return,
            **_or_reason("optimal_return", optimal and optimal.discounted_return, NO_OPTIMUM),
            **_metric(request, score, optimal),
            "policy_followed_by": score.followed,
            **_certificate(judge, found),
            "converged": found.converged,
            "outcome": found.outcome,
            "problem": found.problem,
            "method_repr": found.method,
            **_or_reason("optimum", optimum and optimal and comparison_row("optimum", optimum, optimal), NO_OPTIMUM),
            **break_even(found, optimum, request.backup_cost),
        }
    )


def comparison_row(name: str, found: Plan, score: Score) -> dict[str, Any]:
    """One line of the closing table."""
    main = score.metric.get("name")
    metric = None if main is None else score.metric[main]
    return finite(
        {
            "method": name,
            "iterations": found.iterations,
            "sweep_equivalents": found.sweep_equivalents,
            "seconds_backup": found.ledger.seconds_backup,
            "seconds_estimate": found.ledger.seconds_estimate,
            "policy_loss": score.policy_loss,
            "policy_loss_relative": score.policy_loss_relative,
            "discounted_return": score.discounted_return,
            **_or_reason("metric", metric, "the problem has no metric"),
            "policy_followed_by": score.followed,
            "outcome": found.outcome,
        }
    )


def estimator_name(method: Method) -> str | None:
    """The name of a method's estimator, or None if it has none."""
    from svrl.matrix.catalogue import ESTIMATORS

    estimator = getattr(method, "estimator", None)
    if estimator is None:
        return None
    return next((name for name, kind in ESTIMATORS.items() if type(estimator) is kind), type(estimator).__name__)


def break_even(found: Plan, optimum: Plan | None, cost: float | None) -> dict[str, Any]:
    """From which cost of a backup, in microseconds, the estimation is paid for by the backups that it saves.

    Saved against the exact optimum by modified policy iteration, which decides, and beside it against as
    many iterations of value iteration, which is the paper's comparison.
    """
    against = {
        "": None if optimum is None else optimum.ledger.backups - found.ledger.backups,
        "_against_value_iteration": found.iterations * found.problem["pairs"] - found.ledger.backups,
    }
    fields: dict[str, Any] = {}
    costs = {}
    for name, saved in against.items():
        even, reason = _even(found, saved)
        costs[name] = even
        fields |= _or_reason(f"backups_saved{name}", saved, NO_OPTIMUM)
        fields |= _or_reason(f"break_even_cost{name}", even, reason)
    if cost is not None:
        even = costs[""]
        fields |= {"backup_cost": cost, "pays": even is not None and cost > even}
        fields["pays_sentence"] = _verdict(found, cost, even, against[""], fields.get("break_even_cost_reason", ""))
    return fields


def _what_was_ranked(result: dict[str, Any]) -> str:
    """An estimate has the rank that its estimator allows, which is not the rank of Q."""
    return "Q" if result["seconds_estimate"] == 0.0 else "the method's estimate of Q"


def _even(found: Plan, saved: int | None) -> tuple[float | None, str]:
    if saved is None:
        return None, NO_OPTIMUM
    if "sample_noise" in found.problem:
        return None, "with noisy backups estimation buys accuracy, not backups"
    if found.ledger.seconds_estimate == 0.0:
        return None, f"{found.name} estimates nothing"
    if saved <= 0:
        return None, "it saves no backups, so it pays at no cost"
    return 1e6 * found.ledger.seconds_estimate / saved, ""


def _verdict(found: Plan, cost: float, even: float | None, saved: int | None, reason: str) -> str:
    if even is None:
        return f"Estimation does not pay against the exact optimum: {reason}."
    word = "pays" if cost > even else "does not pay"
    return (
        f"At {cost:g} us a backup estimation {word}: {found.ledger.seconds_estimate:.3g} s of it saved {saved:,} "
        f"backups against the exact optimum, so it breaks even at {even:.3g} us."
    )


def _metric(request: PlanRequest, score: Score, optimal: Score | None) -> dict[str, Any]:
    if not score.metric:
        return {"metric": None, "metric_reason": f"{request.task} has no metric"}
    name = score.metric["name"]
    both = {key: value for key, value in score.metric.items() if key != "name"}
    best = _or_reason("optimal", optimal and optimal.metric[name], NO_OPTIMUM)
    return {
        "metric": finite({"name": name, "value": score.metric[name], **best}),
        "metrics": finite(both),
        **_or_reason("optimal_metrics", optimal and finite({key: optimal.metric[key] for key in both}), NO_OPTIMUM),
    }


def _certificate(judge: Judge, found: Plan) -> dict[str, Any]:
    from svrl.planning.certificate import certify_plan

    if not bool(found.v.isfinite().all()):
        return {"certified_error": None, "certified_error_reason": "the values are not finite"}
    model = judge.model
    if not judge.exact:
        sample = judge.sample(found)
        return {
            "certified_error": None,
            "certified_error_reason": "one sweep of all pairs takes too long; see sample_certificate",
            "sample_certificate": {**asdict(sample), "statement": sample.statement},
        }
    certificate = certify_plan(model, found.v, found.policy)
    return {
        "certified_error": certificate.certified_error,
        "certificate_backups": certificate.backups,
        "value_error_bound": certificate.value_error,
        "policy_loss_bound": certificate.mean_loss_bound,
    }


def _or_reason(name: str, value: Any, reason: str) -> dict[str, Any]:
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}


def notes_of(result: dict[str, Any]) -> Iterable[str]:
    """Lines below the table."""
    if result["rank_99"] is None:
        yield f"rank: unknown, because {result['rank_reason']}"
    else:
        yield (
            f"rank of {_what_was_ranked(result)}: {result['rank_99']} for 99% of the energy, "
            f"{result['rank_tight']} for all but 1e-6; "
            f"with row means taken out {result['rank_99_centred']} and {result['rank_tight_centred']}"
        )
    if result["optimum"] is None:
        yield f"no loss: {result['optimum_reason']}"
    if "sample_certificate" in result:
        yield result["sample_certificate"]["statement"]
    if result["certified_error"] is not None:
        yield (
            f"certified: V* is known within {result['certified_error']:.3g}, "
            f"and the policy loses at most {result['policy_loss_bound']:.3g} on average"
        )
    for row in result.get("comparison", []):
        if "reason" in row:
            yield f"{row['method']} was not possible: {row['reason']}"
    if "pays_sentence" in result:
        yield result["pays_sentence"]
    if "out" in result:
        yield f"written: {result['out']}"
