"""What is wrong on a command line is answered by one sentence and exit code 2, and nothing is written."""

from __future__ import annotations

import shlex
import shutil

import pytest

SEE = "--help shows all options."
WRONG = {
    "plan": """
        inverted-pendulm                                      | Did you mean inverted-pendulum?
        toy --method svq                                      | Did you mean svp?
        toy --estimator softimpute                            | Did you mean soft-impute?
        mountain-car --variant author                         | Did you mean authors?
        mountain-car --states abc                             | --states must look like 50x50
        mountain-car --states 50                              | square
        cart-pole --states 1000                               | 4th power
        three-motor-pendulum --actions 100                    | --actions of three-motor-pendulum is a cube
        mountain-car --actions 0                              | --actions must be at least 1
        toy --observe 0                                       | --observe is a share of the pairs in (0, 1], got 0.0.
        toy --iterations 0                                    | --iterations must be at least 1
        toy --method value-iteration --observe 0.2            | no option observe
        toy --estimator usvt --rank 3                         | usvt finds its rank itself: leave rank out
        toy --method averaged --sample-noise -1               | --sample-noise must be at least 0
        toy --sample-noise 1                                  | svp needs exact backups
        toy --method averaged-svp                             | --sample-noise is needed
        toy --variant paper                                   | --variant belongs to the control tasks
        mountain-car --time-step 0                            | time_step
        mountain-car --reward-offset 1e308                    | none may be above 1e+30. Rescale the reward
        mountain-car --reward-offset 1e10                     | hardly tells apart
        toy --method averaged-svp --sample-noise 1e200        | noise level of 0 to 1e+30, got 1e+200
        toy --device gpu                                      | There is no device 'gpu'. Use cpu, cuda or cuda:N.
        toy --device cuda:77                                  | cuda:77 is not available: torch finds
        toy --threads 0                                       | --threads must be between 1 and 1024, got 0.
        toy --states 50 --actions 10 --observe 0.01           | Observe at least 0.1
        toy --rank 1.5                                        | --rank is a whole number below 10^19
        toy --seed 9.3e18                                     | --seed is a whole number from 0 to 2^63 - 1
        toy --observe much                                    | Invalid value for '--observe': SEE
        toy --nois 1                                          | No such option: --nois SEE
        toy inverted-pendulum                                 | unexpected extra argument SEE
    """,
    "train": """
        CartPole-v1 --agent duelling                          | Did you mean dueling?
        CartPole-v1 --preset smok                             | Did you mean smoke?
        CartPole-v1 --estimator softimpute                    | Did you mean soft-impute?
        CartPole-v1 --scale rows                              | Did you mean row?
        CartPole-v1 --observe 0                               | Error: --observe
        CartPole-v1 --learn-from 3                            | --learn-from must be at least the batch size
        CartPole-v1 --hidden axb                              | --hidden must look like 128x128
        CartPole-v1 --steps 0                                 | Error: --steps
        CartPole-v1 --steps many                              | as in 200000 or 2e5; got 'many'.
        CartPole-v1 --steps 1e999999999                       | --steps is a whole number
        CartPole-v1 --threads 0                               | --threads must be between 1 and
        CartPole-v1 --seeds 0                                 | '--seeds': Input should be greater SEE
        CartPole-v1 --seed -1                                 | '--seed' SEE
        CartPole-v1 --device cuda:77                          | cuda:77 is not available
        CartPole-v1 --precision bf16                          | --precision bf16 needs a GPU: add --device cuda
        CartPole-v1 --env-threads 2                           | --env-threads belongs to atari/GAME
        CartPole-v1 --seeds 2 --together 2 --wandb mine       | give --together 1
        CartPole-v1 --agents dqn,sv-ddqn                      | Did you mean sv-double?
        CartPole-v1 --agents dqn,dqn                          | --agents is a list of different agents
        CartPole-v1 --agents dqn --structured                 | --agents says which agents
        CartPole-v1 --agent sv-dqn                            | mean --agent dqn --structured?
        CartPole-v1 --agent ddqn                              | Did you mean double?
        CartPole-v1 --checkpoint-every 0                      | --checkpoint-every must be more than 0 seconds, got 0
        CartPole-v1 --resume                                  | no run to resume
        CartPole-v1 --wandb mine                              | pip install "svrl[wandb]"
        CartPole-v1 --network nature                          | nature
        CartPole-v1 --observe 0.5                             | --observe belongs to structured agents: add --structured
        CartPole-v1 --rank 3 --agents dqn,double              | --rank belongs to structured agents: add one that begins
        CartPol-v1                                            | CartPole-v1
        Pendulum-v1                                           | discrete
        minatar/breakot                                       | breakout
        control/mountain-cart                                 | mountain-car
        atari/brekout                                         | breakout
    """,
    "eval": """
        RUN --episodes 0                                      | --episodes must be at least 1
        RUN --epsilon 1.5                                     | --epsilon is a probability
        RUN --device gpu                                      | Use cpu, cuda or cuda:N
    """,
    "rank": """
        RUN --batches 0                                       | --batches must be at least 1
        RUN --batch-size 600 --states 500                     | needs as many different --states
        RUN --energy 1                                        | --energy is a share between 0 and 1
        RUN --plot rank.txt                                   | --plot must end in .png
        RUN --plot nodir/x/rank.png                           | --plot nodir/x/rank.png: the folder nodir/x does not
        RUN --plot /proc/rank.png                             | Give another place: --plot FILE.
        RUN --device gpu                                      | Use cpu, cuda or cuda:N
    """,
    "watch": """
        RUN --out film.avi                                    | must end in .mp4 or .gif
        RUN --out nodir/x/film.gif                            | nodir/x/film.gif: the folder nodir/x does not exist.
        RUN --out /proc/film.gif                              | /proc/film.gif:
        RUN --out film.gif --episodes 0                       | --episodes must be at least 1
        RUN                                                   | Missing option '--out' SEE
    """,
    "complete": """
        holes.npy --method softimpute                         | Did you mean soft-impute?
        holes.npy --centre rows                               | Did you mean row?
        holes.npy --method hard-impute                        | --rank
        holes.npy --method usvt --rank 3                      | usvt has no --rank; it belongs to factor-als,
        holes.npy --method soft-impute --shrinkage -1         | above 0
        holes.npy --method soft-impute --tolerance 0          | tolerance above 0
        holes.npy --rank 0                                    | between 1 and
        holes.npy --rank 26                                   | shorter side of the matrix, 25
        holes.npy --seed 99999999999999999999999              | '--seed' SEE
        holes.npy --plot p.doc                                | --plot must end in .png
    """,
    "runs": """
        holes.npy                                             | holes.npy is not a folder
        nowhere                                               | nowhere is not a folder
    """,
    "": """
        plann                                                 | Did you mean 'plan'? svrl SEE
        --versio                                              | No such option SEE
        paper lis                                             | Did you mean 'list'? SEE
        plan                                                  | Missing argument 'TASK' SEE
        bench                                                 | run python -m benchmarks matrix in a checkout
        bench update --quick --device cuda                    | run python -m benchmarks update --quick --device cuda in
    """,
}
OUT = {"plan": ("--out", "run"), "train": ("--out", "run"), "complete": ("--out", "o.npy")}
CASES = [
    (command, *(part.strip() for part in line.split("|")))
    for command, lines in WRONG.items()
    for line in lines.strip().splitlines()
]


