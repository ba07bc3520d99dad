"""The process runtime: a child process on this machine, in its own group, that dies with its supervisor.

`runtime.ProcessRuntime` starts it, `child` polls and signals it, `output` copies and logs what it prints, `terminal`
passes the terminal to it and back, `subreaper` reaps orphans that it leaves to us, `guard` ends it with us where the
kernel does not.
"""

from relight.runtimes.process.runtime import ProcessRuntime

__all__ = ["ProcessRuntime"]
