"""The demo's own page: `--web` serves the store of the run, and the page shows its kill, its resume, files and cost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from tests.unit.demo.playing import RELIGHT, SECONDS, environment, players


class _Stay(urllib.request.HTTPRedirectHandler):
    """Who asks follows by itself."""

    def http_error_303(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        return fp


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
        browser = urllib.request.build_opener(_Stay)
        host: dict[str, str] = {}

        def page(address: str) -> str:
            """As a browser has it: the link leads to the server's own name, which is this machine."""
            for _ in range(3):
                asked = urlsplit(address)
                here = asked._replace(netloc=f"127.0.0.1:{asked.port}").geturl()
                request = urllib.request.Request(here, headers={"Accept": "text/html", "Host": asked.netloc, **host})
                with browser.open(request, timeout=SECONDS) as answer:
                    if answer.status != 303:
                        return str(answer.read().decode())
                    if answer.headers["Set-Cookie"]:
                        host["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
                    address = urljoin(address, answer.headers["Location"])
                    origins.append(address.partition("/login")[0].rstrip("/"))
            raise AssertionError("led around in circles")

        origins: list[str] = []
        first = page(link[0])
        session = re.search(r'data-id="([0-9a-f]{32})"[^>]*data-ref="demo"', first)
        assert session is not None, "the list does not hold the run"
        origin = origins[0]
        shown = page(f"{origin}/sessions/{session[1]}")
        assert "attempt 2, resumed from" in shown and "its process died" in shown
        assert "send_mail" in shown and re.search(r"<b>\$0\.\d\d</b>", shown)
        assert "cart.py" in page(f"{origin}/sessions/{session[1]}?tab=files")
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=SECONDS)
    assert child.returncode == 130
    assert players(tmp_path) == [] and list(tmp_path.glob("relight-demo-*")) == []
