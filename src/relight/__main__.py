"""`python -m relight`: the command line."""

from relight.cli.main import main

main()
