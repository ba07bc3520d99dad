"""The sandbox runtime: wraps another runtime's command in bubblewrap, with a restricted view of the file system.

`runtime.SandboxRuntime` builds the `bwrap` command line and passes it to the inner runtime; `view` decides what can be
read and written inside, `child` maps signals and exit codes through bwrap.
"""

from relight.runtimes.sandbox.runtime import SandboxRuntime

__all__ = ["SandboxRuntime"]
