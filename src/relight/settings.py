"""Every environment variable that relight reads: name, default, meaning. The reference is generated from this table.

The table is documentation; a setting is read by the code that uses it. A test checks that every variable read is listed
here, and that every one listed is read.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec


class Setting(msgspec.Struct, frozen=True):
    """One environment variable that relight reads."""

    name: str
    default: str
    """what applies if it is not set, in words"""
    meaning: str
    for_people: bool = True
    """False: set by relight itself or by its tests"""


_own = partial(Setting, for_people=False)

SETTINGS: Final = (
    Setting(
        "RELIGHT_STORE",
        "`relight/relight.db` in the user's data directory",
        "Where sessions are stored: the path of an SQLite file, or an address such as `sqlite:////var/r.db` or"
        " `postgresql://user@host/database`.",
    ),
    Setting(
        "RELIGHT_BLOBS",
        "a directory of the store's own: beside the file, or in the user's data directory where it is a server",
        "Where captured files are stored: a directory of this machine, for a store on a server; or remotely, so that"
        " any machine can restore them: `s3://bucket/prefix` (object storage), `postgresql:` (the store's own"
        " database), `file:///shared/directory`.",
    ),
    Setting(
        "RELIGHT_BLOB_CACHE",
        "`4 GB`",
        "Size limit of the local cache of captured files that are stored remotely; `none`: no limit.",
    ),
    Setting(
        "RELIGHT_WORKSPACES",
        "`tree`, relight's own",
        "What captures files: the name of an entry point in the group `relight.workspaces`.",
    ),
    Setting(
        "RELIGHT_S3_ENDPOINT",
        "`AWS_ENDPOINT_URL_S3`, else `AWS_ENDPOINT_URL`, else Amazon's for the region",
        "The address of object storage, such as `https://minio.example:9000`.",
    ),
    Setting("RELIGHT_S3_STYLE", "`path`", "`virtual`: the endpoint's host name contains the bucket."),
    Setting("AWS_ENDPOINT_URL_S3", "none", "The address of object storage, as other programs read it."),
    Setting("AWS_ENDPOINT_URL", "none", "The address of all AWS services, if AWS_ENDPOINT_URL_S3 is not set."),
    Setting("AWS_REGION", "`AWS_DEFAULT_REGION`, else `us-east-1`", "The region of the bucket."),
    Setting("AWS_DEFAULT_REGION", "none", "The region of the bucket, if AWS_REGION is not set."),
    Setting("AWS_ACCESS_KEY_ID", "the role of the machine or container", "The access key id for object storage."),
    Setting(
        "AWS_SECRET_ACCESS_KEY",
        "the role of the machine or container",
        "The secret access key for object storage.",
    ),
    Setting("AWS_SESSION_TOKEN", "none", "The session token, if the access key is a temporary one."),
    Setting(
        "RELIGHT_DURABILITY",
        "that of the store; see `relight doctor`",
        "The least that an acknowledged step has to survive: `power-loss`, `process-crash` or `none`. A store with"
        " less is refused.",
    ),
    Setting(
        "RELIGHT_CONFIG",
        "`relight/config.toml` in the user's configuration directory, if it is there",
        "The configuration file. Only the environment can name it.",
    ),
    Setting(
        "XDG_CONFIG_HOME",
        "`~/.config`, on macOS `~/Library/Application Support`",
        "The user's configuration directory.",
    ),
    Setting(
        "XDG_DATA_HOME",
        "`~/.local/share`, on macOS `~/Library/Application Support`",
        "The user's data directory.",
    ),
    Setting("HOME", "none: then RELIGHT_STORE or XDG_DATA_HOME has to be set", "Where the data directory is found."),
    Setting(
        "RELIGHT_CACHE_MINUTES",
        "`5`",
        "How long the provider caches a prompt: a resume later than that pays for the whole prompt again, and its"
        " plan says so.",
    ),
    Setting(
        "RELIGHT_PRICES",
        "the dated table that `relight doctor --prices` shows",
        'A TOML file with your own prices, which take precedence: `[models."NAME"]` with `input`, `output`,'
        " `cache_read` and `cache_write` in US dollars for a million tokens.",
    ),
    Setting(
        "RELIGHT_NOTIFY_SECRET",
        "webhooks are not signed",
        "Key with which `relight notify` signs what it sends to a webhook: `Relight-Signature: t=SECONDS,v1=HMAC`.",
    ),
    Setting("RELIGHT_NTFY_TOKEN", "no token", "Access token for the ntfy server that `relight notify` uses."),
    Setting("RELIGHT_HINTS", "hints are shown", "`0` silences the hints and notices of commands."),
    Setting("NO_COLOR", "colours on a terminal", "If not empty: no colour."),
    Setting("CLICOLOR_FORCE", "`0`", "Anything but `0`: colour in a pipe too."),
    Setting("TERM", "what the terminal says", "`dumb`: no colour."),
    Setting("COLUMNS", "what the terminal says, else 80", "The width to draw for."),
    Setting(
        "ACCESSIBLE",
        "`0`",
        "Anything but `0`: plain lines instead of tables, nothing is redrawn, no spinner; as `--plain`.",
    ),
    Setting(
        "RELIGHT_INCLUDE",
        "nothing that is ignored or secret is captured",
        "Patterns as in `.gitignore`, separated by colons: files that are captured although they are ignored or"
        " secret, such as `.env:build/report.html`.",
    ),
    Setting(
        "RELIGHT_FILE_CAP",
        "`100 MB`",
        "A larger file of a workspace is not captured; `show` and `restore` name it. Sizes: `k`, `M`, `G`, `T` are"
        " powers of 1024.",
    ),
    Setting(
        "RELIGHT_QUOTA",
        "`100 GB`",
        "Size limit of the captured files of one workspace on disk; `none`: no limit. A capture that would exceed it"
        " is refused; the step is committed with a note.",
    ),
    Setting("RELIGHT_FREE_FLOOR", "`200 MB`", "Free disk space below which nothing is captured; `none`: no limit."),
    Setting(
        "RELIGHT_NATIVE",
        "the compiled scanner, where the install built one (Linux with a C compiler)",
        "`0`: directories are scanned in Python only. During the build of a wheel: the wheel is pure.",
    ),
    Setting(
        "RELIGHT_TOKEN",
        "a random one, in the file `server/token` beside the store",
        "The server's own token, with every right; at least 16 characters.",
    ),
    Setting(
        "RELIGHT_CALLBACK_ALLOW",
        "none: callbacks reach public addresses only",
        "Host names, addresses or networks, separated by commas, that a callback may reach although they are not"
        " public.",
    ),
    _own(
        "SSH_CONNECTION",
        "what ssh sets",
        "Whether one sits at another machine: `relight serve` then says how to reach it from there.",
    ),
    _own("DISPLAY", "what the desktop sets", "Whether there is a screen on which `relight serve` can open a browser."),
    Setting(
        "RELIGHT_LEASE_SECONDS",
        "`30`",
        "How long a lease lasts without a heartbeat; after that another worker takes the session over.",
    ),
    Setting(
        "RELIGHT_REDACT",
        "what relight records about a program is redacted, and the conversations of coding agents",
        "`all`: the data of programs too (messages, arguments, results, state, the values of frameworks), as"
        " `redact=True` does for one session.",
    ),
    Setting(
        "RELIGHT_SWEEP_SECONDS",
        "`5`",
        "How often a worker searches for sessions whose owner is lost; as `relight worker --sweep`.",
    ),
    Setting(
        "RELIGHT_RETENTION",
        "none: nothing is removed by itself (Redis: finished sessions expire after 7 days)",
        "How long finished sessions are stored, as for `relight sweep --set`: `7d`, `36h`, `2w` or `off`. Servers,"
        " workers and supervisors that have it set it as the store's policy, and sweep once a day.",
    ),
    Setting(
        "RELIGHT_ENGINE",
        "`procrastinate` on PostgreSQL where `relight[fleet]` is installed, else `embedded`",
        "The wakeup engine: `embedded` polls the store, `procrastinate` uses jobs in the same database.",
    ),
    _own(
        "RELIGHT_ATTEND",
        "none",
        "The owner id under which a worker holds the lease that it hands over to the process it starts.",
    ),
    _own("RELIGHT_WORKER", "none", "The name of the worker that started this process."),
    _own(
        "RELIGHT_SESSION",
        "none",
        "The session that `relight run` started the program for: it opens this one, whatever name it asks for.",
    ),
    Setting(
        "RELIGHT_SECRETS",
        "variables whose names look like secrets",
        "Names of further variables, separated by commas, whose values are redacted everywhere; `--secret` adds to it.",
    ),
    _own(
        "RELIGHT_PARENT",
        "none",
        "The session whose program started this process: sessions that it opens are recorded as begun by it.",
    ),
    _own(
        "RELIGHT_OWNER",
        "none",
        "The owner id under which the supervisor holds that session's lease, so that its program may take it.",
    ),
    _own(
        "RELIGHT_COMMAND",
        "none",
        "The command line of the session that a supervisor in the background starts: its record holds no secrets."
        " Taken out of the environment at once.",
    ),
    _own(
        "RELIGHT_SUPERVISOR",
        "none",
        "Pid and start time of the supervisor of a program, so that `relight stop` can ask it.",
    ),
    _own(
        "RELIGHT_AGENT",
        "none",
        "Set for a coding agent: a program that it runs is not its session, and does not take it over.",
    ),
    _own("RELIGHT_HOOK_SOCKET", "none", "Where the hooks of a coding agent reach its supervisor."),
    _own(
        "RELIGHT_CONFINED",
        "none",
        "Set by a sandbox: what a link in the agent's home leads to outside is not the agent's.",
    ),
    _own("RELIGHT_HOOK_LOG", "none", "Where such a hook writes what went wrong on our side."),
    _own("RELIGHT_EPOCH", "none", "The epoch of the supervisor's lease, for a hook that has to write without it."),
    _own(
        "ANTHROPIC_MODEL",
        "what Claude Code is configured with",
        "The model that Claude Code will use, so that a budget without a price for it is refused at the start.",
    ),
    _own("TMUX", "what tmux sets", "Whether one sits in a tmux already, which `relight attach` has to know."),
    _own(
        "RELIGHT_FAULT",
        "none",
        "`POINT:NTH:kill` or `POINT:NTH:raise`, with commas between several: dies at a fault point, for tests.",
    ),
    _own(
        "RELIGHT_LEAST_WAIT",
        "`60`",
        "Seconds that a usage limit is waited for at least, and beyond its reset; for tests.",
    ),
    _own(
        "_RELIGHT_COMPLETE",
        "none",
        "Set by the script of `relight completion`: answer what could come next, and do nothing else.",
    ),
)
