# make run: the app.  make test: linters and tests.  make bench: timings.  make lint: style alone.
# make test-newest: the tests, with the newest versions that the requirements admit.
# make sweep: every claim, case, part and aside of every shipped model, minutes.
# make site: the website, static files in FOLDER (out/site unless said).
# make mutants: N mistakes (30 unless said) in each room, and which tests notice, two hours.
# make fuzz: random input for every way in, for SECONDS (60 unless said).
# make parity: the numbers of models of other libraries, beside those of `transformers`.
PYTHON ?= python3
BIN := .venv/bin

# Only what is imported gets compiled: half a minute less to wait for the first start. But that must
# be kept, or each process compiles it anew (5 s for torch and streamlit), also where Python is told
# to keep nothing, as many containers do.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: run test pytest test-newest sweep bench fuzz mutants parity lint site chromium

run: .venv/runtime
	@echo "listening on localhost only; to serve the network: make run ADDRESS=0.0.0.0"
	$(BIN)/streamlit run app.py $(if $(ADDRESS),--server.address $(ADDRESS))

# Side by side: mypy alone takes a minute of one core.
test: chromium
	$(MAKE) --jobs=2 lint pytest

# Two workers for every core: many tests wait for a browser or a process. Collected once beforehand, since
# each worker of a fresh clone would rewrite the assertions of all tests anew (12 s of a core);
# what cannot be collected fails again in the run itself, which prints the reason.
pytest: chromium
	-$(BIN)/python -m pytest --collect-only -qq > /dev/null
	$(BIN)/python -m pytest -n $$(expr $$(getconf _NPROCESSORS_ONLN) '*' 2) --dist worksteal

# What `pip install .` takes today, where requirements.txt does not hold it back.
test-newest: chromium
	test -d .newest || $(PYTHON) -m venv .newest
	.newest/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
	    --upgrade --upgrade-strategy eager -e ".[dev,gguf]"
	.newest/bin/python -m pip list --disable-pip-version-check
	.newest/bin/python -m pytest -n $$(expr $$(getconf _NPROCESSORS_ONLN) '*' 2) --dist worksteal

# All that is asked of the shipped models; `make test` has the core of it (tests/designs.py).
sweep: chromium .books/made
	$(BIN)/python -m pytest -n auto --dist worksteal -m sweep

bench: .venv/development
	$(BIN)/python -m benchmarks

site: chromium
	$(BIN)/python -m docs.website $(or $(FOLDER),out/site)

fuzz: .venv/development
	$(BIN)/python -m pytest tests/test_fuzz.py --fuzz $(or $(SECONDS),60)

mutants: .venv/development
	$(BIN)/python -m tests.mutants --per-room $(or $(N),30)

# The builders that put the pages of examples/embedding together.
.books/made:
	$(PYTHON) -m venv .books
	.books/bin/python -m pip install --quiet --disable-pip-version-check \
	    "mkdocs>=1.6,<2" "jupyter-book>=1,<2" "pypandoc_binary>=1.15,<2"
	touch $@

# `transformers` stays out of the environment that the app runs in.
parity: .parity/made
	.parity/bin/python -m benchmarks.parity
	.parity/bin/python -m benchmarks.every_key
	.parity/bin/python -m benchmarks.every_part
	.parity/bin/python -m benchmarks.every_token

.parity/made: requirements.txt
	$(PYTHON) -m venv .parity
	.parity/bin/python -m pip install --quiet --disable-pip-version-check \
	    -r requirements.txt "transformers>=5.20,<6" sentencepiece gguf pytest
	touch $@

lint: .venv/development
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/oxlint --config tests/oxlint.json --deny-warnings explorer/components explorer/live explorer/ui
	$(BIN)/codespell
	$(BIN)/python -m tests.wording

.venv/runtime: requirements.txt
	$(PYTHON) -m venv .venv
	$(PIP) -r requirements.txt
	touch $@

.venv/development: .venv/runtime tests/requirements.txt
	$(PIP) -r tests/requirements.txt
	touch $@

# The browser tests drive a real Chromium: one that is there, Debian's, or Playwright's own.
chromium: .venv/development
	@$(BIN)/python tests/browser/chromium.py || \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk >/dev/null; \
	else $(BIN)/python -m playwright install --with-deps chromium; fi
