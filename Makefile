# Needs make and Python 3.11 or newer; everything else goes into .venv, which `make clean` removes.
#   PYTHON=/path/to/python3.12   the interpreter for .venv, if you do not want the one that make finds
#   ARGS='-k transfer -x'        more arguments for pytest, the demo or the benchmarks
#   RESOLUTION=highest           newest dependencies for test-wheel instead of the lowest

PYTHON ?=
ARGS ?=
WHEEL ?= dist/*.whl
RESOLUTION ?= lowest-direct
VENV := .venv
PY := $(VENV)/bin/python
CANDIDATES := python3.14 python3.13 python3.12 python3.11 python3 python
SUITABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:
.PHONY: help demo test test-slow test-thorough check format docs dist test-wheel simulate chaos test-clients test-frameworks test-servers test-topologies test-redisson bench bench-quick evidence clean
.SECONDARY:

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.ready-demo ## watch the lock protect a web service; ARGS=--cluster: on a Redis Cluster, --etcd: in etcd, --postgres: in a database, --sqlite: in a file
	@exec $(PY) docs/examples/demo.py $(ARGS)

# Keep the bytecode, whatever the environment says: the tests start hundreds of interpreters.
test: $(VENV)/.ready-servers ## run the tests, in less than three minutes (ARGS are pytest's)
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n auto --dist worksteal $(ARGS)

test-slow: $(VENV)/.ready-servers ## run the others: every page as its reader pastes it, kills on a file, broken copies of the code
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n auto --dist worksteal --slow $(ARGS)

# A test that does 20 times as much may take 20 times as long before it counts as hanging.
test-thorough: THOROUGHLY = env PYTHONDONTWRITEBYTECODE= AIOLOCK_TEST_EXAMPLES=20 $(PY) -m pytest -n auto -o faulthandler_timeout=2400
test-thorough: $(VENV)/.ready-test ## run the generated tests with 20 times as many examples, every fault at every step of small scenes, and every pair of cancellations
	@$(THOROUGHLY) -m hypothesis tests/scripts $(ARGS)
	@$(PY) -m tests.simulation --all --kind preemption
	@$(PY) -m tests.simulation --all --kind singles
	@exec $(THOROUGHLY) tests/cancellation $(ARGS)

check: $(VENV)/.ready-lint ## check formatting, lint and types
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	PATH="$$PWD/$(VENV)/bin:$$PATH" $(PY) -m pyright --verifytypes aiolock --ignoreexternal

format: $(VENV)/.ready-lint ## format, and fix what ruff can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

docs: $(VENV)/.ready-docs ## build the documentation site into build/docs; warnings are errors
	$(PY) -m sphinx --builder html --fail-on-warning --keep-going --quiet docs build/docs
	@echo "open build/docs/index.html"

dist: $(VENV)/.ready-dist ## build what a release publishes into dist: sdist, wheel, and SBOM
	rm -rf dist build/sbom
	$(PY) -m build
	$(PY) -m twine check --strict dist/*
	$(PY) -m uv venv --quiet --python $(PY) build/sbom
	$(PY) -m uv pip install --quiet --python build/sbom dist/*.whl
	$(PY) -m cyclonedx_py environment --output-reproducible --output-file dist/sbom.cdx.json build/sbom

# The suite finds the package where it always is, but it is the wheel's.
test-wheel: $(VENV)/.ready-dist ## run every test against a wheel (WHEEL=dist/x.whl), with its lowest dependencies
	rm -rf build/wheel && mkdir -p build/wheel/suite
	$(PY) -m uv venv --quiet --python $(PY) build/wheel/env
	$(PY) -m uv pip install --quiet --python build/wheel/env --resolution $(RESOLUTION) $(WHEEL)
	$(PY) -m uv pip install --quiet --python build/wheel/env --group test
	tar --create --exclude ./aiolock --exclude ./build --exclude ./dist --exclude './.venv' --exclude ./.git . \
		| tar --extract --directory build/wheel/suite
	ln -s "$$(echo $$PWD/build/wheel/env/lib/python*/site-packages/aiolock)" build/wheel/suite/aiolock
	cd build/wheel/suite && env PYTHONDONTWRITEBYTECODE= ../env/bin/python -m pytest -n auto --dist worksteal $(ARGS)

simulate: $(VENV)/.ready-test ## break networks, clocks and processes in simulation until you stop it (ARGS='--seconds 60 --seed 7'; ARGS=--all: all faults at all steps)
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m tests.simulation $(ARGS)

chaos: $(VENV)/.ready-test ## break real servers, networks and processes, and check what was seen (ARGS='--minutes 60 --seed 7')
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m tests.histories $(ARGS)

test-clients: $(VENV)/.ready-clients ## the tests that meet a client, beside each version of redis-py, anyio and valkey-py
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m tests.client_matrix $(ARGS)

test-frameworks: $(VENV)/.ready-clients ## the tests of aiolock.contrib, beside the oldest and the newest frameworks
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m tests.framework_matrix $(ARGS)

test-servers: $(VENV)/.ready-test ## the tests that meet a server, on each in AIOLOCK_TEST_SERVERS, or in containers
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m tests.server_matrix $(ARGS)

# Fewer workers: each test has a dozen processes.
test-topologies: $(VENV)/.ready-test ## the contract at each place; failovers and kills, under load
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n 3 --dist worksteal --topologies \
		tests/contract tests/cluster tests/databases tests/sentinel tests/topologies $(ARGS)

# One after the other: each version has one JVM, and times count.
test-redisson: $(VENV)/.ready-test ## what shares locks with Redisson, beside its real jars; needs Java and Maven
	@exec env PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n 0 --redisson tests/redisson $(ARGS)

bench: $(VENV)/.ready-bench ## every benchmark, some 35 minutes (ARGS='--rows A,D --peers none')
	@exec $(PY) -m benchmarks $(ARGS)

bench-quick: $(VENV)/.ready-bench ## run the most important benchmarks, in under two minutes
	@exec $(PY) -m benchmarks --quick $(ARGS)

evidence: $(VENV)/.ready-bench ## put the newest run into README and evidence.md (ARGS='--chaos build/chaos/report.json')
	@exec $(PY) -m benchmarks.report $(ARGS)

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .bench_cache .client_cache dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find aiolock tests docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Before the tests: there they would have to wait for it.
$(VENV)/.ready-servers: $(VENV)/.ready-test
	@echo "Fetching what tests meet (MariaDB, MySQL, etcd, ZooKeeper) into $(VENV) ..."
	@$(PY) -m tests.support.fetch
	@touch $@

# The stamp is written last, so that an interrupted set-up is repeated.
$(VENV)/.ready-%: pyproject.toml $(VENV)/.created
	@echo "Installing the '$*' dependencies into $(VENV) ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable . --group $*
	@touch $@

# Run the candidates, do not only look them up: some are shims, and some Pythons are packaged without venv.
$(VENV)/.created:
	@for python in $(if $(PYTHON),"$(PYTHON)",$(CANDIDATES)); do \
		if "$$python" -c '$(SUITABLE)' >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "aiolock needs Python 3.11 or newer with its venv module; tried: $(or $(PYTHON),$(CANDIDATES))." >&2; \
		echo "Install one (on Debian and Ubuntu also python3-venv), or name it: make PYTHON=/path/to/python3.12" >&2; \
		exit 1; \
	fi; \
	echo "Creating $(VENV) with $$("$$found" --version) ..."; \
	"$$found" -m venv --clear $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@touch $@
