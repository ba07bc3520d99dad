"""Canaries: made-up secrets of every kind we know, put where agents leave them; and what only looks like one.

Everything is drawn from a seeded generator, so that a failure can be repeated. No key here ever opened anything.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import quote

WORD = string.ascii_letters + string.digits
URLSAFE = WORD + "-_"
HEX = "0123456789abcdef"
BASE32 = string.ascii_uppercase + "234567"

Draw = Callable[[Random], str]


def some(random: Random, alphabet: str, length: int) -> str:
    return "".join(random.choices(alphabet, k=length))


def _jwt(random: Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": some(random, WORD, 12), "exp": random.randrange(2**31)}
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.{some(random, URLSAFE, 43)}"


def _pem(random: Random) -> str:
    kind = random.choice(["RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "])
    lines = [some(random, WORD + "+/", 64) for _ in range(random.randint(3, 20))]
    return "\n".join([f"-----BEGIN {kind}PRIVATE KEY-----", *lines, f"-----END {kind}PRIVATE KEY-----"])


TYPED: dict[str, Draw] = {
    "anthropic": lambda r: f"sk-ant-{r.choice(['api03', 'oat01', 'admin01'])}-{some(r, URLSAFE, 93)}AA",
    "openai": lambda r: f"sk-{r.choice(['proj', 'svcacct', 'admin'])}-{some(r, URLSAFE, r.choice([48, 120]))}",
    "openai-old": lambda r: f"sk-{some(r, WORD, 48)}",
    "github": lambda r: f"gh{r.choice('pousr')}_{some(r, WORD, 36)}",
    "github-fine": lambda r: f"github_pat_{some(r, WORD, 22)}_{some(r, WORD, 59)}",
    "gitlab": lambda r: f"gl{r.choice(['pat', 'dt', 'rt', 'ptt'])}-{some(r, URLSAFE, 20)}",
    "aws-id": lambda r: f"{r.choice(['AKIA', 'ASIA'])}{some(r, BASE32, 16)}",
    "google": lambda r: f"AIza{some(r, URLSAFE, 35)}",
    "google-oauth": lambda r: f"ya29.{some(r, URLSAFE, 120)}",
    "slack": lambda r: f"xox{r.choice('bpas')}-{some(r, string.digits, 12)}-{some(r, WORD, 24)}",
    "stripe": lambda r: f"{r.choice(['sk', 'rk'])}_{r.choice(['live', 'test'])}_{some(r, WORD, r.choice([24, 99]))}",
    "npm": lambda r: f"npm_{some(r, WORD, 36)}",
    "pypi": lambda r: f"pypi-AgEIcHlwaS5vcmc{some(r, URLSAFE, 120)}",
    "huggingface": lambda r: f"hf_{some(r, string.ascii_letters, 34)}",
    "jwt": _jwt,
    "pem": _pem,
}  # fmt: skip
"""secrets that show what they are, wherever they stand"""

NAMED: dict[str, Draw] = {
    "password": lambda r: some(r, string.ascii_lowercase, 6) + some(r, string.digits, 3) + r.choice("!#%*+-_"),
    "aws_secret_access_key": lambda r: some(r, WORD + "+/", 39) + "0",
    "client_secret": lambda r: some(r, WORD, 32),
    "api_key": lambda r: some(r, HEX, 32),
    "auth_token": lambda r: some(r, URLSAFE, 40),
}
"""secrets that only their name betrays"""

PLACES: tuple[Callable[[str], str], ...] = (
    lambda s: s,
    lambda s: f"$ printenv\nHOME=/home/a\nTHE_VALUE={s}\nSHELL=/bin/sh\n",
    lambda s: f'export VALUE="{s}"',
    lambda s: f"curl -H 'x-thing: {s}' https://api.example.com/v1/items",
    lambda s: f"The key is {s}, please use it.",
    lambda s: f"diff --git a/.env b/.env\n+++ b/.env\n@@ -1 +1 @@\n-OLD=1\n+VALUE={s}\n",
    lambda s: f"Traceback (most recent call last):\n  File 'a.py', line 3\nValueError: cannot log in with '{s}'\n",
    lambda s: json.dumps({"name": "svc", "value": s, "n": 1}),
    lambda s: json.dumps({"out": json.dumps({"value": s})}),
    lambda s: f"services:\n  web:\n    environment:\n      - VALUE={s}\n",
    lambda s: f"https://example.com/callback?code={s}&state=ok",
)

NAMED_PLACES: tuple[Callable[[str, str], str], ...] = (
    lambda n, s: f"{n.upper()}={s}\n",
    lambda n, s: f'{n} = "{s}"',
    lambda n, s: f"{n}: '{s}'",
    lambda n, s: json.dumps({"host": "db", n: s}),
    lambda n, s: json.dumps({"arguments": json.dumps({n: s})}),
    lambda n, s: f"tool --{n.replace('_', '-')}={s} run",
    lambda n, s: f"tool --{n.replace('_', '-')} {s} run",
    lambda n, s: f"connect(host='db', {n}='{s}')",
)

OTHERS: dict[str, Callable[[Random], tuple[str, str]]] = {
    "bearer": lambda r: ((s := some(r, URLSAFE, 40)), f"Authorization: Bearer {s}"),
    "basic": lambda r: ((s := base64.b64encode(some(r, WORD, 21).encode()).decode()), f"authorization: Basic {s}"),
    "header": lambda r: ((s := some(r, HEX, 40)), f'{{"Authorization": "token {s}"}}'),
    "curl": lambda r: ((s := some(r, WORD, 32)), f"curl -H \"Authorization: Bearer {s}\" https://a.example"),
    "url": lambda r: ((s := some(r, WORD, 12)), f"postgres://app:{s}@db.internal:5432/main"),
    "quoted": lambda r: ((s := some(r, WORD, 40)), f'const bearer_of = "{s}";'),
    "assigned": lambda r: ((s := some(r, WORD, 44)), f"LICENSE={s}"),
}  # fmt: skip


def environment(random: Random) -> dict[str, str]:
    """Values nothing but the environment could give away."""
    odd = 'a "quoted" \\ value/with=odd&chars é'
    return {
        "ACME_API_KEY": some(random, HEX, 32),
        "DEPLOY_TOKEN": some(random, string.ascii_lowercase, 11) + "-" + some(random, string.ascii_lowercase, 9),
        "DB_PASSWORD": "correct horse " + some(random, string.ascii_lowercase, 8),
        "SIGNING_SECRET": odd + some(random, WORD, 8),
        "SERVICE_CREDENTIAL": some(random, WORD, 64),
    }


def encoded_forms(random: Random, value: str) -> tuple[str, str]:
    """One of the forms in which a value from the environment comes along, and a text around it."""
    login = base64.b64encode(f"user{some(random, WORD, random.randint(0, 4))}:{value}".encode()).decode()
    plain = random.choice(
        [value, base64.b64encode(value.encode()).decode(), quote(value, safe=""), value.encode().hex()]
    )
    return random.choice(
        [
            (plain, random.choice(PLACES)(plain)),
            (value, json.dumps(value)),
            (value, json.dumps({"a": json.dumps({"b": value})})),
            (login[12:], f"proxy says: {login}"),
        ]
    )


def message_around(random: Random, text: str) -> dict[str, Any]:
    """A line of a transcript that holds the text somewhere in it."""
    shape = random.randrange(5)
    uuid = some(random, HEX, 32)
    if shape == 0:
        return {"role": "user", "content": text}
    if shape == 1:
        block = {"type": "tool_result", "tool_use_id": "toolu_" + some(random, WORD, 24), "content": text}
        return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": [block]}}
    if shape == 2:
        call = {"type": "tool_use", "id": "toolu_" + some(random, WORD, 24), "name": "Bash", "input": {"command": text}}
        return {"type": "assistant", "uuid": uuid, "message": {"role": "assistant", "content": [call]}}
    if shape == 3:
        payload = {"type": "function_call", "call_id": "call_" + some(random, WORD, 24)}
        return {"type": "response_item", "payload": {**payload, "arguments": json.dumps({"command": ["sh", text]})}}
    return {"toolUseResult": {"stdout": text, "stderr": "", "lines": [text, "ok"]}, "uuid": uuid}


def innocents(random: Random) -> list[str]:
    """What must survive, each as it stands in real output."""
    commit, digest = some(random, HEX, 40), some(random, HEX, 64)
    uuid = "-".join(some(random, HEX, n) for n in (8, 4, 4, 4, 12))
    sri = base64.b64encode(random.randbytes(64)).decode()
    go = base64.b64encode(random.randbytes(32)).decode()
    return [
        f"commit {commit}\nAuthor: A <a@example.com>\n",
        f'"sha": "{commit}", "tree": "{some(random, HEX, 40)}"',
        f"index {commit[:7]}..{some(random, HEX, 7)} 100644",
        f"HEAD is now at {commit[:9]} Fix the token reader",
        f'"uuid": "{uuid}"', f"session={uuid}",
        f"sha256:{digest}", f'checksum = "{digest}"', f'rev = "{commit}"',
        f'"integrity": "sha512-{sri}"', f"integrity: sha512-{sri}", f"golang.org/x/net v0.1.0 h1:{go}",
        f'"tool_use_id": "toolu_01{some(random, WORD, 22)}"', f'"call_id":"call_{some(random, WORD, 24)}"',
        f'"request_id": "req_011C{some(random, WORD, 20)}"',
        f'path = "/srv/app/node_modules/@types/Babel__Core/v{random.randint(1, 99)}/dist/esm/index.d.ts"',
        "given with the --username and --password options", 'password = ":****"', ":type passphrase: :py:data:`bytes`",
        'authorization = self.headers.get("authorization")', 'PASSWORD: "challengePassword",',
        'START = b"-----BEGIN OPENSSH PRIVATE KEY-----"\nEND = b"-----END OPENSSH PRIVATE KEY-----"',
        '"anthropic-ratelimit-tokens-reset": "2026-11-15T04:05:30Z"',
        "password = getpass.getpass()", "def login(user, password: str, token: Token) -> None:", "password=password,",
        "token = os.environ['ACME_TOKEN']", "export TOKEN=$(cat /run/token)", "https://user:$PASSWORD@example.com",
        "The token count: 4096 tokens of 200000", '"max_tokens": 8192, "input_tokens": 17',
        "secret: Optional[str] = None",
        "self._password_reset_view_for_every_user_2 = PasswordResetViewForEveryUser2",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + some(random, WORD, 43) + " me@host",
        f"SHA256:{go.rstrip('=')}",
        "-----BEGIN CERTIFICATE-----\n" + some(random, WORD, 64) + "\n-----END CERTIFICATE-----",
        f"data:image/png;base64,iVBORw0KGgo{some(random, WORD + '+/', 400)}",
        f"git+ssh://git@example.com/a/b.git#{commit}", f"image@sha256:{digest}",
        "mysql -u root -p shop", "docker run -p3306:3306 mysql:8", "docker run -d mysql -p 8080:80",
        "mysql -u root -p$PW",
        "curl -u $USER:$PASSWORD https://a.example", "curl -u \"${USER}:${PASS}\" https://a.example",
        "docker login -u me -p $PW",
        "curl -X POST https://a.example -H 'Accept: text/plain'", "docker login registry.example.com", "wandb login",
        "the password is case-sensitive and at least 8-characters long", "the password is stored as base64 or utf-8",
        "password: str\nusername: str\n", "username: string;\npassword: string;\n", "the password is required",
        "class Form:\n    user: str = ''\n    password: SecretStr\n",
        "pass base_1=False to it", '_HEX_PAT = "[0-9A-Fa-f]{1,4}"',
        'JOB_PATTERN = "[a-zA-Z0-9_-]+"', 'url.raw_path == b"/pa%20th?search=ab1"',
        "an expression identified by 'state'",
        "NumberOfWorkersPerMachine.client.get_the_number_of_all_the_workers",
        "app.secret_key = os.environ['SECRET_KEY']",
        f'"signature": "{sri}"', f"digest: {sri}",
        f"/nix/store/{some(random, HEX, 32)}-zlib",
    ]  # fmt: skip
