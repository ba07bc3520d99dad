"""The tmux runtime: an agent runs in a terminal that outlives it and its supervisor, and that a person can attach to.

`runtime.TmuxRuntime` implements the port; `server` runs tmux commands, `child` polls and signals one process,
`foreground` finds the process that would read typed text, `launch` is the script that becomes the agent in the pane,
`log_pane` writes the log.

The tmux server is our own: its socket is in our directory, and no ~/.tmux.conf is read, because a hook or a default
command in it could put a shell where the agent was. Commands and variables pass through no shell, no tmux parser and no
command line: the pane starts `launch` with the name of a private file that contains them.
"""

from relight.runtimes.tmux.runtime import TmuxRuntime

__all__ = ["TmuxRuntime"]
