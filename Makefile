# Every target does its own set-up: a virtual environment in .venv with the versions of constraints.txt.
# A second call finds the environment as it is and goes straight to work.
PYTHON ?= $(firstword $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p; done))
VENV := .venv
BIN := $(VENV)/bin
# modules are compiled once, not in every process of the tests
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test browser coverage test-portable test-slow lint docs bench wheel clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

demo: $(VENV)/.plots  ## the main job on embedded data, with a report in demo-report/
	$(BIN)/cbdl demo

# Real tables and images: CBDL_DATA names their folder. A clone beside a folder "shared" that holds them finds them there;
# without them the tests that need them are skipped.
ifndef CBDL_DATA
ifneq ($(wildcard ../shared/data),)
test coverage test-portable test-slow: export CBDL_DATA := $(abspath ../shared/data)
endif
endif

# One more than two cores: some tests wait for Ray, for a browser, for workers that are to die.
workers ?= 3

test: $(VENV)/.dev  ## tests and doctests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(workers) --dist worksteal -q

browser: $(VENV)/.browser  ## what tests of pages need: Chromium, axe and the Nu checker; without it they are skipped

coverage: $(VENV)/.dev  ## the same with the lines that no test reaches; a third slower
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(workers) --dist worksteal -q --cov --cov-report=term

# Other processors, imitated: what torch, MKL and OpenBLAS may use, and how many threads. kinds="old zen" picks some.
# LOOPS=always: compiled loops also for the small sets of tests.
# Several threads and several workers at once would wait for each other: ten minutes instead of a few.
kinds ?= old haswell zen threads
old := ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 OPENBLAS_CORETYPE=Sandybridge OMP_NUM_THREADS=1
haswell := ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=2
zen := ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Zen OMP_NUM_THREADS=1 LOOPS=always
threads := OMP_NUM_THREADS=4
NUMBERS := tests/credal tests/bayes tests/store tests/evaluate tests/nets tests/test_model.py tests/test_prediction.py

test-portable: $(addprefix portable-,$(kinds))  ## the tests of numbers as other machines would run them

portable-%: $(VENV)/.dev
	@echo "As another machine ($*): $($*)"
	TRIALS=0.2 $($*) $(BIN)/python -m pytest -n $(if $(findstring THREADS=1,$($*)),2,0) --dist loadfile -q -p no:cacheprovider $(NUMBERS)

test-slow: $(VENV)/.dev $(VENV)/.ray-serve  ## statistical checks that take minutes, and properties with all their examples
	$(BIN)/python -m pytest -q -m slow
	OMP_NUM_THREADS=1 TRIALS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q --hypothesis-profile=explore tests/credal tests/evaluate

lint: $(VENV)/.dev  ## ruff (lint and format), mypy in strict mode, hadolint where it exists
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/mypy
	test ! -x $(BIN)/hadolint || $(BIN)/hadolint Dockerfile

docs: $(VENV)/.docs  ## the documentation, in docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/.bench  ## ratios against peers, both sides in one run
	$(BIN)/python -m benchmarks $(only)

wheel: $(VENV)/.dev  ## the package as users install it: built, checked, imported in an empty environment
	$(PIP) build twine
	rm -rf dist && $(BIN)/python -m build --quiet --installer pip
	$(BIN)/twine check --strict dist/*
	rm -rf build/empty && $(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build/empty && bin/python -c "import cbdl; print('cbdl', cbdl.__version__, 'from', cbdl.__file__)" && bin/cbdl demo --quick

clean:  ## remove everything that was made
	rm -rf $(VENV) docs/_build build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "cbdl needs Python 3.11 or newer, and none was found: install it, or say make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cbdl needs Python 3.11 or newer; $(PYTHON) is older: say make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

# One stamp an extra: .dev holds the packages of the extra "dev", and so on.
$(VENV)/.dev $(VENV)/.docs $(VENV)/.plots $(VENV)/.ray-serve: $(VENV)/.%: $(VENV)/.core
	$(PIP) -e ".[$*]"
	@touch $@

# Debian's Chromium and its driver, unless they are there; what checks pages in it goes beside the environment.
$(VENV)/.browser: | $(VENV)/bin/python
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; }
	npm install --silent --no-fund --no-audit --prefix $(VENV)/browser axe-core@4.14.0 vnu-jar@26.9.27
	@touch $@

# bayesian-torch asks for packages that it does not need here.
$(VENV)/.bench: $(VENV)/.core
	$(PIP) -e ".[bench]"
	$(PIP) --no-deps bayesian-torch==0.5.0
	@touch $@
