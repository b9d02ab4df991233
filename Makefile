# Needs python3 (with venv and pip), git and a package index; the rest is made in .venvs/.
# ARGS goes to pytest:    make test ARGS="-k demo -x"
# ROWS chooses versions:  make test ROWS=dvc3.67-py3.11
PYTHON ?= python3
ROWS ?=
ARGS ?=
MATRIX = $(PYTHON) tests/matrix.py $(if $(ROWS),--rows $(ROWS))

.PHONY: test between proof lint demo clean

test:
	@$(MATRIX) -- -m "not proof and not slow" $(ARGS)

# What depends on the release, on some of those between the ones that `make test` runs on.
between:
	@$(PYTHON) tests/matrix.py --no-lint --between -- -m "not proof and not slow" $(ARGS)

# Kills, full disks and power cuts: long, and as root for the loop file systems.
proof:
	@$(MATRIX) --no-lint -- -m "proof or slow" $(ARGS)

lint:
	@$(PYTHON) tests/matrix.py --lint

demo:
	@$(PYTHON) tests/matrix.py --demo

clean:
	rm -rf .venvs dist build .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
