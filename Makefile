# Everything a developer needs; `make help` lists it. Paths are relative: the clone may lie anywhere.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
# Says that .venv holds what the lock file names; made again when one of these two files changes.
INSTALLED := .venv/.installed
ARGS ?=
# Test processes. Two: one for Airflow on SQLite, one for Airflow on PostgreSQL.
JOBS ?= 2

.PHONY: help venv demo test lint format bench mutate lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

venv: $(INSTALLED) ## make .venv from requirements.lock

$(INSTALLED): requirements.lock pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "No $(PYTHON) here. Install Python 3.10 to 3.13, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "$(PYTHON) is $$("$(PYTHON)" -V 2>&1). This project runs on Python 3.10 to 3.13: name one with" \
	       "make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "Installing into .venv ($$("$(PYTHON)" -V); some minutes the first time)"
	@"$(PYTHON)" -m venv .venv || { \
	  echo "Could not make .venv. On Debian and Ubuntu the module is in the package python3-venv." >&2; exit 1; }
	@$(BIN)/python -m pip install -qq --no-input --disable-pip-version-check --no-deps -r requirements.lock
	@$(BIN)/python -m pip install -qq --no-input --disable-pip-version-check --no-deps -e .
	@touch $@

demo: $(INSTALLED) ## train on a real Airflow and the emulator, lose the machine, resume (KEEP=1 leaves it up)
	@exec $(BIN)/python -m tests.harness.demo

test: $(INSTALLED) ## every test except benchmarks (ARGS="-k name" for some of them)
	@exec $(BIN)/python -m pytest -n $(JOBS) --dist loadscope -m "not benchmark" $(ARGS)

lint: $(INSTALLED) ## ruff, mypy (strict) and the import contracts
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## let ruff rewrite what it can
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

bench: $(INSTALLED) ## benchmarks: writes build/bench.json, prints a table (ARGS=import for one of them)
	@exec $(BIN)/python -m tests.benchmarks.run $(ARGS)

mutate: $(INSTALLED) ## mutation tests of the decision table
	@exec $(BIN)/python -m mutmut run

lock: ## write requirements.lock again from pyproject.toml
	@[ -x build/uv/bin/uv ] || { "$(PYTHON)" -m venv build/uv && build/uv/bin/pip install --quiet uv; }
	build/uv/bin/uv pip compile --quiet --universal --python-version 3.10 --extra dev --generate-hashes \
	  --custom-compile-command "make lock" pyproject.toml -o requirements.lock

clean: ## remove everything that was built, .venv too
	rm -rf .venv build dist mutants .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
