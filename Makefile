# Two commands do everything, set-up included: `make demo` and `make test`.
# All paths are relative, because make cannot name a target with a space in its path.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-engine test-fast soak check crd docs bench clean always

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile
	@echo 'PYTHON=python3.13 on the command line picks another Python than the first one that fits.'

setup: .venv/set-up ## create .venv with all that is needed (the other targets do it themselves)

.venv/set-up: pyproject.toml uv.lock
	@PYTHON='$(PYTHON)' bash scripts/setup
	@touch $@

# Somebody who names a Python wants that one, also where another was set up before.
ifneq ($(strip $(PYTHON)),)
.venv/set-up: always
endif

demo: setup ## watch the closed loop work on this machine, in under two minutes
	@.venv/bin/specloop demo

test: setup ## run all tests; builds a real llama-server and Kubernetes once where it can
	@bash scripts/test

test-engine: setup ## run the tests on a real vLLM; installs one for processors once, 6 GB
	@.venv/bin/python scripts/build-vllm >/dev/null
	@SPECLOOP_REQUIRE_ENGINES=1 .venv/bin/pytest tests/engine/test_*vllm.py --verbose

test-fast: setup ## run the quick unit tests, between two edits
	@bash scripts/test --fast

soak: setup ## ten minutes of operators under constant trouble; SOAK_SEED=7 has a run again, SOAK_SECONDS=60 is shorter
	@.venv/bin/pytest tests/soak --verbose -s

check: setup ## lint, format, types, import rules, the shipped policies
	@bash scripts/check

# Written aside first, so that a failure leaves the old file alone.
crd: setup ## write crds/ anew from the policy models
	@mkdir -p crds
	@.venv/bin/specloop crd > crds/new && cp crds/new charts/specloop/files/specpolicies.specloop.dev.yaml && mv crds/new crds/specpolicies.specloop.dev.yaml || { rm -f crds/new; exit 1; }

docs: setup ## write docs/reference/ and the chart's schema of settings anew from the models
	@.venv/bin/python scripts/generate_docs

# -P keeps benchmarks/ off the import path: operator.py there would hide the standard library's.
bench: setup ## print the figures of docs/benchmarks.md
	@for file in benchmarks/*.py; do echo "$$file"; .venv/bin/python -P "$$file" || exit 1; done

clean: ## remove .venv and everything else that can be made again
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* dist
	find policies operator simulator tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
