"""svrl rank: how low the rank of a learned Q is, over many batches of states."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from svrl.cli.answers import PICTURES, answer, show_table, tell, writing_to
from svrl.cli.flags import Device, Json, Seed
from svrl.cli.run_agent import Best, EnvAgain, NetworkAgain, RunFolder, working_with

_KINDS = (
    ("as it is", "energy", ""),
    ("as it is", "tight_energy", "tight_"),
    ("rows centred", "energy", "row_centred_"),
    ("rows centred", "tight_energy", "tight_row_centred_"),
)


def rank(
    run: RunFolder,
    batches: Annotated[int, typer.Option(min=1, help="Batches to draw.")] = 10_000,
    batch_size: Annotated[int, typer.Option(min=1, help="States in a batch.")] = 32,
    energy: Annotated[float, typer.Option(help="Share of the sum of squares that the rank must carry.")] = 0.99,
    states: Annotated[int, typer.Option(min=1, help="States to collect by playing.")] = 20_000,
    best: Best = False,
    seed: Seed = 0,
    device: Device = "cpu",
    env: EnvAgain = None,
    network: NetworkAgain = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Histogram and CDF (default: rank.png in the run's folder).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Approximate rank of the learned Q on random batches of states x actions, as in the paper's section 4.1.

    The agent plays to collect states. Beside the rank of Q stands that of Q with each row's mean taken out, which is
    about how the actions differ.
    """
    from svrl.agents.evaluation import at_rest
    from svrl.agents.study import rank_study
    from svrl.plots.rank import draw_ranks
    from svrl.plots.style import save_figure
    from svrl.training.q_star import QStarError

    if batch_size > states:
        raise ValueError(f"--batch-size {batch_size} needs as many different --states, got {states}.")
    if not 0.0 < energy < 1.0:
        raise ValueError(f"--energy is a share between 0 and 1, got {energy}.")
    place = run / "rank.png" if plot is None else plot
    with (
        working_with(run, device, env, network, best=best) as (agent, say_so),
        writing_to(place, PICTURES) as temporary,
    ):
        found = rank_study(
            agent,
            batches=batches,
            batch_size=batch_size,
            energy=energy,
            states=states,
            seed=seed,
            progress=lambda done, of: say_so(f"{done:,} of {of:,} states" if done < of else "ranks of all batches"),
        ).as_json()
        found["q_star_directions"] = None
        try:
            known = QStarError.of_learner(agent)
        except ValueError as error:
            found["q_star_directions_reason"] = str(error)
        else:
            say_so("the error against Q*")
            with at_rest(agent.network) as at_grid_states:
                found["q_star_directions"] = asdict(known.directions(at_grid_states, agent.device))
        study = {"run": str(run), "arm": agent.config.arm, "steps": agent.steps, **found, "plot": str(place)}
        save_figure(draw_ranks(study), temporary)
    answer(study, as_json, _print)


def _print(study: dict[str, Any]) -> None:
    title = f"{study['env']}, {study['arm']}: {study['batches']:,} batches of {study['batch_size']} states x "
    tell(f"{title}{study['actions']} actions")
    rows = []
    for words, energy, kind in _KINDS:
        cdf, counts = study[f"{kind}cdf"], study[f"{kind}histogram"]
        median = next(rank for rank, share in enumerate(cdf) if share >= 0.5)
        largest = max(rank for rank, count in enumerate(counts) if count)
        rows.append((words, f"{study[energy]:g}", f"{study[f'{kind}mean']:.2f}", str(median), str(largest)))
    show_table(("Q", "energy", "mean rank", "median", "largest"), rows)
    _print_directions(study["q_star_directions"] or study["directions"])
    tell(
        _features(study),
        *map(_estimation, study["estimation"]),
        _overestimation(study["optimism"]),
        f"written: {study['plot']}",
    )


def _print_directions(found: dict[str, Any]) -> None:
    """Where the values, and if Q* is known their errors, lie."""
    columns = [shares for name in ("values", "errors", "independent") if (shares := found[name])]
    rows = [(f"first {count}", *(f"{shares[k]:.1%}" for shares in columns)) for k, count in enumerate(found["counts"])]
    if rows:
        errors = ("of the error against Q*", "of independent errors") if found["errors"] else ("of independent errors",)
        show_table(("directions of Q, rows centred", "hold of the values", *errors), rows)


def _features(study: dict[str, Any]) -> str:
    if study["feature_rank"] is None:
        return f"features are not known: {study['feature_rank_reason']}"
    return (
        f"features: effective rank {study['feature_rank']:.1f}, srank {study['srank']}, "
        f"{study['dormant']:.0%} of the units dormant"
    )


def _estimation(found: dict[str, Any]) -> str:
    """What matrix estimation makes of these values, for one scaling."""
    error = "nothing hidden" if found["held_out"] is None else f"hidden entries are off by {found['held_out']:.1%}"
    share = found["beyond_row_mean"]
    beside = "" if share is None else f" ({share:.2f} of the error of the row's mean)"
    return (
        f"soft-impute, scale {found['scale']}, p {found['p']:g}: {error}{beside}, row maxima move by "
        f"{found['row_max_bias']:+.2g}, {found['best_kept']:.0%} of the best actions stay"
    )


def _overestimation(found: dict[str, Any] | None) -> str:
    if found is None:
        return (
            "overestimation is not known: no state was followed long enough, until what comes after weighs 1% in its "
            "return. More --states help, unless episodes are cut before."
        )
    return (
        f"best values {found['value']:.3g}, discounted returns {found['gained']:.3g}: overestimation "
        f"{found['optimism']:+.2g} over {found['states']:,} states"
    )
