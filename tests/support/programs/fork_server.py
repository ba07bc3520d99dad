"""Starts real processes fast: the library is imported once, and each child is a fork that runs one program.

Reads one JSON request a line: {"run": NAME, "with": {...}, "fault": SETTING} answers {"pid": N}; {"wait": N} waits for
that child and answers {"status": wait status, "said": what it wrote on stderr}. It holds no store, no thread and no
lock, so a fork of it is as clean as a new interpreter. It ends with its standard input, and its children with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from typing import Any

import relight
from relight.ports import faults

PR_SET_PDEATHSIG = 1


def child(request: dict[str, Any], stderr: int) -> None:
    """Run one program and end, whatever happens, without touching what the parent has open."""
    status = 70
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(stderr, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        faults.arm_from(request.get("fault", ""))
        program = importlib.import_module(f"tests.support.programs.{request['run']}")
        program.main(**request["with"])
        status = 0
    except relight.RelightError as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "backslashreplace"))
        status = error.exit_code
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        os._exit(status)


def main() -> None:
    said: dict[int, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "run" in request:
            stderr = tempfile.TemporaryFile()  # noqa: SIM115
            pid = os.fork()
            if pid == 0:
                child(request, stderr.fileno())
            said[pid] = stderr
            answer: dict[str, Any] = {"pid": pid}
        else:
            _, status = os.waitpid(request["wait"], 0)
            with contextlib.closing(said.pop(request["wait"])) as stderr:
                stderr.seek(0)
                answer = {"status": status, "said": stderr.read().decode("utf-8", "replace")}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    for name in ("appender", "agent", "writer", "file_op", "workspace_op"):
        importlib.import_module(f"tests.support.programs.{name}")
    importlib.import_module("relight.stores.sqlite.store")
    main()
