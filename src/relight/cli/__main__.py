"""`python -m relight.cli`: the same command where the script is not on the path, and for our own children."""

import sys

from relight.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
