# foretrace: everything that is done in a checkout. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest
JOBS := auto

# The package is installed as links into this checkout: a changed Python file needs nothing. A changed C file, a changed
# pyproject.toml, and a file that was added or removed (they change the stamp's name) make it install again.
FOLDERS := foretrace tracer cache_sim replay profiles benchmarks
FILES := $(sort $(shell find $(FOLDERS) -name __pycache__ -prune -o -type f -regex '.*\.\(py\|c\|h\|cpp\|f90\|toml\|csv\)' -print))
NATIVE := $(filter %.c %.h,$(filter-out benchmarks/programs/%,$(FILES)))
# What Python would do on its own at the first start, unless told not to (PYTHONDONTWRITEBYTECODE): else each start of
# foretrace takes a third as long again.
COMPILE := $(BIN)/python -m compileall -q build/__editable__*
STATE := $(shell echo $(CURDIR) $(FILES) | cksum | cut -d' ' -f1)
INSTALLED := $(VENV)/installed-$(STATE)
HERE := results/here.toml
# The demo needs less; where all is installed, that will do.
DEMO_INSTALLED := $(or $(wildcard $(INSTALLED)),$(VENV)/demo-$(STATE))

# One runner for all measurements: `python -m foretrace.benchmarks` lists them.
BENCHMARKS := ablate accuracy arrays bench bench-events bench-python bench-ranks bench-replay bench-streams bench-sweep built-idioms \
	compiler-reports copies curves dependences events idioms linear-algebra offload public-programs published \
	random-loops residuals speedup

.PHONY: help demo test test-full test-pythons dev $(BENCHMARKS) numpy-suite sgbench validate docs prose lint format sanitize fuzz hostile wheel clean system

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 12

test: $(INSTALLED) ## set up what is missing, then run the tests on all cores (ARGS="-k cache" for some of them, ARGS="--hypothesis-profile=random" for other examples, JOBS=0 in one process)
	@$(PYTEST) -n $(JOBS) --dist loadfile $(ARGS)

test-full: export FORETRACE_TEST_ALL := 1
test-full: test ## run all tests, with four times the examples and the tests that make test leaves out

test-pythons: | system ## run the tests of Python tracing under other Pythons, as far as they are there (ARGS=python3.12 for one)
	@.ci/test_pythons.sh $(ARGS)

dev: $(INSTALLED) ## set up what is missing: a virtual environment in .venv that editors and type checkers can follow
	@echo "Ready: $(BIN)/foretrace, $(BIN)/python, $(PYTEST)"

demo: $(DEMO_INSTALLED) ## set up what is missing, then trace three programs, predict them on every machine, say what to port (ARGS=--verbose for all output)
	@$(BIN)/python -P -m foretrace.benchmarks demo $(ARGS)

$(BENCHMARKS): $(INSTALLED)
	@$(COMPILE)
	@$(BIN)/python -P -m foretrace.benchmarks $@ $(OPTIONS) $(ARGS)

ablate: OPTIONS := -o results/ablation.md
accuracy bench bench-python curves random-loops: OPTIONS = -o results/$@.json
offload: OPTIONS := --by-hand docs/offload-by-hand.md
arrays copies events linear-algebra public-programs random-loops speedup: | $(HERE)

ablate: ## measure what each sub-model of the core and memory model is worth (results/ablation.md)
accuracy: ## measure what --accuracy auto, low, medium and high cost, and how far off they are
arrays: ## lines of NumPy, SciPy, pandas and scikit-learn, predicted and measured (ARGS="--draw 200 --seed 7")
bench: ## measure speed, exactness and memory beside cachegrind and others (ARGS=--quick for small programs)
bench-events: ## measure what counting software-defined events costs, next to PAPI's library (ARGS="--quick --picture FILE.svg")
bench-python: ## measure what tracing Python costs, beside coverage.py (ARGS=--quick for small programs)
bench-ranks: ## replay parallel runs beside SimGrid: makespans and speed (ARGS="--quick halo" for some)
bench-replay: ## measure the replay's event loop beside SimPy's own (ARGS=--quick for a tenth of the work)
bench-streams: ## measure what stored streams cost (ARGS=--quick for small programs)
bench-sweep: ## sweep a signature over 1,000 machines, and 10,000 predictions (ARGS=--quick for a twentieth)
built-idioms: ## build and trace programs with known idioms, and show which source, run and stripped binary tell
compiler-reports: ## what gcc and clang report of labelled loops, against the dependence test on source
copies: ## slowdown of two copies at once, predicted and measured, for six programs (ARGS=--realtime)
curves: ## miss ratios worked out from one trace beside the direct simulation (ARGS=--quick: two programs)
dependences: ## trace loops with known dependences, in C, Fortran and Python, and compare what is found
events: ## time for other counts of an event from one trace, predicted and measured (ARGS="--realtime CG GMRES")
idioms: ## read programs with labelled idioms, in C, C++, Fortran and Python, and compare what is found
linear-algebra: ## predict calls of linear algebra from Python, and time them here (ARGS="solve svd" for some)
offload: ## kernels on GPUs: predicted, published by others, worked out by hand (ARGS="lattice-h200" for some)
public-programs: ## programs that nobody here wrote, of which you have copies: run times, what to port, threads (ARGS="--sources DIR --builds FILE")
published: ## published speeds of compression, encryption and hashing beside predictions (ARGS="--text FILE gzip-5" for some)
random-loops: ## predict loops of instructions at random, and time them here (ARGS="--seed 2" for others)
residuals: ## write replay/base/residuals.csv, from which intervals follow, anew from held-back programs' measured times
speedup: ## speed-up of two threads, predicted and measured, for threaded programs (ARGS="--realtime triangle")

