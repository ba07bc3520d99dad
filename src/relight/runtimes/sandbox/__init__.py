"""The sandbox: an agent in a view of the machine of its own, made by bubblewrap, wherever another runtime puts it.

`runtime.SandboxRuntime` turns the command into one of `bwrap` and gives it to the runtime inside; `view` says what can
be seen and written, `child` brings signals and exits through the wall.
"""

from relight.runtimes.sandbox.runtime import SandboxRuntime

__all__ = ["SandboxRuntime"]
