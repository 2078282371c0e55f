# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -qq
# BLAS threads fight with the test workers for the same cores.
QUIET_BLAS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: demo test lint bench peers docs clean

demo: $(VENV)/.installed
	$(BIN)/decouple demo --output demo-report.html

test: $(VENV)/.installed-dev lint
	$(QUIET_BLAS) $(BIN)/pytest
	@$(BIN)/python -m tests.report.browser

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks --output docs

# Makes an environment for each of the other packages.
peers: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.peers --output docs

# Pages of names that are gone would be warned about.
docs: $(VENV)/.installed-docs
	@rm -rf docs/api
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

$(VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
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

clean:
	rm -rf $(VENV) docs/_build demo-report.html dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
