"""Every environment variable that relight reads: name, default, meaning. The reference is generated from this table.

The table is documentation; a setting is read by the code that uses it. A test checks that every variable read is listed
here, and that every one listed is read.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One environment variable that relight reads."""

    name: str
    default: str
    """what applies if it is not set, in words"""
    meaning: str
    for_people: bool = True
    """False: set by relight itself or by its tests"""


SETTINGS: Final = (
    Setting(
        name="RELIGHT_STORE",
        default="`relight/relight.db` in the user's data directory",
        meaning="Where sessions are stored: the path of an SQLite file, or an address such as `sqlite:////var/r.db` or"
        " `postgresql://user@host/database`.",
    ),
    Setting(
        name="RELIGHT_BLOBS",
        default="a directory of the store's own: beside the file, or in the user's data directory where it is a server",
        meaning="Where captured files are stored: a directory of this machine, for a store on a server; or remotely, so"
        " that any machine can restore them: `s3://bucket/prefix` (object storage), `postgresql:` (the store's own"
        " database), `file:///shared/directory`.",
    ),
    Setting(
        name="RELIGHT_BLOB_CACHE",
        default="`4 GB`",
        meaning="Size limit of the local cache of captured files that are stored remotely; `none`: no limit.",
    ),
    Setting(
        name="RELIGHT_S3_ENDPOINT",
        default="`AWS_ENDPOINT_URL_S3`, else `AWS_ENDPOINT_URL`, else Amazon's for the region",
        meaning="The address of object storage, such as `https://minio.example:9000`.",
    ),
    Setting(
        name="RELIGHT_S3_STYLE",
        default="`path`",
        meaning="`virtual`: the endpoint's host name contains the bucket.",
    ),
    Setting(
        name="AWS_ENDPOINT_URL_S3",
        default="none",
        meaning="The address of object storage, as other programs read it.",
    ),
    Setting(
        name="AWS_ENDPOINT_URL",
        default="none",
        meaning="The address of all AWS services, if AWS_ENDPOINT_URL_S3 is not set.",
    ),
    Setting(
        name="AWS_REGION",
        default="`AWS_DEFAULT_REGION`, else `us-east-1`",
        meaning="The region of the bucket.",
    ),
    Setting(
        name="AWS_DEFAULT_REGION",
        default="none",
        meaning="The region of the bucket, if AWS_REGION is not set.",
    ),
    Setting(
        name="AWS_ACCESS_KEY_ID",
        default="the role of the machine or container",
        meaning="The access key id for object storage.",
    ),
    Setting(
        name="AWS_SECRET_ACCESS_KEY",
        default="the role of the machine or container",
        meaning="The secret access key for object storage.",
    ),
    Setting(
        name="AWS_SESSION_TOKEN",
        default="none",
        meaning="The session token, if the access key is a temporary one.",
    ),
    Setting(
        name="RELIGHT_DURABILITY",
        default="that of the store; see `relight doctor`",
        meaning="The least that an acknowledged step has to survive: `power-loss`, `process-crash` or `none`. A store"
        " with less is refused.",
    ),
    Setting(
        name="RELIGHT_CONFIG",
        default="`relight/config.toml` in the user's configuration directory, if it is there",
        meaning="The configuration file. Only the environment can name it.",
    ),
    Setting(
        name="XDG_CONFIG_HOME",
        default="`~/.config`, on macOS `~/Library/Application Support`",
        meaning="The user's configuration directory.",
    ),
    Setting(
        name="XDG_DATA_HOME",
        default="`~/.local/share`, on macOS `~/Library/Application Support`",
        meaning="The user's data directory.",
    ),
    Setting(
        name="HOME",
        default="none: then RELIGHT_STORE or XDG_DATA_HOME has to be set",
        meaning="Where the data directory is found.",
    ),
    Setting(
        name="RELIGHT_CACHE_MINUTES",
        default="`5`",
        meaning="How long the provider caches a prompt: a resume later than that pays for the whole prompt again, and"
        " its plan says so.",
    ),
    Setting(
        name="RELIGHT_PRICES",
        default="the dated table that `relight doctor --prices` shows",
        meaning='A TOML file with your own prices, which take precedence: `[models."NAME"]` with `input`,'
        " `output`, `cache_read` and `cache_write` in US dollars for a million tokens.",
    ),
    Setting(
        name="RELIGHT_HINTS",
        default="hints are shown",
        meaning="`0` silences hints and the line that says that a session continues.",
    ),
    Setting(
        name="NO_COLOR",
        default="colours on a terminal",
        meaning="If not empty: no colour.",
    ),
    Setting(
        name="CLICOLOR_FORCE",
        default="`0`",
        meaning="Anything but `0`: colour in a pipe too.",
    ),
    Setting(
        name="TERM",
        default="what the terminal says",
        meaning="`dumb`: no colour.",
    ),
    Setting(
        name="COLUMNS",
        default="what the terminal says, else 80",
        meaning="The width to draw for.",
    ),
    Setting(
        name="ACCESSIBLE",
        default="`0`",
        meaning="Anything but `0`: plain lines instead of tables, nothing is redrawn, no spinner; as `--plain`.",
    ),
    Setting(
        name="RELIGHT_INCLUDE",
        default="nothing that is ignored or secret is captured",
        meaning="Patterns as in `.gitignore`, separated by colons: files that are captured although they are ignored or"
        " secret, such as `.env:build/report.html`.",
    ),
    Setting(
        name="RELIGHT_FILE_CAP",
        default="`100 MB`",
        meaning="A larger file of a workspace is not captured; `show` and `restore` name it. Sizes: `k`, `M`, `G`, `T`"
        " are powers of 1024.",
    ),
    Setting(
        name="RELIGHT_QUOTA",
        default="`100 GB`",
        meaning="Size limit of the captured files of one workspace on disk; `none`: no limit. A capture that would"
        " exceed it is refused; the step is committed with a note.",
    ),
    Setting(
        name="RELIGHT_FREE_FLOOR",
        default="`200 MB`",
        meaning="Free disk space below which nothing is captured; `none`: no limit.",
    ),
    Setting(
        name="RELIGHT_NATIVE",
        default="the compiled scanner, where the install built one (Linux with a C compiler)",
        meaning="`0`: directories are scanned in Python only. During the build of a wheel: the wheel is pure.",
    ),
    Setting(
        name="RELIGHT_TOKEN",
        default="a random one, in the file `server/token` beside the store",
        meaning="The server's own token, with every right; at least 16 characters.",
    ),
    Setting(
        name="RELIGHT_CALLBACK_ALLOW",
        default="none: callbacks reach public addresses only",
        meaning="Host names, addresses or networks, separated by commas, that a callback may reach although they are"
        " not public.",
    ),
    Setting(
        name="SSH_CONNECTION",
        default="what ssh sets",
        meaning="Whether one sits at another machine: `relight serve` then says how to reach it from there.",
        for_people=False,
    ),
    Setting(
        name="DISPLAY",
        default="what the desktop sets",
        meaning="Whether there is a screen on which `relight serve` can open a browser.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_LEASE_SECONDS",
        default="`30`",
        meaning="How long a lease lasts without a heartbeat; after that another worker takes the session over.",
    ),
    Setting(
        name="RELIGHT_REDACT",
        default="what relight records about a program is redacted, and the conversations of coding agents",
        meaning="`all`: the data of programs too (messages, arguments, results, state, the values of frameworks), as"
        " `redact=True` does for one session.",
    ),
    Setting(
        name="RELIGHT_SWEEP_SECONDS",
        default="`5`",
        meaning="How often a worker searches for sessions whose owner is lost; as `relight worker --sweep`.",
    ),
    Setting(
        name="RELIGHT_RETENTION",
        default="none: nothing is removed by itself (Redis: finished sessions expire after 7 days)",
        meaning="How long finished sessions are stored, as for `relight sweep --set`: `7d`, `36h`, `2w` or `off`."
        " Servers, workers and supervisors that have it set it as the store's policy, and sweep once a day.",
    ),
    Setting(
        name="RELIGHT_ENGINE",
        default="`procrastinate` on PostgreSQL where `relight[fleet]` is installed, else `embedded`",
        meaning="The wakeup engine: `embedded` polls the store, `procrastinate` uses jobs in the same database.",
    ),
    Setting(
        name="RELIGHT_ATTEND",
        default="none",
        meaning="The owner id under which a worker holds the lease that it hands over to the process it starts.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_WORKER",
        default="none",
        meaning="The name of the worker that started this process.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_SESSION",
        default="none",
        meaning="The session that `relight run` tells its program to open, whatever name the program asks for.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_SECRETS",
        default="variables whose names look like secrets",
        meaning="Names of further variables, separated by commas, whose values are redacted everywhere; `--secret` adds"
        " to it.",
    ),
    Setting(
        name="RELIGHT_PARENT",
        default="none",
        meaning="The session whose program started this process: sessions that it opens are recorded as begun by it.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_OWNER",
        default="none",
        meaning="The owner id under which the supervisor holds that session's lease, so that its program may take it.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_COMMAND",
        default="none",
        meaning="The command line of the session that a supervisor in the background starts: its record holds no"
        " secrets. Taken out of the environment at once.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_SUPERVISOR",
        default="none",
        meaning="Pid and start time of the supervisor of a program, so that `relight stop` can ask it.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_AGENT",
        default="none",
        meaning="Set for a coding agent: a program that it runs is not its session, and does not take it over.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_HOOK_SOCKET",
        default="none",
        meaning="Where the hooks of a coding agent reach its supervisor.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_CONFINED",
        default="none",
        meaning="Set by a sandbox: what a link in the agent's home leads to outside is not the agent's.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_HOOK_LOG",
        default="none",
        meaning="Where such a hook writes what went wrong on our side.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_EPOCH",
        default="none",
        meaning="The epoch of the supervisor's lease, for a hook that has to write without it.",
        for_people=False,
    ),
    Setting(
        name="ANTHROPIC_MODEL",
        default="what Claude Code is configured with",
        meaning="The model that Claude Code will use, so that a budget without a price for it is refused at the start.",
        for_people=False,
    ),
    Setting(
        name="TMUX",
        default="what tmux sets",
        meaning="Whether one sits in a tmux already, which `relight attach` has to know.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_FAULT",
        default="none",
        meaning="`POINT:NTH:kill` or `POINT:NTH:raise`, with commas between several: dies at a fault point, for tests.",
        for_people=False,
    ),
    Setting(
        name="RELIGHT_LEAST_WAIT",
        default="`60`",
        meaning="Seconds that a usage limit is waited for at least, and beyond its reset; for tests.",
        for_people=False,
    ),
    Setting(
        name="_RELIGHT_COMPLETE",
        default="none",
        meaning="Set by the script of `relight completion`: answer what could come next, and do nothing else.",
        for_people=False,
    ),
)
