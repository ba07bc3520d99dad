"""`python -m relight`: the command line."""

import sys

from relight.cli.main import main

sys.exit(main())
