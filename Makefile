# Two commands do everything on a fresh machine: `make bert` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
IMAGE := cpu data hub oci remote sklearn slim tune # extras in the Containerfile's image
SERVER := orun/stages/release/_server
# Where Python is told to write no byte code, as in many containers, each of the thousands of processes of the tests would
# compile orun anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: bert test quick test-slow test-tables lint style types docs lock clean

bert: $(VENV)/ready
	$(BIN)/orun pipelines/bert.yaml

# mypy keeps one core busy for a minute, in which the tests begin.
test: $(VENV)/ready style
	$(MAKE) --no-print-directory -j2 types quick

# Files run in alphabetical order, which begins with the longest. The default, most tests first, ends with files of one
# long test each, while the other worker has nothing to do.
quick: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow and not table"

# Whole pipelines on real models, and campaigns: CI runs them after `make test`.
test-slow: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# Before a release, and after a change to fusion or the checks: one row an architecture, as in docs/benchmarks.md, and
# tests that are much like a slow one.
test-tables: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 -m table

lint: style types

style: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy

# The site, in site/; `.venv/bin/zensical serve` shows it while you write.
docs: $(VENV)/ready
	$(BIN)/zensical build --strict
	cd docs && find . -name '*.md' | xargs tar cf - | tar xf - -C ../site # for llms.txt, whose links name the sources

# PyTorch goes first and by pip, so that the machine's own index decides between its CPU and CUDA builds. pip compiles one
# file after the other; some packages hold files for other versions of Python.
$(VENV)/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile $(TORCH)
	$(BIN)/pip install --quiet --no-compile --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# Needs uv. What the lock leaves out, and why, is said in pyproject.toml under [tool.uv.pip].
lock:
	uv pip compile --quiet pyproject.toml requirements.in --output-file requirements.lock
	uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-annotate \
		--constraint requirements.lock $(foreach extra,$(IMAGE),--extra $(extra)) pyproject.toml requirements-cpu.in \
		--output-file requirements-cpu.lock
	uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--no-emit-package onnxruntime $(SERVER)/requirements.in --output-file $(SERVER)/requirements.lock

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache
