# Two commands do all the set-up: `make demo` and `make test`. Nothing outside this folder is touched.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: demo test test-all bench bench-difficulty bench-search bench-serve bench-cluster race reproduce reproduce-small difficulty docs linkcheck lint clean

.venv/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[all]'
	@touch $@

.venv/.dev: .venv/.demo
	$(PIP) -e '.[dev,docs]'
	@touch $@

demo: .venv/.demo
	$(BIN)/vicinal demo --splits 3 --out demo

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.docstrings

test: lint
	$(BIN)/python -m pytest -m "not slow" -n 2
	rm -rf docs/generated/api
	$(BIN)/sphinx-build -W --keep-going -q -b html docs site

# Also prints which share of the lines the slow tests ran, and writes htmlcov/. There is no lower limit. The compiled
# kernels are left out, since coverage cannot see their lines. From Python 3.12 on this takes at most a tenth more time;
# Python 3.11 has no cheap way to measure, so it is left out there.
COVERAGE = --cov --cov-report=term:skip-covered --cov-report=html
MEASURE = $(shell $(BIN)/python -c "import sys; print('$(COVERAGE)' * (sys.version_info >= (3, 12)))")
test-all: .venv/.dev reproduce-small
	COVERAGE_CORE=sysmon $(BIN)/python -m pytest -m slow -n 2 $(MEASURE)

# The same for the fast tests, with any version of Python. Slower than `make test`.
.PHONY: coverage
coverage: .venv/.dev
	$(BIN)/python -m pytest -m "not slow" -n 2 $(COVERAGE)

# The paper's tables and figures. DATA is a folder with outputs/, regression/, cifar100/ and cifar10/.
DATA ?= data
reproduce: .venv/.dev
	$(BIN)/python -m experiments all --data $(DATA) --out experiments/results/reproduction --page docs/explanation/reproduction.md

# All steps of the reproduction on small made-up data. Its numbers mean nothing.
reproduce-small: .venv/.dev
	rm -rf build/small build/reproduce-small
	$(BIN)/python -m experiments.make_small build/small
	$(BIN)/python -m experiments all --small --data build/small --trained build/small/trained --out build/reproduce-small

# What neighbors that are as hard gain: the tables and the figure of docs/explanation/difficulty.md.
difficulty: .venv/.dev
	$(BIN)/python -m experiments.difficulty $(DATA) --page
	$(BIN)/python -m experiments.oracle $(DATA) --page

bench: .venv/.dev
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/tuning.py
	$(BIN)/python benchmarks/files.py

bench-difficulty: .venv/.dev
	$(BIN)/python benchmarks/difficulty.py

bench-serve: .venv/.dev
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/drift.py

bench-cluster: .venv/.dev
	$(BIN)/python benchmarks/cluster.py

bench-search: .venv/.dev
	$(BIN)/python benchmarks/search.py

race: .venv/.dev
	$(BIN)/python benchmarks/race.py
	$(BIN)/python benchmarks/growth.py

docs: .venv/.dev
	rm -rf docs/generated/api
	$(BIN)/sphinx-build -W --keep-going -b html docs site

# Links to other sites, which needs a network.
linkcheck: .venv/.dev
	$(BIN)/sphinx-build -b linkcheck -D plot_gallery=0 docs build/linkcheck

clean:
	rm -rf .venv site demo build dist docs/generated
