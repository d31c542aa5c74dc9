# Every target makes the virtual environment it needs, so a fresh clone needs only Python and make.
# The constraint file stands in the same pip command as the package: given later, it would find the
# newest releases (of PyTorch, some gigabytes) already installed.

PYTHON ?= python3
VENV ?= .venv
PYTEST_WORKERS ?= 2
NEWEST ?= python3.13
# Transformers and accelerate: the oldest and the newest that pyproject.toml allows.
RANGE ?= 5.21.1/1.15.0 5.23.0/1.15.0
RANGE_TESTS := tests/unit/training tests/unit/decoding tests/unit/models tests/pretrained \
	tests/invariance/test_resume.py tests/invariance/test_processes.py

BIN := $(VENV)/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check
INSTALL := $(PIP) install -c constraints.txt
SOURCES := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test exhaustive browser kernels lint docs wheel newest range clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/runtime.stamp  ## train, translate, score and report on the embedded corpus
	$(BIN)/iada demo

test: lint  ## run lint, then every test with coverage
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(PYTEST_WORKERS) --dist worksteal -m "not exhaustive and not browser" --cov --cov-report=term --cov-fail-under=90

exhaustive: $(VENV)/dev.stamp  ## run the tests that try every case of what others sample
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(PYTEST_WORKERS) -m exhaustive

browser: $(VENV)/dev.stamp  ## look at the pages in Chromium, installed where that is allowed
	$(INSTALL) -e '.[browser]' || echo "playwright cannot be installed, so these tests are skipped"
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
		|| { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium; } \
		|| echo "Chromium cannot be installed, so these tests are skipped"
	OMP_NUM_THREADS=1 $(BIN)/pytest -m browser -rs

# Triton is a gigabyte on disk, and Transformers imports it wherever it is: an environment of its own,
# which finds everything else in $(VENV).
kernels: $(VENV)/dev.stamp  ## run the kernels for GPUs in Triton's interpreter, and compile them
	$(BIN)/python -m venv --without-pip build/kernels
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" \
		> $$(echo build/kernels/lib/python*/site-packages)/base.pth
	build/kernels/bin/python -m pip --quiet --disable-pip-version-check install -c constraints.txt triton \
		|| echo "Triton cannot be installed, so these tests are skipped"
	PYTHONPATH=src OMP_NUM_THREADS=1 TRITON_INTERPRET=1 build/kernels/bin/python -m pytest -rs \
		tests/unit/method/test_kernel.py

lint: $(VENV)/dev.stamp  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/docs.stamp  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: | $(VENV)/bin/python  ## build the wheel, install it in an empty environment and run it
	rm -rf dist build/wheel
	$(PIP) wheel --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/pip --quiet --disable-pip-version-check install -c constraints.txt dist/iada-*.whl
	cd build/wheel && bin/iada --help
	cd build/wheel && bin/iada recipes
	cd build/wheel && bin/iada demo --updates 20 --methods doc2doc iada_replace_gnorm

newest:  ## run every test on the newest Python (NEWEST=python3.13), in an environment of its own
	$(MAKE) test PYTHON=$(NEWEST) VENV=build/newest

# Each release gets an environment of its own, which finds everything else in $(VENV).
range: $(VENV)/dev.stamp  ## run the tests of training and decoding on the oldest and the newest Transformers
	set -e; for pair in $(RANGE); do \
		place=build/transformers-$${pair%/*}; \
		$(BIN)/python -m venv --without-pip $$place; \
		$(BIN)/python -c "import site; print(site.getsitepackages()[0])" \
			> $$(echo $$place/lib/python*/site-packages)/base.pth; \
		$$place/bin/python -m pip --quiet --disable-pip-version-check install \
			transformers==$${pair%/*} accelerate==$${pair#*/}; \
		PYTHONPATH=src OMP_NUM_THREADS=1 $$place/bin/python -m pytest -n $(PYTEST_WORKERS) \
			--dist worksteal -m "not exhaustive" $(RANGE_TESTS); \
	done

clean:  ## remove the environment, caches and built documentation
	rm -rf $(VENV) site build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/runtime.stamp: $(SOURCES) | $(VENV)/bin/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/dev.stamp: $(SOURCES) | $(VENV)/bin/python
	$(INSTALL) -e '.[cluster,dev,formats,language,pos,pretrained,serve,thresholds,tracking]'
	@touch $@ $(VENV)/runtime.stamp

$(VENV)/docs.stamp: $(SOURCES) | $(VENV)/bin/python
	$(INSTALL) -e '.[docs]'
	@touch $@ $(VENV)/runtime.stamp
