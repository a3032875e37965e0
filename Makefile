# `make run` and `make test` set up what they need; nothing is installed outside .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Where nothing is compiled once, each of the hundreds of processes of the tests compiles it all.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test lint types contracts unit coverage docs site schemas lab lab-all lab-shell campaign campaign-short bench score faults dist sign deb bounds roots image manifests clean

$(VENV)/package: pyproject.toml hatch_build.py rdmadiag/verbs/_loop.c rdmadiag/sieve/_sieve.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/ready: $(VENV)/package
	$(BIN)/python -m pip install --quiet --editable . --group dev --group lab
	$(BIN)/python -m compileall -q rdmadiag lab  # else each of the tests' processes does that
	touch $@

# The main job: this host's verdict, or a sample machine's where it has no RDMA device.
run: $(VENV)/package
	@if $(BIN)/rdmadiag devices >/dev/null 2>&1; then $(BIN)/rdmadiag preflight; else \
	echo "This host has no RDMA device: this is the sample machine roce-healthy." >&2; \
	$(BIN)/rdmadiag preflight --sample roce-healthy; fi

# Side by side, each with its own output when it has ended. Several a processor, since many tests
# wait for a deadline or a process. Parts that take longest begin first.
SIDE_BY_SIDE = $(MAKE) --no-print-directory --keep-going --output-sync=target \
	--jobs=$$(($(EACH) * $$(getconf _NPROCESSORS_ONLN)))
EACH := 2
PARTS := 8 7 2 4 3 5 1 6
LONG := 6 2 8 1 7 4 5 3

test: $(VENV)/ready
	@$(SIDE_BY_SIDE) $(PARTS:%=unit-%) types contracts lint

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy

contracts: $(VENV)/ready
	$(BIN)/lint-imports

# All tests but slow ones, in parts; each file of tests is in one of them.
unit: $(VENV)/ready
	@$(SIDE_BY_SIDE) $(PARTS:%=unit-%)

unit-%: $(VENV)/ready
	$(BIN)/python -m pytest -q -p no:cacheprovider -m "not slow" --part=$*/$(words $(PARTS))

# Slow tests and property tests at length; beside them the others once more, with branch
# coverage, under which they take twice the time: what CI runs after `test`. Tests marked `once`
# are those of `test` alone.
coverage: EACH := 3
coverage: $(VENV)/ready
	$(BIN)/coverage erase
	@$(SIDE_BY_SIDE) $(LONG:%=long-%) $(LONG:%=covered-%)  # the former wait more
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

covered-%: $(VENV)/ready
	$(BIN)/coverage run -m pytest -q -p no:cacheprovider -m "not slow and not once and not hypothesis" --cases=10 --part=$*/$(words $(PARTS))

long-%: $(VENV)/ready
	HYPOTHESIS_PROFILE=large $(BIN)/python -m pytest -q -p no:cacheprovider -m "slow or hypothesis and not once" --part=$*/$(words $(PARTS))

# docs/*.md and man/*.1 that are generated from the code; tests compare them.
docs: $(VENV)/ready
	$(BIN)/python -m docs

# The documentation site, in build/site/html: every command on it run, every link looked at.
site: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group site
	$(BIN)/python -m docs.site

# The golden JSON Schemas of this SCHEMA_VERSION; one that is there is never overwritten.
schemas: $(VENV)/ready
	$(BIN)/python -m tests.schema.golden

# RDMA hosts on a machine that has none; see lab/README.md. `lab-all` is the long form.
lab: $(VENV)/ready
	$(BIN)/python -m lab short

lab-all: $(VENV)/ready
	$(BIN)/python -m lab all

lab-shell: $(VENV)/ready
	$(BIN)/python -m lab shell

# How well `explain --log` reads the corpus; CORPUS="a.txt b.txt" takes others of the same form.
score: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group learn
	$(BIN)/python -m tests.explain.score $(CORPUS)
	$(BIN)/python -m tests.explain.thread_score

# The benchmark of faults: made in the lab, scored, and what `diff` says of them; faults/README.md.
faults: $(VENV)/ready
	$(BIN)/python -m faults.run
	$(BIN)/python -m faults.score --write
	$(BIN)/python -m faults.diffs
	$(BIN)/python -m tests.redact.faults

# Attacks by the thousand; see campaign/README.md.
campaign: $(VENV)/ready
	$(BIN)/python -m campaign --table campaign/RESULTS.md

campaign-short: $(VENV)/ready
	$(BIN)/python -m campaign --short --seed 15 --jobs $$(getconf _NPROCESSORS_ONLN)

# Prints the tables; AGAINST=DIR adds another checkout with its .venv, such as the commit before.
bench: $(VENV)/ready
	$(BIN)/python -m bench --lab $(if $(AGAINST),--against $(AGAINST))

# A release: CONTRIBUTING.md. Each of these needs a registry; deb, roots and image are of Debian.
$(VENV)/release: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group release
	touch $@

dist: $(VENV)/release
	release/dist.sh

# KEY: a private key of ssh.
sign:
	release/sign.sh $(KEY)

deb:
	release/deb.sh

bounds: $(VENV)/release
	release/bounds.sh

# Each way of installation in a Debian with nothing else: SUITES.
SUITES ?= bookworm trixie forky
roots:
	set -e; for suite in $(SUITES); do release/clean_root.sh $$suite; done

# BASE: a base image, or root:FOLDER.
image:
	release/image.sh $(or $(BASE),docker.io/library/python:3.13-slim)

# The manifests by the schemas of the Kubernetes API, and the Containerfile's rules.
manifests: $(VENV)/release
	release/manifests.sh

clean:
	rm -rf $(VENV) build dist *.egg-info .coverage* lab/out
