# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -qq
# BLAS threads fight with the test workers for the same cores.
QUIET_BLAS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# What is tested with other versions of Python and of the dependencies: all that needs neither torch nor JAX nor long.
TESTS := $(addprefix tests/,bases model samples solvers fit write report data support cli test_systems.py test_rooms.py)
EXTRAS := onnx,parquet,sklearn,sympy,test
PYTHONS := 3.11 3.12 3.13

.PHONY: demo test check test-oldest test-pythons test-arithmetic lint paper bench peers fuzz hashes docs clean

demo: $(VENV)/.installed
	$(BIN)/decouply demo --report demo-report.html

test: $(VENV)/.installed-dev lint
	$(QUIET_BLAS) $(BIN)/pytest

# What a developer runs after every change, in two minutes: without slow tests and without checks of shapes at run time.
check: $(VENV)/.installed-dev lint
	$(QUIET_BLAS) $(BIN)/pytest -o addopts="--strict-markers -n2 -q" -m "not (slow or processes or torch or docs or robustness)" tests

# With the lowest versions that pyproject.toml allows. Newer helpers of theirs may tell them that they are old.
test-oldest: .venv-oldest/.installed
	$(QUIET_BLAS) .venv-oldest/bin/pytest -p no:cacheprovider -W ignore::DeprecationWarning $(TESTS)

# Where they are installed; the last lines say which were.
test-pythons:
	@$(QUIET_BLAS) EXTRAS=$(EXTRAS) tools/try_pythons.sh "$(PYTHONS)" $(TESTS)

# As other processors would, on a busy machine, in another order. ARGS="tests/fit -n1" are arguments of pytest.
test-arithmetic: $(VENV)/.installed-dev
	@PYTHON=$(BIN)/python tools/other_arithmetic.sh $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/prose.py src
	$(BIN)/mypy

# Table 1, the Silverbox figure and both networks, into results/; resumes. QUICK=1: reduced forms, within ten minutes.
paper: $(VENV)/.installed-dev
	$(BIN)/python -m experiments paper $(if $(QUICK),--quick --directory results/quick)

# Speed alone.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks --output docs/speed

fuzz: DAY = $(or $(SEED),$(shell date +%Y%m%d))
# The long form of tests/robustness, with the seed of the day. SEED=1 repeats one.
fuzz: $(VENV)/.installed-dev
	@$(BIN)/python tools/fuzz.py --page --seed $(DAY); found=$$?; tools/fuzz_readers.sh $(DAY) && exit $$found

# The pins of constraints.txt with checksums, for those who install with --require-hashes.
hashes: $(VENV)/.installed
	@$(BIN)/python tools/hashes.py

# Makes an environment for each of the other packages.
peers: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.peers --output docs/peers

# Pages of names and examples that are gone would be warned about.
docs: $(VENV)/.installed-docs
	@rm -rf docs/reference/api docs/gallery
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@$(BIN)/python tools/check_offline.py docs/_build/html
	@echo "Open docs/_build/html/index.html"

# A Python that is too old is told before anything is made; where it cannot make an environment, no half of one stays.
version = $(shell $(PYTHON) -c 'import platform; print(platform.python_version())' 2>/dev/null)
fits = $(shell $(PYTHON) -c 'import sys; print(sys.version_info >= (3, 11))' 2>/dev/null)
refuse = $(error This needs Python 3.11 or newer, but $(PYTHON) is $(or $(version),not there): name another, such as PYTHON=python3.13)
new_venv = $(if $(filter True,$(fits)),$(PYTHON) -m venv $(1) || { rm -rf $(1); exit 1; },$(refuse))
venv = $(if $(wildcard $(1)/bin/pip),true,$(new_venv))

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(call venv,$(VENV))
	@echo "Installing the package into $(VENV) ..."
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what the tests need ..."
	@$(PIP) -e ".[dev]"
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	@echo "Installing what the docs need ..."
	@$(PIP) -e ".[docs]"
	@touch $@

.venv-oldest/.installed: pyproject.toml tools/lowest.py
	@$(call venv,.venv-oldest)
	@echo "Installing the lowest versions into .venv-oldest ..."
	@.venv-oldest/bin/python tools/lowest.py onnx parquet sklearn sympy > .venv-oldest/lowest.txt
	@echo "pyparsing<3.3" >> .venv-oldest/lowest.txt  # 3.3 warns of how matplotlib before 3.10 uses it
	@PIP_CONSTRAINT=.venv-oldest/lowest.txt .venv-oldest/bin/pip install -qq -e ".[$(EXTRAS)]" onnxruntime
	@touch $@

clean:
	rm -rf $(VENV) .venv-* docs/_build demo-report.html dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
