# bagwise: `make help` lists the targets. `make demo` and `make test` need only Python 3.11+ with
# venv: they create .venv and install the requirements into it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Real benchmark data sets, if they are beside the checkout.
DATA := $(abspath $(wildcard ../shared/data))
ifneq ($(DATA),)
export BAGWISE_DATA ?= $(DATA)
endif
# Lets scikit-learn run its array API checks instead of skipping them.
export SCIPY_ARRAY_API = 1
# If it were set, each process would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo newcomer review-kit test test-all test-times test-matrix test-partners test-numerics lint bench reproduce dist docs clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.dev ## Create .venv with all development requirements
	@$(BIN)/pre-commit install 2>/dev/null || true

demo: $(VENV)/.user ## Train on the shipped data, show key instances and the five systems, write a report
	@$(BIN)/python examples/demo.py

newcomer: $(VENV)/.dev ## Test the first steps of a new user: wheel, README, demo, report; screenshots in newcomer/
	$(BIN)/python tools/newcomer.py newcomer

# One process per core, at most four; `make test WORKERS=0` runs the tests in one process.
WORKERS ?= logical
PYTEST = $(BIN)/python -m pytest -q -n $(WORKERS) --maxprocesses 4 --dist worksteal
QUICK := -m "not slow and not network"

test: $(VENV)/.dev ## Run the tests (a few minutes)
	$(PYTEST) $(QUICK)

test-all: $(VENV)/.dev ## Run all tests, including the slow ones
	$(PYTEST) --cpu-times 30

test-times: $(VENV)/.dev ## Run the tests, and list the slowest by wall clock and by CPU seconds
	$(PYTEST) $(QUICK) --durations 30 --cpu-times 30

test-matrix: test-core test-oldest test-newest test-torch test-nojit test-bounds ## Run the tests in all other environments

# Without extras, with the oldest and the newest versions, with torch, without JIT, with bounds checks.
test-core test-oldest test-newest test-torch test-nojit test-bounds: test-%: $(VENV)/.dev
	$(BIN)/python tools/matrix.py $*

test-partners: $(VENV)/.dev ## Run the tests with the real packages of other projects (MAPIE, AnnData, ...)
	$(BIN)/python tools/partners.py

test-numerics: $(VENV)/.dev ## Compare results, and run the numerical tests, on several kinds of processors
	$(BIN)/python -m tools.numerics

lint: $(VENV)/.dev ## Check style, types, spelling and the size of the package
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/python tools/size.py --check
	$(BIN)/python -m tools.passes --check

bench: $(VENV)/.dev ## Measure speed as ratios; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

reproduce: $(VENV)/.dev ## Compare our numbers with published ones
	$(BIN)/python -m benchmarks.published
	$(BIN)/python -m reproduction pdmisvm table1 --quick -o results

review-kit: $(VENV)/.dev ## Check the claims of README beside other packages: claim, measured, verdict (under an hour)
	-$(BIN)/python -m pip install -q "sawmil[osqp]" mikit-learn torchmil scikit-survival mapie
	$(BIN)/python -m benchmarks.review

dist: $(VENV)/.dev ## Build the sdist and the wheel into dist, check them, install them with each extra
	$(BIN)/python tools/release.py dist

docs: $(VENV)/.docs ## Build the documentation into docs/_build
	$(BIN)/python -m sphinx -a -q -W --keep-going docs docs/_build

clean: ## Remove .venv and everything built
	rm -rf $(VENV) .venv-* .cache docs/_build docs/gallery docs/generated
	rm -rf build dist bagwise-demo newcomer results

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "bagwise needs Python 3.11 or newer. Name one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "Python has no venv module here. On Debian: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install -q --upgrade pip
	@touch $@

$(VENV)/.user: $(VENV)/.python pyproject.toml
	@echo "Installing bagwise into $(VENV) ..."
	@$(BIN)/python -m pip install -q -e ".[all]"
	@touch $@

$(VENV)/.dev: $(VENV)/.user pyproject.toml
	@echo "Installing the development requirements into $(VENV) ..."
	@$(BIN)/python -m pip install -q --group dev
	@touch $@

$(VENV)/.docs: $(VENV)/.dev pyproject.toml
	@$(BIN)/python -m pip install -q --group docs
	@touch $@
