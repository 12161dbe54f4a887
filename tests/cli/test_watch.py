from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, ImageSequence

from svrl.cli.watch import SMALLEST, framed


def test_a_gif_of_a_game(svrl_json, trained_minatar, tmp_path):
    film = tmp_path / "game.gif"
    row = svrl_json("watch", trained_minatar, "--out", film, "--episodes", 2, "--fps", 10)
    assert len(row["scores"]) == 2
    with Image.open(film) as picture:
        frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(picture)]
        assert picture.info["duration"] >= 100
    # A viewer joins pictures that are the same, and shows them for longer.
    assert 1 < len(frames) <= row["frames"]
    assert min(frames[0].shape[:2]) >= SMALLEST
    strips = {frame[:28].tobytes() for frame in frames}
    assert len(strips) > len(frames) // 2, "the line above the picture counts the steps"
    assert list(tmp_path.iterdir()) == [film]


def test_an_mp4_of_a_game(svrl_json, trained, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    film = tmp_path / "game.mp4"
    row = svrl_json("watch", trained, "--out", film, "--max-steps", 20, "--fps", 20)
    assert row["frames"] == 21
    frames, seconds = ffmpeg.count_frames_and_secs(str(film))
    assert frames == 21
    assert seconds == pytest.approx(21 / 20, abs=0.1)


@pytest.mark.parametrize("shape", [(10, 10), (84, 84), (210, 160), (401, 603)])
def test_pictures_are_enlarged_whole_and_have_even_sides(shape):
    picture = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    film = framed(picture, "score 12")
    assert film.width % 2 == film.height % 2 == 0
    assert min(film.size) >= SMALLEST
    times = film.width // shape[1]
    shown = np.asarray(film)[28 : 28 + shape[0] * times : times, : shape[1] * times : times]
    np.testing.assert_array_equal(shown, picture)
    words = np.asarray(film)[:28]
    assert (words.max(-1) > 200).any(), "the score is burned in"
    assert not np.array_equal(words, np.asarray(framed(picture, "score 13"))[:28])


def test_nothing_but_the_answer_reaches_the_terminal(svrl_json, plain, tmp_path):
    pytest.importorskip("pygame")
    svrl_json(
        "train",
        "CartPole-v1",
        "--preset",
        "smoke",
        "--steps",
        80,
        "--threads",
        1,
        "--device",
        "cpu",
        "--out",
        tmp_path / "run",
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("SDL_", "XDG_"))}
    film = ["watch", str(tmp_path / "run"), "--out", str(tmp_path / "film.gif"), "--max-steps", "2"]
    done = subprocess.run([sys.executable, "-m", "svrl", *film], env=bare, capture_output=True, text=True, check=True)
    assert done.stderr == ""