@pytest.mark.parametrize(("command", "options", "words"), CASES, ids=lambda text: text.replace("/", "-"))
def test_bad_input_gets_one_sentence(svrl, request, tmp_path, monkeypatch, holes, command, options, words):
    if "RUN" in options:
        shutil.copytree(request.getfixturevalue("trained"), tmp_path / "RUN")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("svrl.agents.study.rank_study", lambda *_, **__: pytest.fail("worked before it looked"))
    before = sorted(tmp_path.rglob("*"))
    result = svrl(*command.split(), *shlex.split(options), *OUT.get(command, ()))
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert "/.rank-" not in result.stderr, "the name of a temporary file"
    for part in words.split("SEE"):
        assert part.strip() in result.stderr
    assert ("SEE" in words) == (SEE in result.stderr)
    assert sorted(tmp_path.rglob("*")) == before


COMMANDS = {
    "plan": ("plan", "toy", "--states", 40, "--actions", 5, "--iterations", 2, "--threads", 1),
    "train": ("train", "CartPole-v1", "--preset", "smoke", "--hidden", 32, "--threads", 1),
    "complete": ("complete", "holes.npy"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_places_that_cannot_be_written(svrl, tmp_path, monkeypatch, holes, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for out in (
        ("file", "file/deep", "full", "/proc/run") if command != "complete" else ("no/o.npy", "full", "holes.npy")
    ):
        result = svrl(*COMMANDS[command], "--out", out)
        assert result.exit_code == 2, out
        assert result.stderr.count("\n") == 1, result.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "full" / "thesis.txt").read_text() == "mine"
