"""`python -m relight.processes.sweep BY`: the daily sweep, if one is due, in a process of its own."""

from __future__ import annotations

import sys

from relight.errors import RelightError


def main(by: str) -> int:
    """Sweep under the store's policy. A failure is not reported: another day's sweep does the work."""
    import relight

    try:
        with relight.open(create=False, ready=False) as rl:
            rl.admin.sweep_if_due(by=by)
    except RelightError as error:
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
