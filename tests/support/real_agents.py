"""Real coding agents, driven offline: installed once into a cache, started in a home of their own.

Versions are pinned: a newer agent is a decision, not a surprise. The native binaries are started, not the npm
wrappers, so that a kill hits the agent. Every run has a blank HOME, a fake key, and the fake model's URL; nothing
else of the caller's environment reaches it. `isolated` puts a command into a network namespace that has only `lo`.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CLAUDE_VERSION: Final = "2.1.325"
CODEX_VERSION: Final = "0.166.0"
PI_VERSION: Final = "0.73.1"
OPENCODE_VERSION: Final = "1.18.33"
GEMINI_VERSION: Final = "0.61.0"
INSTALL_SECONDS: Final = 900
CLAUDE_KEY: Final = "sk-ant-fake-key-of-the-relight-tests-0000"
CODEX_KEY_NAME: Final = "FAKE_KEY"
PI_KEY_NAME: Final = "FAKE_PI_KEY"
PI_PRICES: Final = {"input": 1.0, "output": 2.0, "cacheRead": 0.1, "cacheWrite": 1.25}
"""dollars for a million tokens"""
_CACHE: Final = Path(os.environ.get("RELIGHT_AGENT_CACHE") or Path.home() / ".cache" / "relight-agents")
"""of whoever runs the tests: read before these get a home of their own"""
_PLATFORM: Final = f"linux-{'arm64' if platform.machine() in {'aarch64', 'arm64'} else 'x64'}"
_PASSED: Final = ("PATH", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR")
_CONFIG: Final = """\
model = "fake-model"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "{key_name}"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false

[analytics]
enabled = false

[features]
apps = false
plugins = false
remote_plugin = false
daemon_auto_start = {daemon}
enable_request_compression = false

