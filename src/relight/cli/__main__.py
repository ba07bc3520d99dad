"""`python -m relight.cli`: the command without its script on the path; child processes are started this way."""

import sys

from relight.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
