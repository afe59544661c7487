"""``python -m iverson``: the command line (`iverson.cli`)."""

import sys

from iverson.cli import main

if __name__ == "__main__":
    sys.exit(main())
