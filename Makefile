# Every target makes or reuses the environment in .venv; nothing else is needed than Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
JOBS ?= 2

.PHONY: demo test check format bench bench-scale digests gold mutants crash faults tampered soak copies alarms fuzz accuracy known results lock licences sbom docs sizes fresh clean honesty
.DEFAULT_GOAL := demo

$(BIN)/python:
	@echo "making the environment in .venv (once)"
	@$(PYTHON) -m venv .venv

.venv/core.stamp: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing scdp"
	@$(PIP) install --constraint constraints.txt --editable . && touch $@

.venv/dev.stamp: .venv/core.stamp
	@echo "installing what tests and checks need"
	@$(PIP) install --constraint constraints.txt --editable '.[test,check,plots,spark]' && touch $@

.venv/bench.stamp: .venv/core.stamp
	@echo "installing Splink, to compare with"
	@$(PIP) install --constraint constraints.txt --editable '.[bench]' && touch $@

demo: .venv/core.stamp
	@$(BIN)/scdp demo --out demo --force

test: .venv/dev.stamp
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: .venv/dev.stamp
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: .venv/dev.stamp
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: .venv/dev.stamp
	@-$(BIN)/python -m benchmarks.sampler_speed
	@-$(BIN)/python -m benchmarks.comparisons_speed
	@-$(BIN)/python -m benchmarks.distance_speed
	@-$(BIN)/python -m benchmarks.everyday_speed

bench-scale: .venv/bench.stamp
	@$(BIN)/python -m benchmarks.scale --format parquet,csv --out docs/scale_table.md

digests: .venv/dev.stamp
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m digests.record $(SECTIONS)

gold: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.gold

mutants: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.mutants

fuzz: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.fuzz

crash: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.crash

faults: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.faults

tampered: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.tampered

soak: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.soak

copies: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.copies

honesty: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.honesty --out honesty.json --figure docs/figures/honesty.png

alarms: .venv/dev.stamp
	@$(BIN)/python -m benchmarks.alarms

known: .venv/bench.stamp
	@$(BIN)/python -m benchmarks.known_links
	@for study in batches decisions kills speed; do $(BIN)/python -m benchmarks.known_store $$study; done

accuracy: .venv/bench.stamp .venv/dev.stamp
	@$(BIN)/python -m benchmarks.accuracy --systems resolver,modernbinary,splink --out accuracy.json \
		--page docs/accuracy_table.md

results: .venv/dev.stamp
	@$(BIN)/scdp reproduce all --out results --resume
	@$(BIN)/python -m benchmarks.paper_page.output results docs

lock: .venv/dev.stamp
	@$(BIN)/python .ci/lock.py > requirements-dev.txt.new && mv requirements-dev.txt.new requirements-dev.txt

licences: .venv/dev.stamp
	@$(BIN)/python .ci/licences.py > LICENCES.md.new && mv LICENCES.md.new LICENCES.md

sbom: .venv/dev.stamp
	@$(BIN)/python .ci/licences.py --sbom > sbom.json

docs: .venv/dev.stamp
	@$(BIN)/python docs/site.py
	@$(BIN)/python -m zensical build
	@echo "the site is in site/index.html"

# The wheel in an environment of its own, as people get it: every command of README, tutorials and guides.
fresh: .venv/dev.stamp
	@rm -rf build/fresh && $(BIN)/python -m hatchling build -t wheel -d build/fresh
	@$(PYTHON) -m venv build/fresh/env
	@build/fresh/env/bin/python -m pip --quiet install --constraint constraints.txt build/fresh/*.whl
	@build/fresh/env/bin/python .ci/documents.py --commands README.md docs/index.md docs/faq.md docs/decisions.md \
		docs/tutorials/*.md docs/howto/*.md docs/concepts/*.md

sizes: .venv/core.stamp
	@$(BIN)/python .ci/sizes.py > docs/dependencies.md

clean:
	rm -rf .venv demo build site .pytest_cache .mypy_cache .ruff_cache
