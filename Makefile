# One command does all the set-up it needs: `make demo` or `make test` on a fresh clone is enough.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

SEED ?= 1
DEMO_ARGS ?=
NAME ?=
TEST_ARGS ?=
# Test files side by side, each in one of so many processes.
TEST_WORKERS ?= auto --maxprocesses=4

VENV := .venv
PY := $(VENV)/bin/python
PACKAGES := common rubrics stage_bank client server deploy tools
CODE := $(PACKAGES) tests

export FLWR_TELEMETRY_ENABLED := 0
export FLWR_DISABLE_UPDATE_CHECK := 1
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: help setup prepare demo test test-full check format bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(VENV)/.stamp: constraints.txt pyproject.toml tools/setup.sh
	@tools/setup.sh $(VENV)
	@touch $@

setup: $(VENV)/.stamp ## virtual environment with the pinned packages (the other targets do this themselves)

prepare: setup ## the cold-started policy and the held-out suites, cached under .cache/ by the digest of their inputs
	@$(PY) -m deploy.prepare

demo: setup ## three hospitals train one agent on this machine: make demo [SEED=1]
	@$(PY) -m deploy.demo --seed $(SEED) $(DEMO_ARGS)

test: setup prepare ## the quick tests, under 10 minutes
	$(PY) -m pytest -m "not slow" --dist loadfile -n $(TEST_WORKERS) $(TEST_ARGS)

test-full: setup prepare ## every test; run again to continue where it stopped
	$(PY) -m tools.test_full

check: setup ## format, lint, strict types, import direction
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/mypy $(PACKAGES)
	$(PY) -m tools.check_imports

format: setup ## rewrite the code in the house format
	$(VENV)/bin/ruff format $(CODE)
	$(VENV)/bin/ruff check --fix $(CODE)

bench: setup prepare ## the benchmarks behind docs/benchmarks.md: make bench [NAME=x]
	@$(PY) -m tools.bench $(NAME)

clean: ## remove the environment and the caches; runs/ stays
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
