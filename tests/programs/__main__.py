"""A run of random programs, and a table of it: ``python -m tests.programs FIRST LAST [PROCESSES]``."""

import sys

from tests.programs.tally import run

if __name__ == "__main__":
    run(*map(int, sys.argv[1:4]))
