# A fresh clone needs Python >= 3.11 and make; every target sets up .venv first.

PYTHON ?= python3
DEMO_ARGS ?=
BENCH_ARGS ?=
CALIBRATE_ARGS ?=
MUTATE_ARGS ?= iverson.autograd.engine
PYTEST_ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PINS := requirements/ci.txt
PYTEST := $(PY) -m pytest -n auto $(PYTEST_ARGS)
# Bridges need the other library: test-peers runs their examples.
DOCTEST := $(PYTEST) --doctest-modules src/iverson $(patsubst %,--ignore-glob='*/interop/%*',torch jax dask mpi einops binsparse)

# Workers and the processes that tests start import the same files.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-dask test test-all test-peers test-minimum test-latest lint format stubs packages pictures docs bench calibrate mutate clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-dev  ## run the demo: make demo DEMO_ARGS=--quick
	$(PY) examples/demo.py $(DEMO_ARGS)

demo-dask: $(VENV)/.stamp-peers  ## fit a recommender on a cluster of two workers: make demo-dask DEMO_ARGS=--quick
	$(PY) examples/ratings.py $(DEMO_ARGS)

test: $(VENV)/.stamp-dev  ## run the tests and the examples in docstrings
	$(PYTEST) -m "not peers"
	$(DOCTEST)

test-all: $(VENV)/.stamp-peers  ## run every test at full size, peers included
	IVERSON_TEST_ALL=1 $(PYTEST)
	$(DOCTEST)

test-peers: $(VENV)/.stamp-peers  ## run the tests that need other libraries
	$(PYTEST) -m peers
	$(PYTEST) --doctest-modules $(foreach name,torch jax dask einops binsparse,$(wildcard src/iverson/interop/$(name)*))

test-minimum:  ## run the tests with the oldest versions of what Iverson needs
	$(MAKE) test VENV=.venv-minimum PINS=requirements/minimum.txt

test-latest:  ## run the tests with the newest versions: make test-latest PYTHON=python3.13
	$(MAKE) test VENV=.venv-latest-$(notdir $(PYTHON)) PINS=/dev/null

lint: $(VENV)/.stamp-dev  ## check style, types, import directions, pictures of docs/design and counts that may only fall
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/pyright --pythonpath $(PY)
	$(VENV)/bin/lint-imports
	$(PY) -m tools.pictures --check
	$(PY) -m tools.words --check

format: $(VENV)/.stamp-dev  ## format the code and apply safe fixes
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

stubs: $(VENV)/.stamp-dev  ## write the stubs that follow from tables
	$(PY) -m tools.stubs

packages: $(VENV)/.stamp-dev  ## write the table of packages in CONTRIBUTING.md
	$(PY) -m tools.packages

pictures: $(VENV)/.stamp-venv  ## draw the imports inside packages into the chapters of docs/design
	$(PY) -m tools.pictures

docs: $(VENV)/.stamp-docs  ## build the site into docs/_build; any warning is an error
	$(PY) -m sphinx -W --keep-going -q -b html docs docs/_build

bench: $(VENV)/.stamp-peers  ## measure against the peers: make bench BENCH_ARGS=--quick
	$(PY) -m benchmarks $(BENCH_ARGS)

calibrate: $(VENV)/.stamp-dev  ## measure the thresholds of the cost model: make calibrate CALIBRATE_ARGS=phase_cost
	$(PY) -m benchmarks.calibrate $(CALIBRATE_ARGS)

mutate: $(VENV)/.stamp-dev  ## change a module's guards one by one: make mutate MUTATE_ARGS=iverson.te.elimination.zero_elimination
	$(PY) -m tests.tools.mutate $(MUTATE_ARGS)

clean:  ## remove the environment, caches and build outputs
	rm -rf $(VENV) .venv-* build dist docs/_build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

, := ,
# What a target needs, said before it is fetched.
fetch = @echo '$(VENV): fetches $(1), from PyPI'

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("needs Python 3.11 or newer: make PYTHON=python3.13")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.stamp-dev: $(VENV)/.stamp-venv pyproject.toml $(PINS)
	$(call fetch,what Iverson needs$(,) tests$(,) linters and demos)
	$(PY) -m pip install --quiet --constraint $(PINS) --editable '.[dev,demo]'
	touch $@

$(VENV)/.stamp-peers: $(VENV)/.stamp-dev
	$(call fetch,PyTorch$(,) JAX and other libraries that tests and benchmarks compare with: some GB)
	$(PY) -m pip install --quiet --constraint $(PINS) --editable '.[peers,dask]'
	$(PY) -m pip install --quiet --constraint $(PINS) --editable '.[mpi]' || echo 'mpi4py needs an MPI library, which is not here: what uses it is skipped'
	touch $@

$(VENV)/.stamp-docs: $(VENV)/.stamp-peers
	$(call fetch,Sphinx and its extensions)
	$(PY) -m pip install --quiet --constraint $(PINS) --editable '.[docs]'
	touch $@
