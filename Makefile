# Everything runs in a virtual environment of its own, .venv, which the first target that needs it sets up.
#
#   make demo                     serve the bundled tiny model and print a request to try
#   make demo PORT=8001           the same on another port
#   make test ARGS="-k lowering"  some of the tests
#   make PYTHON=python3.12 demo   with another Python, 3.10 or newer

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8000
ARGS ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format types matrix newest-codex docs-check benchmark doctor clean

help: ## List these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

install: $(INSTALLED) ## Set up .venv with the plugin, vllm-mlx and the tools (several GB where vllm-mlx needs a CUDA torch)

# The stamp is newer than pyproject.toml only when the last installation went through.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo 'Python 3.10 or newer is needed; name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --editable '.[test,lint]'
	@touch $(INSTALLED)

demo: $(INSTALLED) ## Serve the bundled tiny model on 127.0.0.1 and print a request to try (PORT=8000)
	$(BIN)/python docs/demo.py --port $(PORT)

test: $(INSTALLED) ## Run the tests (ARGS for pytest)
	$(BIN)/python -m pytest $(ARGS)

lint: $(INSTALLED) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED) ## Put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(INSTALLED) ## Check types
	$(BIN)/python .ci/check_types.py

matrix: $(INSTALLED) ## Try every supported release of vllm-mlx (ARGS, see python -m tests.matrix --help)
	$(BIN)/python -m tests.matrix $(ARGS)

newest-codex: $(INSTALLED) ## Run Codex's tests with its newest release, which only warns
	$(BIN)/python -m tests.clients.newest_codex

docs-check: $(INSTALLED) ## Check that the documentation is complete and that its examples run
	$(BIN)/python -m pytest tests/docs $(ARGS)

benchmark: $(INSTALLED) ## Measure what the plugin costs (ARGS, see --help)
	$(BIN)/python -m tests.benchmark $(ARGS)

doctor: $(INSTALLED) ## Tell whether serving would work here
	$(BIN)/python -m responses_plugin doctor

clean: ## Remove the environment and what tools left behind
	rm -rf $(VENV) tests/clients/node_modules build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
