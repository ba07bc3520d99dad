"""The demo's own page: `--web` serves the store of the run, and the page shows its kill, its resume, files and cost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

from tests.demo.playing import RELIGHT, SECONDS, environment, players


def test_the_page_of_the_run_shows_its_kill_resume_files_and_cost(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", RELIGHT, "demo", "--fast", "--web"],
        env=environment(tmp_path, DISPLAY=None, SSH_CONNECTION=None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert child.stdout is not None
        told = ""
        for line in child.stdout:
            told += line
            if "the page of this run stays" in line:
                break
        link = re.search(r"http://127\.0\.0\.1:\d+/login\?code=\S+", told)
        assert link is not None, told
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

        def page(address: str) -> str:
            request = urllib.request.Request(address, headers={"Accept": "text/html"})
            with browser.open(request, timeout=SECONDS) as answer:
                return str(answer.read().decode())

        first = page(link[0])
        session = re.search(r'data-id="([0-9a-f]{32})"[^>]*data-ref="demo"', first)
        assert session is not None, "the list does not hold the run"
        origin = link[0].partition("/login")[0]
        shown = page(f"{origin}/sessions/{session[1]}")
        assert "attempt 2, resumed from" in shown and "its process died" in shown
        assert "send_mail" in shown and re.search(r"<b>\$0\.\d\d</b>", shown)
        assert "cart.py" in page(f"{origin}/sessions/{session[1]}?tab=files")
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=SECONDS)
    assert child.returncode == 130
    assert players(tmp_path) == [] and list(tmp_path.glob("relight-demo-*")) == []
