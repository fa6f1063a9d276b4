# Everything here works from a fresh clone with Python 3.11 or newer and make; uv is used where it is.
PYTHON ?= python3
PORT ?=
BIN := .venv/bin
STAMP := .venv/.set-up
# A shim may be on the path without a uv behind it, so ask it.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo $(BIN)/uv)

# Where bytecode is not kept, each of the many short processes compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test test-all test-slow lint format check clean
.DEFAULT_GOAL := setup

setup: $(STAMP)
	@:

# uv itself may live in the environment that it fills, so packages it does not know stay (--inexact).
$(STAMP): uv.lock pyproject.toml Makefile
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test "$(UV)" = uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@UV_PYTHON_DOWNLOADS=never $(UV) sync --frozen --inexact --quiet --python $(BIN)/python
	@touch $(STAMP)

run: setup
	@exec $(BIN)/python manage.py serve $(if $(PORT),--port $(PORT))

# Three at once on two cores: some tests wait. The slow tests run the migrations and start servers and
# browsers, the longest first.
test: setup
	$(BIN)/pytest -m "not slow" -n 3 --dist loadfile --no-migrations

test-slow: setup
	$(BIN)/pytest -m slow -n 2 --dist loadfile --no-loadscope-reorder --durations 40

test-all: lint test test-slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/djlint templates --lint --quiet

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test

# The database and the keys in var/ stay: they are not made from the sources.
clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf var/static var/static.stamp
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
