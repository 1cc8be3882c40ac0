# Everything a newcomer needs: each target sets up its own virtual environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# One worker per core, 8 at most; each takes a run of neighbouring tests, so that fixtures of a module are mostly made once.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: demo test test-torch test-web test-remote test-cluster test-milvus coverage lint bench fuzz docs wheel release-check clean

demo: $(VENV)/.ready
	$(BIN)/faemb demo --out build/demo

test: $(VENV)/.ready
	$(PYTEST)

# The tests that run on several array libraries, on PyTorch alone; it must be installed in $(VENV).
test-torch: $(VENV)/.ready
	$(BIN)/python -c "import torch"
	$(PYTEST) -m torch

# The server, then its page in Debian's Chromium, which is installed if it is missing; screenshots in build/screenshots.
# Not in one process: while Playwright runs, its event loop does too, and no other can be started.
test-web: $(VENV)/.browser
	command -v chromium || { $(AS_ROOT) apt-get update && $(AS_ROOT) apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends chromium; }
	$(PYTEST) -m "web and not browser and not milvus"
	$(PYTEST) -m browser

# Images in buckets of a real S3 server, which is installed and runs on this machine.
test-remote: $(VENV)/.s3-server
	$(BIN)/python -m pytest -m remote tests/cli

# Dask clusters on this machine; their workers and schedulers are killed at random moments.
test-cluster: $(VENV)/.ready
	$(BIN)/python -m pytest -m cluster -s tests/runtime tests/collection tests/benchmark

# Against a real Milvus server, which listens on all interfaces: in a network namespace that holds it and the tests alone.
test-milvus: $(VENV)/.ready build/milvus-venv/.ready
	$(BIN)/python tools/own_network.py $(BIN)/python -m pytest -m milvus tests/collection tests/web

coverage: $(VENV)/.ready
	$(PYTEST) -m "not browser and not remote and not cluster and not milvus" --cov --cov-report=term:skip-covered

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks

# Damaged input for every reader, on all cores; findings and a report in build/fuzz/findings. SEED=1 makes other inputs.
SECONDS ?= 600
SEED    ?= 0
fuzz: $(VENV)/.ready
	$(BIN)/python -m tools.fuzz --seconds $(SECONDS) --seed $(SEED)

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

wheel: $(VENV)/.release
	rm -rf build/wheel
	$(BIN)/python -m build --outdir build/wheel/dist
	$(BIN)/python tools/wheel_check.py build/wheel

# Every supported Python and the lowest allowed versions: minutes each. ALLOW_MISSING=1 passes over missing interpreters.
release-check:
	$(PYTHON) tools/release_check.py

clean:
	rm -rf $(VENV) build .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test,lint]"
	touch $@

build/milvus-venv/.ready:
	$(PYTHON) -m venv build/milvus-venv
	build/milvus-venv/bin/python -m pip install --quiet milvus==2.3.5
	touch $@

$(VENV)/.browser: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable ".[browser]"
	touch $@

$(VENV)/.s3-server: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable ".[s3-server]"
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

$(VENV)/.release: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	touch $@