numpy-suite: $(INSTALLED) ## run tests of NumPy and SciPy themselves, alone and traced, and compare (ARGS=--quick for few)
	@$(BIN)/python -P tests/helpers/library_suites.py $(ARGS)

sgbench: $(INSTALLED) ## draw bandwidth of gather and scatter against the address range (results/sgbench.svg and .png)
	@mkdir -p results
	@$(BIN)/foretrace sgbench --force -o results/sgbench.svg -o results/sgbench.png $(ARGS)

validate: $(INSTALLED) | $(HERE) ## compare predictions with run times measured here, and with the published tables
	@$(BIN)/foretrace validate --machine $(HERE) $(ARGS)

# Measured once, before the first validation; `make -B results/here.toml` measures it anew.
$(HERE): | $(INSTALLED)
	@mkdir -p $(@D)
	@$(BIN)/foretrace calibrate --force -o $@

# Run from elsewhere: here mypy would take the folder foretrace/ for the whole package.
docs: $(INSTALLED) ## write docs/figures.md anew from the declarations of the profiles' figures
	@$(BIN)/python -P -m foretrace.profiles.figures_page > docs/figures.md

prose: $(INSTALLED) ## list docstrings that hint at a thing and do not name it, and a sample of all to be read (ARGS=7: another)
	@$(BIN)/python tests/helpers/prose.py $(ARGS)

lint: $(INSTALLED) ## check style and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/clang-format --dry-run -Werror $(NATIVE)
	@cd $(VENV) && bin/mypy --config-file ../pyproject.toml

format: $(INSTALLED) ## lay out the Python and C sources
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(NATIVE)

SANITIZED := build/sanitized
SANITIZE := -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
# ASan needs all memory, and would come into the programs that are traced, and into SimGrid's.
UNSANITIZED := tests/replay/ranks/test_simgrid.py tests/cache_sim/test_simulator.py::test_memory_that_runs_out_is_an_error_of_one_line \
	$(addprefix tests/tracer/stored/test_stored.py::,test_a_kept_stream_has_the_counters_of_its_run test_the_commands \
	test_many_targets_in_one_run_have_the_misses_of_each_alone)
BUILD_SANITIZED = CFLAGS="$(SANITIZE)" LDFLAGS="-fsanitize=address,undefined" $(BIN)/python setup.py -q build \
	--build-lib $(SANITIZED) --build-temp $(SANITIZED)-objects
WITH_SANITIZERS = LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(SANITIZED):tests/helpers CFLAGS="$(SANITIZE)"
sanitize: $(INSTALLED) ## run the tests of the C cores under AddressSanitizer and UBSan
	$(BUILD_SANITIZED)
	$(WITH_SANITIZERS) $(PYTEST) -n $(JOBS) --dist loadfile $(addprefix --deselect=,$(UNSANITIZED)) \
		$(or $(ARGS),tests/cache_sim tests/replay/core tests/replay/engine tests/replay/ranks \
		tests/benchmarks/calibration/test_kernels.py tests/tracer/execution_tree/test_twin.py \
		tests/tracer/data_flow/test_core.py tests/tracer/data_flow/test_dependence_twin.py \
		tests/tracer/reader tests/tracer/stored)

fuzz: $(INSTALLED) ## read millions of mutated traces and streams under AddressSanitizer and UBSan (ARGS="--cases 100000")
	$(BUILD_SANITIZED)
	$(WITH_SANITIZERS) $(BIN)/python -P tests/helpers/fuzz_streams.py $(ARGS)

hostile: $(INSTALLED) ## run the verbs on hostile files of each kind, under limits (ARGS="--cases 20 --kinds signature,timing --seed 2")
	PYTHONPATH=tests/helpers $(BIN)/python -P tests/helpers/hostile_files.py $(ARGS)

wheel: $(INSTALLED) ## build a wheel in dist/
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean: ## remove what was built, the demo's and the benchmark's files and the virtual environment
	rm -rf $(VENV) build dist demo results *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(FOLDERS) tests -name '__pycache__' -prune -exec rm -rf {} + -o -name '*.so' -exec rm -f {} +

# ---- set-up ----------------------------------------------------------------------------------------------------------

test dev bench sanitize: PROGRAMS := valgrind
published: PROGRAMS := brotli zstd
validate: PROGRAMS := g++ gfortran
test: PROGRAMS += g++ gfortran aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc papi_avail smpirun mpirun.openmpi mpirun.mpich mpi4py
bench-ranks: PROGRAMS := smpirun
bench-events: PROGRAMS := papi_avail

# Finds what the machine lacks and installs it; quiet where nothing is missing.
system:
	@.ci/setup_system.sh $(PROGRAMS)

$(VENV)/demo-$(STATE): EXTRA := demo
$(INSTALLED): EXTRA := dev
$(INSTALLED) $(VENV)/demo-$(STATE): pyproject.toml setup.py foretrace/__init__.py $(NATIVE) | system
	@set -e; \
	if ! $(BIN)/python -c '' 2>/dev/null; then \
		python="$$(.ci/setup_system.sh --print-python)"; \
		echo "==> Making a virtual environment in $(VENV) with $$python"; \
		"$$python" -m venv --clear $(VENV); \
	fi; \
	echo "==> Installing foretrace and the Python packages it needs into $(VENV)"; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77'; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
		--config-settings editable_mode=strict --editable '.[$(EXTRA)]'; \
	$(COMPILE); \
	rm -f $(VENV)/installed-* $(VENV)/demo-*; touch $@
