# Two commands from a fresh machine: `make demo` and `make test`. Each sets up what it needs from Python and pip alone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Many tests wait for other processes, so there are more workers than cores
JOBS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))

# Tests start hundreds of processes, and each would compile its imports anew where this is set
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-full docs coverage news mutants lint types imports unit bench bench-history bench-report fuzz release-check deploy-check wheelhouse lock sbom clean help

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

demo: $(VENV)/.with-core  ## set up, then learn a private model over 100 nodes and write a report
	$(BIN)/tacenda demo

test: $(VENV)/.with-dev  ## set up, then lint, types, import order and the tests (ten minutes in a fresh clone on two cores)
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory -j 3 types imports unit

test-full: $(VENV)/.with-dev  ## everything, slow tests too (about an hour)
	$(MAKE) --no-print-directory lint types imports
	NUMBA_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --slow

unit: $(VENV)/.with-dev
	NUMBA_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --durations=60 --durations-min=3

coverage: $(VENV)/.with-dev  ## which lines the quick tests reach, in .coverage-html/index.html and, for privacy/, below (docs/testing.md)
	NUMBA_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --cov --cov-report=html:.coverage-html --cov-report=term:skip-covered
	$(BIN)/python -m coverage report --include='src/tacenda/privacy/*' --show-missing --skip-covered

news: $(VENV)/.with-dev  ## join the fragments of newsfragments/ to CHANGELOG.md, with a release
	$(BIN)/python newsfragments/join.py

mutants: $(VENV)/.with-mutants  ## change the code in small ways and see whether the tests notice (docs/testing.md); SAMPLE=300 SEED=1
	nice -n 10 $(BIN)/python tests/mutation/run.py $(if $(SAMPLE),--sample $(SAMPLE)) --seed $(or $(SEED),1) \
	  $(if $(ONLY),--only $(ONLY)) $(if $(AGAIN),--again) $(if $(filter command line,$(origin JOBS)),--jobs $(JOBS))

lint: $(VENV)/.with-dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.with-dev  ## mypy
	$(BIN)/mypy

imports: $(VENV)/.with-dev  ## the direction of imports
	$(BIN)/lint-imports

bench: $(VENV)/.with-dev  ## the table of ratios
	$(BIN)/python -m benchmarks

bench-history: $(VENV)/.with-dev  ## ten micro-benchmarks as ratios to yardsticks, kept by commit (under two minutes)
	$(BIN)/python -m benchmarks.history

bench-report: $(VENV)/.with-dev  ## measure all that docs/results/measured/performance.md shows, and write it (a quarter of an hour; goes on after an interruption)
	$(BIN)/python -m benchmarks.report

docs: $(VENV)/.with-docs  ## the documentation site, docs/_build/html/index.html, without the network (about three minutes)
	NUMBA_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -E -W --keep-going -q docs docs/_build/html

release-check: $(VENV)/.with-release  ## build wheel and source archive, and try the wheel on every Python from 3.11 to 3.14 found here
	$(BIN)/python tests/release/try_wheel.py --types --tutorial

sbom: $(VENV)/.with-release  ## what an installed tacenda consists of, as CycloneDX in dist/tacenda.cdx.json
	rm -rf dist/.sbom && $(BIN)/python -m venv dist/.sbom
	$(BIN)/uv pip install --quiet --python dist/.sbom/bin/python . || dist/.sbom/bin/python -m pip install --quiet .
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON \
	  --output-file dist/tacenda.cdx.json dist/.sbom/bin/python
	rm -rf dist/.sbom

WHEELS := dist/wheelhouse
wheelhouse: $(VENV)/bin/uv  ## the node and all that it needs, in one folder with hashes, for machines without a network (docs/node-network.md)
	rm -rf $(WHEELS) && mkdir -p $(WHEELS)
	$(BIN)/uv build --quiet --wheel --out-dir $(WHEELS)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --require-hashes --only-binary :all: --dest $(WHEELS) -r deploy/requirements.txt
	cp deploy/requirements.txt $(WHEELS)/requirements.txt
	cd $(WHEELS) && for file in tacenda-*.whl; do \
	  echo "tacenda==$$(echo $$file | cut -d- -f2) --hash=sha256:$$(sha256sum $$file | cut -d' ' -f1)" >> requirements.txt; done
	@echo 'There: python3 -m pip install --no-index --find-links wheelhouse --require-hashes -r wheelhouse/requirements.txt'

deploy-check: $(VENV)/.with-dev $(VENV)/.with-deploy  ## manifests against their schemas, the systemd unit's sandbox, both images built and used (root; says what it could not run in ten minutes)
	NUMBA_NUM_THREADS=1 $(BIN)/python tests/release/try_deploy.py

lock: $(VENV)/bin/uv  ## the image's packages with hashes; developers' versions; uv.lock and pylock.toml, which git ignores (docs/releasing.md)
	echo 'hatchling>=1.28' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-annotate --no-emit-index-url --extra node --extra ntlm --extra data pyproject.toml - --output-file deploy/requirements.txt
	$(BIN)/uv lock --quiet --upgrade
	$(BIN)/uv export --quiet --locked --extra dev --no-emit-project --format pylock.toml --output-file pylock.toml > /dev/null
	$(BIN)/uv export --quiet --locked --extra dev --no-emit-project --no-hashes --no-header --no-annotate --output-file deploy/developers.txt > /dev/null

SECONDS_TO_FUZZ ?= 120
fuzz: $(VENV)/.with-dev $(VENV)/.with-fuzz  ## hostile floats against every declared sensitivity, then hostile frames against a node (SECONDS_TO_FUZZ=120 each)
	NUMBA_NUM_THREADS=1 $(BIN)/python tests/fuzz_sensitivity.py --seconds $(SECONDS_TO_FUZZ)
	NUMBA_NUM_THREADS=1 $(BIN)/python tests/fuzz_frames.py --seconds $(SECONDS_TO_FUZZ)

$(VENV)/bin/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

# uv installs in seconds what takes pip minutes; where it cannot be used, pip does the same.
define install
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.$(if $(1),[$(1)])' || $(BIN)/python -m pip install --quiet -e '.$(if $(1),[$(1)])'
	touch $@
endef

$(VENV)/.with-core: $(VENV)/bin/uv pyproject.toml
	$(call install,)

$(VENV)/.with-dev: $(VENV)/bin/uv pyproject.toml
	$(call install,dev)

$(VENV)/.with-docs: $(VENV)/bin/uv pyproject.toml
	$(call install,docs)

$(VENV)/.with-deploy: $(VENV)/bin/uv pyproject.toml
	$(call install,deploy)

$(VENV)/.with-fuzz: $(VENV)/bin/uv pyproject.toml
	$(call install,fuzz)

$(VENV)/.with-release: $(VENV)/bin/uv pyproject.toml
	$(call install,release)

$(VENV)/.with-mutants: $(VENV)/.with-dev
	$(call install,mutants)

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .mutants .bench .coverage .coverage-html docs/_build docs/api docs/gallery
