# Everything that a fresh machine with Python 3.11+, git and make needs to work on svrl.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# These want older versions of Gymnasium, pandas and virtualenv than the others.
HEAVY := .venv-integrations
# To compile every module of torch and its kin takes as long as the rest of the installation, and few are ever used.
PIP_ARGS := --quiet --disable-pip-version-check --no-compile
PIP_INSTALL := $(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt
# Those that are used are compiled once, even where the environment forbids to write them: many tests start processes.
export PYTHONDONTWRITEBYTECODE :=
REPRODUCING := docs/reproducing/index.html
# What `make bench` measures.
BENCH ?= matrix planning update train integrations
# One thread a test process: the processes already fill the cores.
TEST_ENV := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MPLBACKEND=Agg

# Not a limit on speed: a test that waits for ever is ended and named, with what it waited for, and the others go on.
IF_STUCK := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

.PHONY: help demo bench test test-slow test-gpu test-integrations check format lint types spelling structure docs fix clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/.demo ## every figure of the paper at smoke scale, and the page with all claims
	@$(BIN)/svrl paper --scale smoke
	@echo "==> open report/index.html in a browser"

bench: $(VENV)/.dev ## svrl and its peers in one run, on the CPU; another choice: make bench BENCH="matrix --quick"
	@$(BIN)/python -m benchmarks $(BENCH)

test: $(VENV)/.dev ## run the tests (without the slow and the GPU ones)
	@echo "==> running the tests"
	@$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal $(IF_STUCK) -m "not slow and not gpu"

test-slow: $(VENV)/.dev ## run the slow tests
	@$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not gpu"

test-gpu: $(VENV)/.dev ## run the tests that need a CUDA device
	@$(BIN)/python -m pytest -m gpu

test-integrations: $(HEAVY)/.ready ## run the tests of RLlib, TorchRL, Tianshou and Ray, in an environment of their own
	@echo "==> running the tests of the integrations"
	@$(TEST_ENV) $(HEAVY)/bin/python -m pytest -n 2 --dist worksteal $(IF_STUCK) -m "not slow and not gpu" \
		tests/integrations/test_contract.py tests/integrations/test_rllib.py tests/integrations/test_rllib_cluster.py \
		tests/integrations/test_tianshou.py tests/integrations/test_torchrl.py tests/integrations/test_pytorch.py \
		tests/integrations/test_examples_of_integrations.py \
		tests/benchmarks \
		tests/runs/test_export.py
	@# One cluster at a time.
	@$(TEST_ENV) $(HEAVY)/bin/python -m pytest $(IF_STUCK) -m "not slow and not gpu" tests/runs/test_ray_engine.py

check: format lint types spelling structure docs ## all checks that are not tests
	@echo "==> all checks passed"

format: $(VENV)/.dev
	@echo "==> format"
	@$(BIN)/ruff format --check .

lint: $(VENV)/.dev
	@echo "==> lint"
	@$(BIN)/ruff check .

types: $(VENV)/.dev
	@echo "==> types"
	@$(BIN)/mypy

spelling: $(VENV)/.dev
	@echo "==> spelling"
	@$(BIN)/codespell

structure: $(VENV)/.dev
	@echo "==> import direction and documented public names"
	@$(BIN)/python -m pytest -q tests/structure

docs: $(VENV)/.dev $(REPRODUCING)
	@echo "==> docs"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The page on the paper and the figures of docs/evidence.md are drawn from the committed tables, not committed themselves.
$(REPRODUCING): $(wildcard results/paper/* src/svrl/paper/*.py src/svrl/paper/*/*.py src/svrl/paper/page.html) | $(VENV)/.dev
	@echo "==> figures and claims of the paper, for the docs (about a minute)"
	@rm -rf $(@D)
	@$(BIN)/python docs/output/evidence_figures.py $(@D)/figures
	@$(BIN)/svrl paper report --scale full --store .no-runs-of-ones-own --out $(@D) >/dev/null

fix: $(VENV)/.dev ## format, and repair what ruff can repair
	@$(BIN)/ruff format --quiet . # first: some of what the next one finds is gone then
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

clean: ## remove caches (numba's too) and built pages, keep the environment
	@find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	@rm -rf site demo docs/reproducing .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "svrl needs Python 3.11 or newer; got $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 2; }
	@echo "==> making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "==> installing svrl and the games into $(VENV) (a minute or two, once)"
	@$(PIP_INSTALL) -e ".[atari,minatar]"
	@touch $@

$(HEAVY)/.ready: pyproject.toml constraints-integrations.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "svrl needs Python 3.11 or newer; got $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 2; }
	@echo "==> installing svrl, Ray, TorchRL and Tianshou into $(HEAVY) (a few minutes, once)"
	@test -d $(HEAVY) || $(PYTHON) -m venv $(HEAVY)
	@$(HEAVY)/bin/python -m pip install $(PIP_ARGS) -c constraints-integrations.txt -e ".[test-heavy]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "==> installing svrl and the tools to test it into $(VENV) (a few minutes, once)"
	@$(PIP_INSTALL) -e .
	@# Meanwhile the other core compiles what many tests would wait for; if that fails, they do.
	@$(BIN)/python tests/compile_kernels.py >/dev/null 2>&1 & \
		$(PIP_INSTALL) -e ".[dev]" || exit 1; wait
	@# It keeps compiled code, and breaks for good if two processes compile it at the same time.
	@$(BIN)/python -c "import quantecon"
	@touch $@ $(VENV)/.demo
