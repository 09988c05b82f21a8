# `make` or `make help` lists the targets. Everything runs in .venv, installed from the locked requirements.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-complete
DEMO_STAMP := $(VENV)/.demo-complete
CODE := src proof tests tools bench examples
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# One folder of tests/interop, as in `make interop AREA=tools`; empty: all of them.
AREA ?=
# A pure package below src/penstock, for `make mutate`.
PACKAGE ?= replication
# Seconds of traffic in the demo; 0: until it is interrupted.
DURATION ?= 60

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## create .venv with the locked, hash-checked dependencies

$(DEMO_STAMP): requirements/demo.lock requirements/build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@tools/ensure_environment $(PYTHON) $(VENV) demo
	@touch $@

$(STAMP): $(DEMO_STAMP) requirements/dev.lock
	@tools/ensure_environment $(PYTHON) $(VENV) dev
	@touch $@

.PHONY: check
check: $(STAMP) ## format, lint, types, import contracts, tidiness, generated files, published advisories
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/tidy.py
	@for generator in tools/generate_*.py; do \
		[ -e "$$generator" ] || continue; \
		echo "$(BIN)/python $$generator --check"; \
		$(BIN)/python $$generator --check || exit 1; \
	done
	$(BIN)/python tools/advisories.py

.PHONY: generate
generate: $(STAMP) ## write the generated files anew: message classes, reference pages, the map of modules
	@for generator in tools/generate_*.py; do \
		echo "$(BIN)/python $$generator"; \
		$(BIN)/python $$generator || exit 1; \
	done

.PHONY: format
format: $(STAMP) ## rewrite the code in the one format
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

.PHONY: test
test: java servers $(STAMP) ## the tests; Spark's need Java 17, none needs a network
	$(BIN)/python tools/run_tests.py test $(ARGS)

.PHONY: often
often: $(STAMP) java servers ## tests again and again on busy cores; ARGS='--part clusters --rounds 50' or pytest's own
	PYTHONPATH=. $(BIN)/python tools/often.py $(ARGS)

.PHONY: mutate
mutate: $(STAMP) ## what the unit tests of a pure package do not notice, one changed expression at a time; PACKAGE=replication
	PYTHONPATH=. $(BIN)/python tools/mutate.py $(PACKAGE) $(ARGS)

.PHONY: interop
interop: $(STAMP) jdk kerberos ## Kafka's tools and Java clients, Spark's connector, HDFS and YARN (fetches jars); AREA=tools alone
	$(BIN)/python tools/run_tests.py interop $(if $(AREA),tests/interop/$(AREA)) $(ARGS)

.PHONY: bench
bench: $(STAMP) jdk ## us and Apache Kafka, same client, alternating rounds (needs Java 17); ARGS='--quick'
	PYTHONPATH=tools $(BIN)/python -m bench $(ARGS)

.PHONY: soak
soak: $(STAMP) ## the long tests: crashes, failing disks, damaged files, mutated frames, hostile clients
	$(BIN)/python -m pytest -m soak --override-ini timeout=0 --capture=no $(ARGS)

.PHONY: demo
demo: java $(DEMO_STAMP) ## fraud in a live stream of access logs, on a broker and Spark of its own; DURATION=0 until Ctrl-C
	$(BIN)/python tools/demo.py --duration $(DURATION) $(ARGS)

.PHONY: servers
servers:
	@tools/ensure_servers broker databases

.PHONY: kerberos
kerberos: $(STAMP)
	@tools/ensure_servers kerberos
	@tools/ensure_gssapi $(BIN)

.PHONY: java
java:
	@tools/ensure_java runtime

.PHONY: jdk
jdk:
	@tools/ensure_java build

.PHONY: lock
lock: $(STAMP) ## resolve pyproject.toml's dependencies again into requirements/
	$(COMPILE) pyproject.toml --upgrade --extra dev --output-file requirements/dev.lock
	$(COMPILE) pyproject.toml --constraint requirements/dev.lock --extra spark --output-file requirements/demo.lock
	$(COMPILE) pyproject.toml --constraint requirements/dev.lock --output-file requirements/runtime.lock
	$(COMPILE) --group build --constraint requirements/dev.lock --output-file requirements/build.lock
	$(COMPILE) pyproject.toml --constraint requirements/dev.lock --extra gssapi --output-file requirements/gssapi.lock
	$(COMPILE) --group gssapi-build --upgrade --output-file requirements/gssapi-build.lock

.PHONY: clean
clean: ## remove everything that is made, the environment included
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find $(wildcard $(CODE)) -type d -name __pycache__ -prune -exec rm -rf {} +
