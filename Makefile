# SPDX-License-Identifier: GPL-3.0-or-later
# Entry points; noxfile.py defines their sessions.
.DEFAULT_GOAL := help
.PHONY: help demo operator-demo test test-deep bench lint docs site release version generate architecture clean setup pytest mypy lock image
SHELL := /bin/bash
export PATH := $(PATH):$(CURDIR)/.venvs/uv/bin

PYTHON ?= $(shell scripts/find-python)
UV := .venvs/uv/bin/uv
# uv with the index and certificates of pip's configuration
RUN_UV := .venvs/uv/bin/python scripts/registry_settings.py $(UV)
DEVELOPMENT := .venvs/development/.installed
PREDICTOR := .venvs/predictor/.installed
DOCS := .venvs/docs/.installed
GALAXY := .venvs/galaxy-importer/.installed
RUN := .venvs/development/bin/python
NOX := $(RUN) -m nox --no-venv
GATES := $(RUN) -m scripts.gates

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup $(PREDICTOR) ## start the lab, run the main job on it, print the summary
	@$(RUN) -m lab demo

operator-demo: setup $(PREDICTOR) ## start a lab and the operator, let a day pass, print latencies
	@$(RUN) -m lab operator-demo $(ARGS)

test: setup $(PREDICTOR) $(DOCS) $(GALAXY) ## every gate and every test; CI adds pylint and two other versions of ansible-core
	@$(GATES) $(or $(TAGS),test $(if $(CI),ci))

test-deep: setup $(PREDICTOR) ## the tests that take many minutes
	@$(GATES) test-deep

bench: setup $(PREDICTOR) ## measure against peers, write docs/project/performance.md: make bench ARGS="place-*"
	@$(NOX) -s bench -- $(ARGS)

lint: setup $(DOCS) $(GALAXY) ## the gates that need no lab
	@$(GATES) lint

docs: setup $(DOCS) ## check the plugins' documentation
	@$(NOX) -s docs

site: setup $(DOCS) ## build the documentation site in build/site
	@$(NOX) -s site

release: setup $(GALAXY) ## make the files of a release in build/release: make release VERSION=… ARGS="--without image"
	@$(NOX) -s release -- $(VERSION) $(ARGS)

version: setup ## write a version and its notes: make version VERSION=…
	@$(NOX) -s version -- $(VERSION)

generate: setup ## write the forms of each option, and the CRDs, from their tables in scripts/
	@$(NOX) -s generate

architecture: setup ## draw docs/project/architecture.md from the imports between rooms
	@$(NOX) -s architecture

clean: ## remove environments, mirrors, caches and a running lab's state
	@for state in lab/.state lab/.state-operator build/ansible_collections/wattwise/kube/lab/.state; do \
	  if [ -x $(RUN) ] && [ -d $$state ]; then LAB_STATE=$$state $(RUN) -m lab down; fi; \
	done
	rm -rf .venvs build .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis .ansible .coverage .coverage.* htmlcov tests/output

setup: $(DEVELOPMENT)

pytest: setup ## run pytest on the collection: make pytest ARGS="tests/unit -k units"
	@$(NOX) -s pytest -- $(ARGS)

mypy: setup
	@$(NOX) -s mypy

image: $(UV) ## build the container image of operator/: make image ARGS="--image NAME:TAG"
	@.venvs/uv/bin/python -m scripts.build_image $(ARGS)

lock: $(UV) ## renew the locked requirements from the .in files
	@for name in controller development docs galaxy-importer operator predictor; do \
	  echo "locking requirements/$$name.txt"; \
	  $(RUN_UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-annotate --no-header requirements/$$name.in -o requirements/$$name.txt || exit 1; \
	done

$(UV):
	@echo "setting up: uv, to install the rest"
	@python="$(PYTHON)" && test -n "$$python" && "$$python" -m venv --clear .venvs/uv
	@.venvs/uv/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.5"

.venvs/%/.installed: requirements/%.txt | $(UV)
	@echo "setting up: the $* environment (a minute with an empty cache)"
	@$(RUN_UV) venv --quiet --clear --no-project --python "$(PYTHON)" .venvs/$*
	@VIRTUAL_ENV=.venvs/$* $(RUN_UV) pip install --quiet --no-config --require-hashes -r requirements/$*.txt
	@touch $@
