# Kernel Watchdog. `make watch` does the main job, `make test` proves that it works; both need Python >= 3.11 and pip.

PYTHON ?= python3
BIN = .venv/bin
READY = .venv/.ready

.PHONY: watch test lint types check format clean screenshots leak-table calibrate names-table upgrades help

help:  ## Show what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Kernel Watchdog needs Python 3.11 or later; name one with: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8'
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip install --quiet --compile-bytecode --editable . --group dev
	touch $@

watch: $(READY)  ## Run the watch on the bundled kernels and write the report; findings are no failure here
	@$(BIN)/watchdog run; code=$$?; \
	if [ $$code -eq 1 ]; then \
	  echo "The run itself worked. It found regressions, so \`watchdog run\` exits with 1; the report above says which."; \
	else exit $$code; fi

test: $(READY)  ## Run the whole test suite (builds real environments: minutes the first time)
	$(BIN)/python -m pytest

lint: $(READY)  ## Lint and check the format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## Check the types
	$(BIN)/mypy

check: lint types test  ## All that continuous integration asks

format: $(READY)  ## Mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

screenshots: watch  ## Renew the pictures in docs/images from a run (needs Chromium)
	$(BIN)/python -m tests.screenshots

CELLS ?= 1000
leak-table: $(READY)  ## Compare the memory check with other tools (hours, may be stopped; CELLS=100 for a short one)
	$(BIN)/python -m tests.leak_table --cells $(CELLS) --folder .watchdog/leak-table-$(CELLS) --write docs/judging-memory.md

CALIBRATE ?=
calibrate: $(READY)  ## Measure the rule of timing beside those of other tools (minutes; CALIBRATE="--peers 0": ours alone)
	$(BIN)/python -m tests.calibration $(CALIBRATE) --write docs/judging-timing.md

RELEASES ?=
names-table: $(READY)  ## Ask jax's releases for their names anew (minutes; RELEASES="0.13.0" asks further ones)
	$(BIN)/python -m tests.names_table $(RELEASES)

UPGRADES ?=
upgrades: $(READY)  ## Watch sound and broken kernels in eight releases for six TPU generations (UPGRADES="--releases 0.12.0": a part)
	$(BIN)/python -m tests.upgrades $(UPGRADES)

clean:  ## Remove what was made here (environments stay in the user's cache; see `watchdog environments prune`)
	rm -rf .venv .watchdog dist
