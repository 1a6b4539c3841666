# Everything a newcomer needs: `make demo` runs the first operator, `make test` passes the tests.
# The virtual environment in .venv is made on first use and holds what requirements/dev.txt, the lock file, says.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo docs test test-real test-node test-foreign test-pythons test-compiled conformance conformance-quick fuzz lint types imports check format generate controlplane wheels bench lock clean

help: ## Show what can be done here
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[36m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml packages/steersman-cluster/pyproject.toml requirements/dev.txt
	@$(PYTHON) hack/setup.py $(VENV)
	@touch $@

demo: $(READY) ## Run an operator on the embedded cluster and watch it follow (OPERATOR=sidecarset; ARGS=--real)
	@$(BIN)/python operators/$(or $(OPERATOR),helloapp)/demo.py $(ARGS)

test: $(READY) ## Run the tests that need no real control plane and do not take long
	@bash hack/tests.sh -m "not slow and not realcluster"

test-real: $(READY) controlplane ## Run all tests, with the real control plane mandatory
	@STEERSMAN_REQUIRE_CONTROLPLANE=1 bash hack/tests.sh

test-node: $(READY) ## Run the tests that need containers, on a real node (Linux, as root; first build: 15 minutes)
	@sh hack/controlplane/build.sh --node
	@bash hack/tests.sh --node $(ARGS)

test-foreign: $(READY) ## Run other projects' clients and test suites on the embedded cluster (first build: 20 minutes)
	@bash hack/foreign.sh && bash hack/upstream.sh
	@$(BIN)/python -m pytest -q tests/cluster/foreign

test-pythons: ## Run the default suite on each supported Python that this machine has
	@bash hack/pythons.sh

test-compiled: $(READY) ## Build the compiled wheel and run on it the tests of what is compiled
	@bash hack/compiled.sh

conformance: $(READY) controlplane ## Run Kubernetes' conformance suite on the embedded cluster (ARGS="--focus Pods")
	@$(BIN)/python -m tests.e2e $(ARGS)

conformance-quick: $(READY) controlplane ## Run the part of Kubernetes' conformance suite that takes minutes
	@$(BIN)/python -m tests.e2e --quick --no-report $(ARGS)

explore: $(READY) ## Explore the correct operators of the explorer's tests, built-in controllers, and five operators (half an hour)
	@rm -rf build/explorations && mkdir -p build/explorations
	@STEERSMAN_EXPLORE_ALL=1 $(BIN)/python -m pytest -q -s tests/testing/explore
	@STEERSMAN_EXPLORE_ALL=1 STEERSMAN_EXPLORE_RESULTS=build/explorations/controllers.jsonl \
		$(BIN)/python -m pytest -q -s tests/cluster/controllers/test_survival.py
	@for name in helloapp configmonitor sidecarset mysqlcluster rocketmq; do \
		(cd operators/$$name && STEERSMAN_EXPLORE_ALL=1 STEERSMAN_EXPLORE_RESULTS=../../build/explorations/$$name.jsonl \
			../../$(BIN)/python -m pytest -q -s tests/test_survival.py) || exit 1; done

fuzz: $(READY) ## Give broken input to all parsers, or to one (MINUTES=30 TARGET=yaml); failing inputs go to build/fuzz
	@$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),5) $(if $(TARGET),--target $(TARGET))

lint: $(READY) ## Lint and check the formatting
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(READY) ## Check the types (strict)
	@$(BIN)/pyright

imports: $(READY) ## Check that packages import downwards only
	@$(BIN)/lint-imports

check: lint types imports test ## All of the above

format: $(READY) ## Format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

generate: $(READY) ## Generate models, API documents, schemas, protobuf fields and first objects (ARGS=--check: compare)
	@$(BIN)/python -m codegen $(ARGS)

controlplane: ## Build kube-apiserver, etcd and friends once, into the user's cache
	@bash hack/controlplane/build.sh

wheels: $(READY) ## Build into dist/ source distributions and plain wheels (seconds), and a compiled wheel (minutes)
	@$(BIN)/hatchling build
	@cd packages/steersman-cluster && ../../$(BIN)/hatchling build -d ../../dist
	@echo "Compiling the hot paths for this Python and platform; this takes two to five minutes."
	@STEERSMAN_COMPILE=1 $(BIN)/hatchling build -t wheel

$(VENV)/.bench: $(READY) requirements/bench.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@touch $@

bench: $(VENV)/.bench ## Run the benchmarks side by side with the peers, within 45 minutes (ARGS="ROW --runs 5": doubt a row)
ifdef ARGS
	@$(BIN)/python -m benchmarks $(ARGS)
else
	@$(BIN)/python -m benchmarks.real --budget 13; real=$$?; \
	$(BIN)/python -m benchmarks; rows=$$?; exit $$(( real > rows ? real : rows ))
endif

$(VENV)/.docs: $(READY) requirements/docs.txt hack/docs_scripts.py
	@$(BIN)/python -m venv $(VENV)/docs
	@$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@$(BIN)/python hack/docs_scripts.py $(VENV)/docs/scripts
	@touch $@

docs: $(VENV)/.docs ## Build the documentation site into build/site (ARGS=serve: show it and follow changes)
	@PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs $(or $(ARGS),build --quiet --strict)

lock: $(READY) ## Bring requirements/*.txt, the lock files, in step with pyproject.toml
	@for set in "runtime pyproject.toml" "dev pyproject.toml --extra dev --extra aiohttp --extra cli --extra otel --extra proxy --extra pydantic --extra uvloop --group dev" "bench pyproject.toml --group bench" "docs --group docs"; do \
	  set -- $$set; name=$$1; shift; \
	  $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url --no-header \
	    --no-emit-package steersman --no-emit-package steersman-cluster \
	    --python-version 3.11 "$$@" -o requirements/$$name.txt || exit 1; \
	done

clean: ## Remove what was built here
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
