"""The tmux runtime: an agent lives in a terminal that outlasts it and its supervisor, and that a person can join.

`runtime.TmuxRuntime` is the front; `server` speaks with tmux, `child` watches over one process, `front` says who would
read what is typed, `launch` is the little program that becomes the agent inside the pane.

The server is ours alone: a socket in a directory of ours, and nobody's ~/.tmux.conf, because a hook or a default
command in it could put a shell where the agent was. No command and no variable passes through a shell, tmux's parser
or a command line: the pane starts `launch` with the name of a private file, which has them word for word.
"""

from relight.runtimes.tmux.runtime import TmuxRuntime

__all__ = ["TmuxRuntime"]
