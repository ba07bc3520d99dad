# The verbs of this repository. Each makes the environment it needs; CI runs the same ones.

PYTHON ?= python3
JOBS   ?= auto
# A quarter of the suite's time is waiting, for processes above all: three workers for two cores.
WORKERS = $(if $(filter auto,$(JOBS)),$(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2))),$(JOBS))
BIN    := .venv/bin
READY  := .venv/.ready
LOCK   := $(BIN)/uv pip compile --quiet --system-certs --universal --generate-hashes --python-version 3.11 \
          --no-header --no-emit-index-url $(if $(UPGRADE),--upgrade)

# Every test starts many processes of ours: compiling them anew each time would be most of what they do.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test test-elsewhere test-elsewhere-agents test-pythons test-teeth test-frameworks test-browser test-agents check format bench bench-scale bench-peers proof docs lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r verb text; do \
		printf '  make %-21s %s\n' "$$verb" "$$text"; done

demo: $(READY) ## sixty seconds: an agent is killed and goes on where it stopped
	@$(BIN)/relight demo

test: $(READY) ## the whole suite, a sample of every guarantee, and its figures
	@tools/system-packages
	@PYTEST_DEBUG_TEMPROOT=$$(tools/scratch-directory) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -o tmp_path_retention_count=1 \
		$(patsubst %,--ignore tests/%,teeth integration/frameworks integration/browser)

test-elsewhere: $(READY) ## the demo and the suite on a simulated machine without Linux's special calls
	@tools/system-packages
	@JOBS=$(JOBS) $(BIN)/python tools/test_elsewhere.py

test-elsewhere-agents: $(READY) ## the real Claude Code and Codex there, killed and resumed offline
	@tools/system-packages
	@JOBS=$(JOBS) $(BIN)/python tools/test_agents.py --elsewhere

test-pythons: $(READY) ## the fast suites and the demo under every supported Python found here; names the others
	@JOBS=$(JOBS) $(BIN)/python tools/test_pythons.py

test-teeth: $(READY) ## plants bugs, one after the other, and expects the suite to notice each
	@tools/system-packages
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/teeth

test-frameworks: $(READY) ## the frameworks' own conformance suites over our stores
	@tools/system-packages
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/integration/frameworks

test-browser: $(READY) ## the pages in a real browser: Debian's chromium, installed where it can be
	@tools/system-packages
	@JOBS=$(JOBS) $(BIN)/python tools/test_browser.py

test-agents: $(READY) ## the real Claude Code, Codex, Gemini CLI, opencode and pi, installed once, killed and resumed offline
	@tools/system-packages
	@JOBS=$(JOBS) $(BIN)/python tools/test_agents.py

check: $(READY) ## format, lint, types, layering, planted bugs of touched files
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tests.teeth.touched

format: $(READY) ## let ruff rewrite what `make check` would complain about
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## our workload beside the raw floor, in one run
	@tools/system-packages
	@$(BIN)/python -m bench

bench-scale: $(READY) ## pages, searches and lists over 100,000 sessions with 10,000,000 steps; about 5 GB in build/
	@$(BIN)/python -m bench scale

bench-peers: $(READY) ## LangGraph's own savers beside ours, in a scratch environment
	@$(BIN)/python -m bench.peers_main

proof: $(READY) ## the suite with the full figures instead of samples; takes hours
	@tools/system-packages
	@RELIGHT_PROOF=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

docs: $(READY) build/docs/.ready ## write the generated reference, and the site into build/site
	@$(BIN)/python tools/generate_aio.py
	@$(BIN)/python tools/reference.py
	@test ! -e build/figures.json || $(BIN)/python tools/reliability.py
	@test ! -d build/screenshots/docs || cp build/screenshots/docs/*.png docs/images/
	@$(BIN)/python tools/site.py build/site-source
	@build/docs/bin/zensical build --strict --clean -f build/site.yml
	@$(BIN)/python tools/site.py build/site-source build/site

build/docs/.ready: requirements/docs.txt | $(READY)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/docs
	@$(BIN)/uv pip install --quiet --system-certs --require-hashes --python build/docs/bin/python -r requirements/docs.txt
	@touch $@

lock: $(READY) ## pin the requirements again, with hashes; UPGRADE=1 takes newer versions
	@$(LOCK) pyproject.toml -o requirements/base.txt
	@$(LOCK) --all-extras pyproject.toml requirements/dev.in -c requirements/base.txt -o requirements/dev.txt
	@$(LOCK) $(patsubst %,--extra %,server postgres redis fleet s3) pyproject.toml \
		-c requirements/base.txt -c requirements/dev.txt -o requirements/server.txt
	@$(LOCK) requirements/docs.in -o requirements/docs.txt
	@$(LOCK) requirements/uv.in -o requirements/uv.txt

clean: ## remove what was built; the environment stays (rm -rf .venv to start over)
	@rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml requirements/dev.txt requirements/uv.txt tools/environment.py \
          tools/build_hook.py tools/build_scan.py src/relight/workspaces/changes/_scan.c
	@$(PYTHON) tools/environment.py
	@touch $@