[projects."{cwd}"]
trust_level = "trusted"
"""


# ---------------------------------------------------------------- installing


def cache() -> Path:
    """Where the agents are kept between runs."""
    return _CACHE


def installed(*packages: str) -> Path:
    """The npm prefix with Claude Code and Codex, or with these packages, installing it if need be. One process
    installs, the others wait."""
    prefix = cache() / f"claude-{CLAUDE_VERSION}-codex-{CODEX_VERSION}"
    if packages:
        prefix = cache() / re.sub(r"[^a-z0-9.]+", "-", "-".join(packages)).strip("-")
    if prefix.is_dir():
        return prefix
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not prefix.is_dir():
            both = [f"@anthropic-ai/claude-code@{CLAUDE_VERSION}", f"@openai/codex@{CODEX_VERSION}"]
            _install(prefix, list(packages) or both)
    return prefix


def _install(prefix: Path, packages: list[str]) -> None:
    if shutil.which("npm") is None:
        raise RuntimeError("npm is missing: it installs the agents (apt install npm)")
    partial = Path(tempfile.mkdtemp(dir=cache(), prefix="installing-"))
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    try:
        subprocess.run(
            ["npm", "install", "--prefix", str(partial), *quiet, *packages],
            check=True,
            timeout=INSTALL_SECONDS,
            stdout=subprocess.DEVNULL,
            env={**_trusted(), **os.environ},
        )
        partial.rename(prefix)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _trusted() -> dict[str, str]:
    """Node trusts a list of its own; where others are given one, or the system has one, that is meant too."""
    for location in (os.environ.get("SSL_CERT_FILE", ""), "/etc/ssl/certs/ca-certificates.crt"):
        if location and Path(location).is_file():
            return {"NODE_EXTRA_CA_CERTS": location}
    return {}


def claude_binary() -> Path:
    """The native Claude Code."""
    return _binary(f"@anthropic-ai/claude-code-{_PLATFORM}/claude")


def codex_binary() -> Path:
    """The native Codex."""
    return _binary(f"@openai/codex-{_PLATFORM}/vendor/*/bin/codex")


def pi_script() -> Path:
    """pi, which Node runs."""
    return installed(f"@mariozechner/pi-coding-agent@{PI_VERSION}") / "node_modules/.bin/pi"


def opencode_binary() -> Path:
    """The native opencode."""
    prefix = installed(f"opencode-ai@{OPENCODE_VERSION}")
    return prefix / f"node_modules/opencode-{_PLATFORM}/bin/opencode"


def gemini_script() -> Path:
    """Gemini CLI, which Node runs."""
    return installed(f"@google/gemini-cli@{GEMINI_VERSION}") / "node_modules/.bin/gemini"


def node() -> Path:
    """The program that runs agents written in JavaScript."""
    found = shutil.which("node")
    if found is None:
        raise RuntimeError("node is missing: it runs pi and Gemini CLI (apt install nodejs)")
    return Path(found).resolve()


def _binary(pattern: str) -> Path:
    [found] = (installed() / "node_modules").glob(pattern)
    return found


# ---------------------------------------------------------------- running


@dataclass(frozen=True, kw_only=True)
class Claude:
    """Claude Code in a home of its own."""

    home: Path
    cwd: Path
    url: str
    extra: dict[str, str] = field(default_factory=dict)
    """more environment, such as CLAUDE_CODE_OAUTH_TOKEN or CLAUDE_CODE_MAX_RETRIES"""

    def environment(self) -> dict[str, str]:
        quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")
        given = {
            **_passed(),
            "HOME": str(self.home),
            "TZ": "UTC",
            "IS_SANDBOX": "1",  # needed as root
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": CLAUDE_KEY,
            "DISABLE_AUTOUPDATER": "1",
            **dict.fromkeys(quiet, "1"),
            **self.extra,
        }
        if "CLAUDE_CODE_OAUTH_TOKEN" in given:
            del given["ANTHROPIC_API_KEY"]
        return given

    def start(self, prompt: str, session: str, *more: str) -> list[str]:
        """A new session under an id of our choice."""
        return [*self._base(), prompt, "--session-id", session, *self._output(), *more]

    def resume(self, prompt: str, session: str, *more: str) -> list[str]:
        """The same session with one more prompt."""
        return [*self._base(), prompt, "--resume", session, *self._output(), *more]

    def transcript(self, session: str) -> Path:
        """The JSONL of a session; the directory is named by the real path of cwd."""
        key = re.sub(r"[^a-zA-Z0-9]", "-", str(self.cwd.resolve()))
        return self.home / ".claude" / "projects" / key / f"{session}.jsonl"

    @staticmethod
    def new_session() -> str:
        return str(uuid.uuid4())

    @staticmethod
    def _base() -> list[str]:
        return [str(claude_binary()), "-p"]

    @staticmethod
    def _output() -> list[str]:
        return ["--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]


@dataclass(frozen=True, kw_only=True)
class Codex:
    """Codex in a home of its own."""

    home: Path
    cwd: Path
    url: str
    extra: dict[str, str] = field(default_factory=dict)
    daemon: bool = False
    """its own default is True: on a screen it is a front end of a daemon, which it starts"""

    def environment(self) -> dict[str, str]:
        return {**_passed(), "HOME": str(self.home), "TZ": "UTC", CODEX_KEY_NAME: "fake", **self.extra}

    def configure(self) -> Path:
        """Write config.toml; again for another URL or directory."""
        config = self.home / ".codex" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        daemon = "true" if self.daemon else "false"
        config.write_text(_CONFIG.format(url=self.url, cwd=self.cwd.resolve(), key_name=CODEX_KEY_NAME, daemon=daemon))
        return config

    def start(self, prompt: str, *more: str) -> list[str]:
        """A new thread; its id is in the line thread.started."""
        self.configure()
        return [str(codex_binary()), "exec", "--json", "--skip-git-repo-check", *more, prompt]

    def resume(self, prompt: str, thread: str, *more: str) -> list[str]:
        """The same thread with one more prompt. Compare thread_id: an unknown name silently starts a new one."""
        self.configure()
        return [str(codex_binary()), "exec", "resume", "--json", "--skip-git-repo-check", *more, thread, prompt]

    def rollouts(self) -> list[Path]:
        """Every rollout in this home, oldest first."""
        return sorted((self.home / ".codex" / "sessions").rglob("rollout-*.jsonl"))


@dataclass(frozen=True, kw_only=True)
class Pi:
    """pi in a home of its own."""

    home: Path
    cwd: Path
    url: str
    extra: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        given = {"HOME": str(self.home), "TZ": "UTC", "PI_OFFLINE": "1", PI_KEY_NAME: "fake-key-of-pi"}
        return {**_passed(), **given, **self.extra}

    def configure(self) -> None:
        """Write its models and settings; again for another URL."""
        model = {"id": "fake-model", "contextWindow": 200_000, "maxTokens": 8000, "cost": PI_PRICES}
        model["input"] = ["text", "image"]
        provider = {"baseUrl": f"{self.url}/v1", "api": "openai-completions", "apiKey": PI_KEY_NAME, "models": [model]}
        settings = {"defaultProvider": "fake", "defaultModel": "fake-model", "retry": {"enabled": False}}
        directory = self.home / ".pi" / "agent"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "models.json").write_text(json.dumps({"providers": {"fake": provider}}))
        (directory / "settings.json").write_text(json.dumps(settings))


@dataclass(frozen=True, kw_only=True)
class Opencode:
    """opencode in a home of its own."""

    home: Path
    cwd: Path
    url: str
    extra: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {
            **_passed(),
            "HOME": str(self.home),
            "TZ": "UTC",
            "OPENCODE_CONFIG_CONTENT": json.dumps(self._config()),
            "npm_config_offline": "true",
            "npm_config_fetch_retries": "0",
            **{f"OPENCODE_DISABLE_{name}": "1" for name in names},
            **self.extra,
        }

    def _config(self) -> dict[str, object]:
        prices = {"input": 1.0, "output": 2.0, "cache_read": 0.1}
        model = {"name": "fake", "limit": {"context": 200_000, "output": 8000}, "cost": prices, "attachment": True}
        model["modalities"] = {"input": ["text", "image"], "output": ["text"]}
        options = {"baseURL": f"{self.url}/v1", "apiKey": "fake"}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": options}
        return {
            "model": "fake/fake-model",
            "small_model": "fake/fake-model",
            "autoupdate": False,
            "share": "disabled",
            "permission": "allow",
            "provider": {"fake": {**provider, "models": {"fake-model": model}}},
        }


@dataclass(frozen=True, kw_only=True)
class Gemini:
    """Gemini CLI in a home of its own."""

    home: Path
    cwd: Path
    url: str
    extra: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        given = {"HOME": str(self.home), "TZ": "UTC", "GEMINI_API_KEY": "fake-key-of-gemini"}
        return {**_passed(), **given, "GOOGLE_GEMINI_BASE_URL": self.url, **self.extra}

    def configure(self) -> None:
        """Write its settings."""
        settings = {
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "maxAttempts": 1},
            "privacy": {"usageStatisticsEnabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        }
        directory = self.home / ".gemini"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "settings.json").write_text(json.dumps(settings))
        (directory / "policies").mkdir(exist_ok=True)
        rule = '[[rule]]\ntoolName = "*"\ndecision = "allow"\npriority = 900\nallowRedirection = true\n'
        (directory / "policies" / "all.toml").write_text(rule)


def spawn(agent: Claude | Codex, command: list[str], output: Path) -> subprocess.Popen[bytes]:
    """Start an agent in a process group of its own; stdout to a file, stderr beside it."""
    with output.open("ab") as stdout, output.with_suffix(".err").open("ab") as stderr:
        return subprocess.Popen(
            command,
            cwd=agent.cwd,
            env=agent.environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


def run(agent: Claude | Codex, command: list[str], seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run an agent to its end."""
    return subprocess.run(
        command,
        cwd=agent.cwd,
        env=agent.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def isolated(command: list[str]) -> list[str]:
    """The command in a network namespace with nothing but `lo`, where this machine allows it; else as it is. It may
    mount file systems, which nobody else sees.

    The fake model has to run inside of the same one: wrap the test process, not the agent.
    """
    if not can_isolate():
        return command
    return ["unshare", "-rnm", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]


def can_isolate() -> bool:
    """May this process make a network namespace?"""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    probe = subprocess.run(["unshare", "-rnm", "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    return probe.returncode == 0


def _passed() -> dict[str, str]:
    return {name: os.environ[name] for name in _PASSED if name in os.environ}
