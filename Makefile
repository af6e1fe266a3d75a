# Two commands do everything: `make repro` and `make test`. Both first create the environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help env repro test test-long bench bench-quick lint types imports use doctor relock clean-progress tools dist docs

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

env: $(READY)  ## create the environment in .venv

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "referee: error: $(PYTHON) is older than 3.11; run: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pipeline.encoders.torchvision_ops --install
	@touch $@

repro: env  ## run the pipeline, from images to figures
	@referee check
	@dvc repro
	@referee summary

test: env lint types imports  ## run lint, types, import rules and all tests but the long ones
	@# three processes for two cores, as some tests wait for servers and clusters
	pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

test-long: tools  ## run the long tests (an hour or more): every suite on small image sets, kills, bit flips, fuzzing, clusters
	pytest -m long --numprocesses 2 --dist loadfile

bench: env  ## measure speed and memory as ratios (half an hour): a table and results/benchmarks.json
	@python -m benchmarks.run

bench-quick: env  ## the same on smaller sizes, in minutes
	@python -m benchmarks.run --quick

lint: env
	ruff check .
	ruff format --check .
	@! git ls-files --cached --ignored --exclude-standard 2>/dev/null | grep . || { echo "git tracks what .gitignore names" >&2; exit 1; }

types: env
	mypy

imports: env
	lint-imports

use: env  ## copy a suite to suite.yaml: make use SUITE=office31
	@referee use $(SUITE)

doctor: env  ## check what is there and what is missing
	@referee doctor

relock: env  ## rewrite constraints.txt from .venv
	@{ sed -n '/^#/p;/^torch==/p' constraints.txt; pip freeze --exclude-editable | \
		grep -Ev '^(torch|pip|setuptools|font[a-z-]*)(==| @)' | sort -f; } > .constraints.partial
	@mv .constraints.partial constraints.txt

tools: env
	@pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dist,docs]'

dist: tools  ## build the wheel in dist/ and check it
	rm -rf dist
	pip wheel --quiet --no-deps --wheel-dir dist .
	twine check --strict dist/*.whl

clean-progress:  ## delete the progress of interrupted extractions (safe: costs time, never results)
	rm -rf .referee/progress

docs: tools  ## build the documentation site in build/docs; a warning is an error
	sphinx-build --quiet --fail-on-warning --keep-going -c docs/site . build/docs
	@echo build/docs/index.html
