# make demo: install into .venv and run jitmod on the bundled example.
# make test: install with the test extras and run everything that CI checks.
# The Python of .venv is PYTHON (make test PYTHON=python3.12); 3.11 or newer.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/made-with-$(subst /,_,$(PYTHON))
UV := $(shell command -v uv 2>/dev/null)

ifeq ($(UV),)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CREATE := $(PYTHON) -m venv $(VENV)
else
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
CREATE := $(UV) venv --quiet --python $(PYTHON) $(VENV)
endif

.PHONY: demo picture training kitchen test oracle graphs carries programs slow contract kills statistics engine robust cluster memory clean

demo: $(VENV)/demo.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/run_demo.sh

# The example of a training loop in full: the script, which is part of the demo, and the notebook, which takes minutes.
training: $(VENV)/demo.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/run_training.sh

# The picture of the README, from what the demo prints.
picture: $(VENV)/demo.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/run_demo.sh | $(BIN)/python docs/draw.py > $(VENV)/demo.svg
	mv $(VENV)/demo.svg docs/demo.svg

# All codemods on one project.
kitchen: $(VENV)/demo.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/run_kitchen.sh

test: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy src codemods
	$(BIN)/pytest -n 2

# Twenty thousand generated loops against the replay of their plans.
oracle: $(VENV)/test.stamp
	$(BIN)/python benchmarks/oracle.py 20000

# Five hundred generated call graphs before and after the codemods of boundaries.
graphs: $(VENV)/test.stamp
	$(BIN)/python benchmarks/call_graphs.py 500

# Five hundred generated loops with a carried state before and after scanify, and the compilation of a long RNN.
carries: $(VENV)/test.stamp
	$(BIN)/python benchmarks/carries.py 500
	$(BIN)/python benchmarks/carries.py --compile

# Five hundred generated loops through JAX, before and after vmapify, in every form.
programs: $(VENV)/test.stamp
	$(BIN)/python benchmarks/programs.py 500

# The trials that CI leaves out: CI runs one of each kind.
slow: $(VENV)/test.stamp
	JITMOD_SLOW=1 $(BIN)/pytest -n 2 -m slow tests/trial

# Every request of `jitmod pr` against GitHub's own description of its API, which comes from npm.
contract: $(VENV)/test.stamp
	npm install --silent --no-save --prefix $(VENV)/npm @octokit/openapi
	JITMOD_OPENAPI=$(CURDIR)/$(VENV)/npm/node_modules/@octokit/openapi/generated/api.github.com.json \
	  $(BIN)/pytest tests/delivery/test_contract.py

# Not in CI. kills: end trials at 30 moments, and apply and pr at 50, with SIGKILL. statistics: false accepts and power of the gate, on an idle machine.
kills: $(VENV)/test.stamp
	JITMOD_KILLS=30 $(BIN)/pytest tests/trial/test_command.py -k killed
	JITMOD_KILLS=50 $(BIN)/pytest tests/delivery/test_kills.py

statistics: $(VENV)/test.stamp
	$(BIN)/python benchmarks/gate_statistics.py collect $(VENV)/windows.json
	$(BIN)/python benchmarks/gate_statistics.py judge $(VENV)/windows.json

# How fast `jitmod check` is beside ruff and libcst, and whether anything fails on all that is installed and generated.
engine: $(VENV)/test.stamp
	$(BIN)/python benchmarks/engine.py

robust: $(VENV)/test.stamp
	$(INSTALL) hypothesmith
	$(BIN)/python benchmarks/robust.py

# Forty jobs on a Ray cluster of this machine that says it has two GPUs; one worker is killed. Then the same in turn.
cluster: $(VENV)/cluster.stamp
	$(BIN)/python benchmarks/cluster.py 40 --same-as-local

# What the compiler says that three models need against what they take, and a batch that cannot fit.
memory: $(VENV)/test.stamp
	$(BIN)/python benchmarks/memory.py

clean:
	rm -rf $(VENV)

# A stamp is older than pyproject.toml only where something has to be installed again.
$(VENV)/%.stamp: pyproject.toml $(MADE)
	$(INSTALL) --editable '.[$(EXTRAS_$*)]'
	touch $@

EXTRAS_demo := demo
EXTRAS_test := demo,test
EXTRAS_cluster := ray

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "jitmod needs Python 3.11 or newer, and $(PYTHON) is: $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12" >&2; \
	  exit 1; }
	rm -rf $(VENV)
	$(CREATE) || { rm -rf $(VENV); exit 1; }
	touch $@
