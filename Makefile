# `make` lists the targets. Each one that needs the environment sets it up first.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help env user-env demo test test-all check check-all generated docs clean

BIN := .venv/bin
# One test process per core, at most 8; each computes on one thread.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n > 8 ? 8 : n)))
# A file's tests stay in one process, so that what they share is built once.
PYTEST = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
ARGS ?=

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

env: ## make or update .venv, with what the tests need (PYTHON=python3.12, TORCH=system choose)
	@scripts/install.sh tests

user-env: ## the same without what only the tests need
	@scripts/install.sh

demo: user-env ## the whole pipeline on the synthetic corpus; tables in demo/
	$(BIN)/python scripts/demo.py --out demo $(ARGS)

check: env ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

check-all: check ## check, then known weaknesses of the pinned versions (needs the network)
	$(BIN)/pip-audit --strict --disable-pip --no-deps -r requirements.txt

test: check ## check, then the test suite without the long experiments (ARGS='-k name' for a part)
	$(PYTEST) -m "not long" --durations 10 $(ARGS)

test-all: check ## everything, long experiments included
	$(PYTEST) --durations 10 $(ARGS)

generated: env ## what follows from code and results/ anew: table of results, pages, figures
	$(BIN)/python scripts/results.py
	$(BIN)/python scripts/pages.py
	$(BIN)/python scripts/figures.py

docs: env ## the documentation as a site, in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove what the commands above wrote, but not .venv
	rm -rf demo build ./*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find gtrans scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +
