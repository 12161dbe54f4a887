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
        mountain-car --variant author                         | Did you mean authors?
        mountain-car --states abc                             | --states is one whole number, or one for each axis
        mountain-car --actions 0                              | --actions must be at least 1
        toy --p 0                                       | --p is a share of the pairs in (0, 1], got 0.0.
        toy --method value-iteration --p 0.2            | no option p
        toy --estimator usvt --rank 3                         | usvt finds its rank itself: leave rank out
        toy --method averaged-svp                             | --sample-noise is needed
        toy --variant paper                                   | --variant belongs to the control tasks
        mountain-car --reward-offset 1e308                    | the limit is 1e+30. Rescale the reward
        toy --method averaged-svp --sample-noise 1e200        | noise level of 0 to 1e+30, got 1e+200
        toy --device gpu                                      | There is no device 'gpu'. Use cpu, cuda or cuda:N.
        toy --device cuda:77                                  | cuda:77 is not available: torch finds
        toy --threads 0                                       | '--threads' SEE
        toy --rank 1.5                                        | '--rank': It is a whole number below 10^19 SEE
        toy --seed 9.3e18                                     | --seed is a whole number from 0 to 2^63 - 1
        toy --nois 1                                          | No such option: --nois SEE
        toy inverted-pendulum                                 | unexpected extra argument SEE
    """,
    "train": """
        CartPole-v1 --agent duelling                          | Did you mean dueling?
        CartPole-v1 --agent ddqn                              | Did you mean double?
        CartPole-v1 --preset smok                             | Did you mean smoke?
        CartPole-v1 --scale rows                              | Did you mean row?
        CartPole-v1 --learning-starts 3                            | --learning-starts must be at least the batch size
        CartPole-v1 --hidden axb                              | --hidden must look like 128x128
        CartPole-v1 --steps many                              | as in 200000 or 2e5; got 'many'. SEE
        CartPole-v1 --steps 1e999999999                       | '--steps': It is a whole number SEE
        CartPole-v1 --seeds 0                                 | '--seeds' SEE
        CartPole-v1 --precision bf16                          | --precision bf16 needs a CUDA device
        CartPole-v1 --precision bf17                          | Did you mean bf16?
        CartPole-v1 --seeds 2 --together 2 --wandb mine       | give --together 1
        CartPole-v1 --agents dqn,sv-ddqn                      | Did you mean sv-double?
        CartPole-v1 --agents dqn,dqn                          | --agents is a list of different agents
        CartPole-v1 --agents dqn --structured                 | --agents says which agents
        CartPole-v1 --checkpoint-every 0                      | --checkpoint-every must be more than 0 seconds, got 0
        CartPole-v1 --resume                                  | no run to resume
        CartPole-v1 --wandb mine                              | pip install "svrl[wandb]"
        CartPole-v1 --network natur                           | --network is one of nature, minatar, mlp, or your own
        CartPole-v1 --network nowhere:make                    | there is no module nowhere. Install it, or add its
        CartPole-v1 --network a:b --agent dueling             | --head dueling is for svrl's networks
        CartPole-v1 --network a:b --hidden 64                 | --hidden is for svrl's networks, and a:b is your own
        CartPole-v1 --network a:b --layer-norm                | --layer-norm is for svrl's networks. Put nn.LayerNorm
        CartPole-v1 --head-rank 3                             | --head-rank belongs to low-rank heads: add --head
        CartPole-v1 --agents dqn,lowrank --head low-rank      | --head makes two of the --agents the same
        CartPole-v1 --agent lowrank --head dueling            | --agent lowrank has head low-rank, got head dueling
        control/inverted-pendulum --head additive             | needs actions of two or more numbers
        CartPole-v1 --p 0.5                             | --p belongs to structured agents: add --structured
        CartPole-v1 --rank 3 --agents dqn,double              | --rank belongs to structured agents: add one that begins
        CartPol-v1                                            | CartPole-v1
        minatar/breakot                                       | breakout
        control/mountain-cart                                 | mountain-car
    """,
    "eval": """
        RUN --episodes 0                                      | '--episodes' SEE
        RUN --epsilon 1.5                                     | '--epsilon' SEE
        RUN --device gpu                                      | Use cpu, cuda or cuda:N
        RUN --network a:b                                     | The agent has network mlp, which is svrl's. Leave
    """,
    "rank": """
        RUN --batch-size 600 --states 500                     | needs as many different --states
        RUN --energy 1                                        | --energy is a share between 0 and 1
        RUN --plot rank.txt                                   | rank.txt must end in .png
        RUN --plot nodir/x/rank.png                           | nodir/x/rank.png: No such file or directory.
        RUN --plot /proc/rank.png                             | /proc/rank.png:
    """,
    "watch": """
        RUN --out film.avi                                    | film.avi must end in .mp4, .gif
        RUN --out nodir/x/film.gif                            | nodir/x/film.gif: No such file or directory.
        RUN --out folder.gif                                  | folder.gif: Is a directory.
        RUN                                                   | Missing option '--out' SEE
    """,
    "complete": """
        holes.npy --method softimpute                         | Did you mean soft-impute?
        holes.npy --centre rows                               | Did you mean row?
        holes.npy --method hard-impute                        | --rank
        holes.npy --method usvt --rank 3                      | usvt has no --rank; it belongs to factor-als,
        holes.npy --method soft-impute --shrinkage -1         | above 0
        holes.npy --rank 26                                   | shorter side of the matrix, 25
        holes.npy --plot p.doc                                | p.doc must end in .png
    """,
    "runs": """
        holes.npy                                             | holes.npy is not a folder
        nowhere                                               | nowhere is not a folder
    """,
    "sweep": """
        run paper-75                                          | There is no sweep 'paper-75'. Did you mean paper-57?
        run batch-size --set stpes=3                          | svrl train has no option 'stpes'. Did you mean steps?
        run batch-size --set steps                            | --set is NAME=VALUE, as in --set seed=0; got 'steps'.
        run batch-size --where seed=9                         | has no run with seed=9.
        run batch-size --on rays                              | There is no engine 'rays'. Did you mean ray?
        run paper-control --set device=cuda                   | torch finds no CUDA device here
        run paper-control --checkpoint-every 0                | --checkpoint-every must be a number above 0, got 0.0.
        run paper-control --hours 0                           | --hours must be a number above 0, got 0.0.
        export paper-control --rows games --out x.csv         | There are rows of results,
        retry paper-control                                   | Say which runs to try again: --failed
        status batch-size --store s3://bucket/x               | A store is a folder, which several machines may share
        status --store holes.npy                              | holes.npy is a file, and a store is a folder. Give
    """,
    "paper": """
        run fig31                                             | no figure or experiment 'fig31'. Did you mean fig
        run fig1 --scale huge                                 | There is no scale 'huge'
        run fig1 --format gif                                 | There is no format 'gif'. Choose one of pdf, png, svg.
        --scale laptop check                                  | --scale stands before check
        report --out holes.npy/report                         | holes.npy/report: Not a directory.
        check --store holes.npy                               | holes.npy is a file
        lis                                                   | Did you mean 'list'? SEE
    """,
    "": """
        plann                                                 | Did you mean 'plan'? svrl SEE
        --versio                                              | No such option SEE
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
    (tmp_path / "folder.gif").mkdir()
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
    "train": ("train", "CartPole-v1", "--preset", "smoke", "--device", "cpu", "--hidden", 32, "--threads", 1),
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
