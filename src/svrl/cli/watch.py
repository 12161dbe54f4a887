"""svrl watch: a film of a trained agent, with the score above the picture."""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svrl.cli.answers import answer, tell, writing_to
from svrl.cli.flags import Json, Seed
from svrl.cli.run_agent import Best, EnvAgain, Epsilon, NetworkAgain, RunFolder, working_with

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

    from svrl.agents.agent import Agent

ENDINGS = (".mp4", ".gif")
MISSING = 'Writing mp4 needs imageio-ffmpeg: pip install "svrl[video]"'
SMALLEST = 320
"""Pixels of a picture's shorter side; smaller ones are enlarged by a whole number."""
RATES = {"atari": 15, "minatar": 10, "control": 20, "gymnasium": 30}
"""Agent steps in a second that look right: Atari shows every fourth of 60 frames."""
_STRIP = 28
_INK, _PAPER = (255, 255, 255), (24, 24, 24)


def watch(
    run: RunFolder,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The film: .mp4 or .gif.")],
    episodes: Annotated[int, typer.Option(min=1, help="Games to show.")] = 1,
    max_steps: Annotated[int, typer.Option(min=1, help="Most agent steps of a game to show.")] = 5_000,
    best: Best = False,
    epsilon: Epsilon = None,
    fps: Annotated[
        int | None, typer.Option(min=1, help="Agent steps in a second (default: by the environment).")
    ] = None,
    seed: Seed = 0,
    env: EnvAgain = None,
    network: NetworkAgain = None,
    as_json: Json = False,
) -> None:
    """Film a trained agent. The film is written only when everything has worked."""
    for part in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
        os.environ.setdefault(part, "dummy")  # nothing is shown or heard, and SDL would say what it misses
    writing_film = _write_gif if out.suffix.lower() == ".gif" else _write_mp4
    scores: list[float] = []
    shown = 0
    with working_with(run, env=env, network=network, best=best) as (agent, show), writing_to(out, ENDINGS) as temporary:
        rate = fps or RATES[agent.spec.family]
        chance = agent.config.eval_epsilon if epsilon is None else epsilon

        def frames() -> Iterator[Image]:
            nonlocal shown
            for picture in played(agent, episodes, max_steps, chance, seed, scores):
                shown += 1
                show(f"game {len(scores) + 1}, {shown} frames")
                yield picture

        writing_film(temporary, frames(), rate)
    result = {"run": str(run), "out": str(out), "env": agent.env, "frames": shown, "fps": rate, "scores": scores}
    answer(result, as_json, _print)


def _print(result: dict[str, Any]) -> None:
    scores = ", ".join(f"{score:g}" for score in result["scores"])
    tell(f"{result['out']}: {result['frames']} frames at {result['fps']} a second, score {scores}")


def played(
    agent: Agent, episodes: int, max_steps: int, epsilon: float, seed: int, scores: list[float]
) -> Iterator[Image]:
    """Pictures of whole games, each cut at `max_steps`; the score of each game is added to `scores`."""
    import torch

    from svrl.agents.evaluation import derived_seed, epsilon_greedy, generator_for
    from svrl.envs.make import make_env
    from svrl.envs.vector import step

    generator = generator_for(seed, "watched actions")
    env_seed = derived_seed(seed, "watched games")
    env = make_env(agent.source, 1, seed=env_seed, render=True, **agent.config.env_options)
    try:
        observations = env.reset()
        for game in range(episodes):
            score, at = 0.0, 0
            while at < max_steps:
                picture = env.render(0)
                yield framed(picture, f"{agent.env}   score {score:g}   step {at}")
                with torch.no_grad():
                    q = agent.network(torch.as_tensor(observations).to(agent.device))
                now = step(env, epsilon_greedy(q, epsilon, generator, env.action_masks))
                observations, score, at = now.observations, score + float(now.rewards[0]), at + 1
                if now.ended[0]:
                    break
            scores.append(score)
            # The environment shows the next game already, so this is the last picture again.
            end = "over" if now.ended[0] else "cut"
            yield framed(picture, f"{agent.env}   game {game + 1} {end}: score {score:g} in {at} steps")
            if not now.ended[0] and game + 1 < episodes:
                observations = env.reset()
    finally:
        env.close()


def framed(picture: np.ndarray, text: str) -> Image:
    """A picture (H, W, 3), enlarged if it is small, with a line of text above it; sides are even, as films need."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = picture.shape[:2]
    times = max(1, -(-SMALLEST // min(height, width)))
    width, height = width * times, height * times
    film = Image.new("RGB", (width + width % 2, _STRIP + height + height % 2), _PAPER)
    film.paste(Image.fromarray(picture).resize((width, height), Image.Resampling.NEAREST), (0, _STRIP))
    pen = ImageDraw.Draw(film)
    size = min(15, max(8, int(15 * (width - 12) / pen.textlength(text, ImageFont.load_default(15)))))
    pen.text((6, _STRIP // 2), text, fill=_INK, anchor="lm", font=ImageFont.load_default(size))
    return film


def _write_gif(path: Path, frames: Iterator[Image], rate: int) -> None:
    from PIL import Image

    # Delays of a gif are hundredths of a second, and less than two are not kept by most viewers.
    delay = 10 * max(2, round(100 / rate))
    palette = (frame.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE) for frame in frames)
    first = next(palette)
    first.save(path, save_all=True, append_images=palette, duration=delay, loop=0)


def _write_mp4(path: Path, frames: Iterator[Image], rate: int) -> None:
    try:
        write_frames = importlib.import_module("imageio_ffmpeg").write_frames
    except ImportError as error:
        raise ValueError(MISSING) from error
    first = next(frames)
    writer = write_frames(str(path), first.size, fps=rate, macro_block_size=2, quality=7, ffmpeg_log_level="error")
    writer.send(None)
    try:
        for frame in itertools.chain([first], frames):
            writer.send(frame.tobytes())
    finally:
        writer.close()
