"""What a background process prints reaches its log whole, however slowly it is redacted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, subprocess, sys, time
from relight.system import output_log

find = output_log.redactor
output_log.redactor = lambda: (time.sleep(float(sys.argv[1])), find())[1]
with output_log.cleaned_output():
    held = subprocess.Popen(["sleep", "60"])  # a program that outlives its supervisor and holds the pipe open
    print("the first line ghp_" + "a1B2c3D4" * 4 + "wxyz", flush=True)
os.write(2, b"left\\n")
held.kill()
"""


def test_leaving_waits_until_all_that_was_printed_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        words = [sys.executable, "-c", PROGRAM, "3"]  # longer than it waits for the end of the pipe
        subprocess.run(words, stdout=file, stderr=file, timeout=60, check=True)
    assert log.read_text().splitlines() == ["the first line [redacted:github-token]", "left"]
