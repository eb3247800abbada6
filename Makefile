# `make` alone lists what can be made. Everything is built inside this folder: .venv, .venv-*, .local-model.
# PYTHON=/path/to/python chooses the interpreter (3.11 or later) that the environments are made from.

SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test lint types bench peers docs tool-docs reference pictures local-model integrations clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## watch an agent repair a broken project; no key needed
	@$(VENV)/bin/agent demo $(ARGS)

test: $(VENV)/.installed-dev ## run the tests (ARGS="-k name" goes to pytest, COVERAGE=1 reports what they cover)
	@$(PY) $(if $(COVERAGE),-m coverage run) -m pytest $(ARGS)
	@$(if $(COVERAGE),$(PY) -m coverage report)

lint: $(VENV)/.installed-dev ## ruff: check the code and its format
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

types: $(VENV)/.installed-dev ## mypy --strict on both packages
	@$(PY) -m mypy

bench: PARTS ?= run formats control toolbox $(if $(shell command -v rg),search)
bench: .venv-bench/.installed ## measure the promises of benchmarks/README.md, or some (PARTS="run formats control toolbox search")
	@missed=0; for part in $(PARTS); do \
	    echo "=== $$part"; .venv-bench/bin/python benchmarks/$$part.py || missed=1; \
	done; exit $$missed

peers: .venv-bench/.installed .venv-peers/.installed $(if $(shell command -v npm),.node-peers/.installed) ## measure other frameworks against ours (needs a network, 500 MB and some ten minutes)
	@.venv-bench/bin/python benchmarks/peers.py

docs: $(VENV)/.installed-dev ## run every Python block of the README and of docs/
	@$(PY) -m pytest tests/test_readme.py $(ARGS)

tool-docs: $(VENV)/.installed-dev ## make docs/tools and the snapshots of prompts from the tools as they are
	@$(PY) scripts/make_tool_docs.py

reference: $(VENV)/.installed-dev ## make docs/reference from the signatures and docstrings of the public names
	@$(PY) scripts/make_reference.py

pictures: $(VENV)/.installed-dev ## make the pictures of docs/images from real runs; needs tmux
	@$(PY) scripts/make_pictures.py

local-model: $(VENV)/.installed ## fetch a small model and an engine, for tests and a try without a key (125 MB)
	@$(PY) -m agent.local_model .local-model

integrations: .venv-integrations/.installed ## run the tests against the real other frameworks, in an environment of their own
	@AGENT_REQUIRE_INTEGRATIONS=1 .venv-integrations/bin/python -m pytest tests/integrations -p no:cacheprovider $(ARGS)

clean: ## remove the environments and what tools left behind
	rm -rf .venv .venv-bench .venv-integrations .venv-peers .node-peers .pytest_cache .mypy_cache .ruff_cache dist build

# A stamp is older than pyproject.toml when the dependencies may have changed: only then pip runs again.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "installing steady-agent into $(VENV)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing steady-agent[dev] into $(VENV)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(VENV)/.installed $@

.venv-bench/.installed: pyproject.toml benchmarks/requirements.txt | .venv-bench/bin/python
	@echo "installing the benchmarks' own environment"
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e . -r benchmarks/requirements.txt
	@touch $@

.venv-integrations/.installed: pyproject.toml tests/integrations/requirements.txt | .venv-integrations/bin/python
	@echo "installing the other frameworks into .venv-integrations"
	@.venv-integrations/bin/python -m pip install --quiet --disable-pip-version-check -e . -r tests/integrations/requirements.txt
	@touch $@

.venv-peers/.installed: benchmarks/peer_clients/requirements.txt | .venv-peers/bin/python
	@echo "installing the other frameworks to measure into .venv-peers"
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peer_clients/requirements.txt
	@touch $@

.node-peers/.installed: benchmarks/peer_clients/package.json
	@echo "installing pi, and a Node.js that it runs on, into .node-peers"
	@mkdir -p .node-peers && cp $< .node-peers/
	@npm install --prefix .node-peers --silent --no-audit --no-fund
	@touch $@

%/bin/python:
	@scripts/make_venv.sh $*
