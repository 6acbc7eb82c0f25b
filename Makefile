# Two commands do all the set-up: `make demo` and `make test`. Nothing outside this folder is touched.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: demo test test-all bench bench-search bench-serve bench-cluster race reproduce reproduce-small docs linkcheck lint clean

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

test-all: .venv/.dev reproduce-small
	$(BIN)/python -m pytest -m slow -n 2

# The paper's tables and figures: DATA is a folder with outputs/, regression/, cifar100/, cifar10/.
DATA ?= data
reproduce: .venv/.dev
	$(BIN)/python -m experiments all --data $(DATA) --out experiments/results/reproduction --page docs/explanation/reproduction.md

# Every step of it on small made data: the numbers mean nothing.
reproduce-small: .venv/.dev
	rm -rf build/small build/reproduce-small
	$(BIN)/python -m experiments.make_small build/small
	$(BIN)/python -m experiments all --small --data build/small --trained build/small/trained --out build/reproduce-small

bench: .venv/.dev
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/tuning.py
	$(BIN)/python benchmarks/files.py

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
