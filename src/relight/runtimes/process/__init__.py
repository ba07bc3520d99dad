"""The plain runtime: a child process on this machine, in a group of its own, that dies with its supervisor.

`runtime.ProcessRuntime` starts it; `child` watches over it, `output` carries what it prints, `terminal` hands the
terminal over and takes it back, `adopted` buries what the agent left to us.
"""

from relight.runtimes.process.runtime import ProcessRuntime

__all__ = ["ProcessRuntime"]
