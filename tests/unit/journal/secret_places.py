"""Made-up secrets where programs, their settings, their errors and their operators put them.

`texts(random)` yields (kind, secret, text), beside those of secret_corpus.py: statements of SQL, arguments of functions,
commands that take a password in an odd place, settings of frameworks, headers, webhooks, and services with a prefix.
"""

# ruff: noqa: E501 - texts as they stand in files and on screens
from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

from tests.unit.journal.secret_corpus import BASE64, DIGITS, HEX, LOWER, SAFE, UPPER, WORD, mixed, some


def _password(random: Random) -> str:
    return random.choice([
        random.choice(["Winter", "Dragon", "Acme"]) + str(random.randint(2019, 2026)) + random.choice("!#%*?"),
        mixed(random, 16),
        f"{some(random, LOWER, 4)}-{some(random, LOWER, 5)}-{some(random, DIGITS, 4)}",
        f"{some(random, WORD, 8)}^{some(random, DIGITS, 3)}~{some(random, LOWER, 3)}",
    ])  # fmt: skip


def _uuid(random: Random) -> str:
    return "-".join(some(random, HEX, n) for n in (8, 4, 4, 4, 12))


def sql(random: Random) -> Iterator[tuple[str, str, str]]:
    p = _password(random)
    yield from (("sql", p, text) for text in (
        f"ALTER USER 'root'@'localhost' IDENTIFIED WITH mysql_native_password BY '{p}';",
        f"SET PASSWORD FOR 'root'@'localhost' = PASSWORD('{p}');", f"CREATE LOGIN u WITH PASSWORD = N'{p}';",
        f"ALTER LOGIN sa WITH PASSWORD = '{p}';", f"ACL SETUSER u on >{p} ~* +@all",
        f"INSERT INTO users (id, name, password, age) VALUES (nextval('s'), 'Ada, L.', '{p}', 3);",
        f"UPDATE users SET password = '{p}' WHERE id = 1;", f"sqlplus scott/{p}@//h:1521/ORCL",
        f"jdbc:oracle:thin:scott/{p}@//h:1521/ORCL",
    ))  # fmt: skip


def code(random: Random) -> Iterator[tuple[str, str, str]]:
    p, salt = _password(random), some(random, WORD + "!@#%^&*()-_=+[]{}|;:,.<>?/~", 64)
    yield from (("argument", p, text) for text in (
        f'.password("{p}")', f'config.setPassword("{p}")', f"requests.get(url, auth=('admin', '{p}'))",
        f'httpx.get(url, auth=httpx.BasicAuth("admin", "{p}"))', f"smtp.login('me@x.example', '{p}')",
        f"mysqli_connect('localhost', 'root', '{p}', 'shop');", f"define( 'DB_PASSWORD', '{p}' );",
        f'variable "db_password" {{\n  type = string\n  default = "{p}"\n}}',
    ))  # fmt: skip
    yield "salt", salt[8:40], f"define('AUTH_KEY',         '{salt}');"


def operated(random: Random) -> Iterator[tuple[str, str, str]]:
    p = _password(random)
    yield from (("command", p, text) for text in (
        f"openssl enc -aes-256-cbc -k {p} -in a", f"ipmitool -I lanplus -H h -U admin -P {p} power on",
        f"snmpwalk -v3 -u u -A {p} h", f"echo 'u:{p}' | chpasswd", f"echo u:{p} | sudo chpasswd", f"useradd -p {p} x",
        f"wpa_passphrase home {p}", f"influx -username u -password {p}", f"rabbitmqctl add_user u {p}",
        f"rabbitmqctl change_password u '{p}'", f"xfreerdp /u:a /p:{p} /v:h", f"REDISCLI_AUTH={p} redis-cli",
        f"poetry config http-basic.x u {p}", f"net use \\\\srv\\share {p} /user:u", f"net use Z: \\\\srv\\share /user:u {p}",
        f"rsync --password-file=<(echo {p}) a rsync://u@h/b", f"expect \"assword:\" {{ send \"{p}\\r\" }}",
    ))  # fmt: skip


def settings(random: Random) -> Iterator[tuple[str, str, str]]:
    p, token, body = _password(random), mixed(random, 44), [some(random, BASE64, 64) for _ in range(4)]
    yield from (("setting", p, text) for text in (
        f"password: >-\n  {p}\n", f"password: !unsafe '{p}'\n", f'network={{\n  ssid="home"\n  psk="{p}"\n}}\n',
    ))  # fmt: skip
    yield "putty key", body[3], "PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 2\n{}\n{}\nPrivate-Lines: 2\n{}\n{}\n".format(*body)  # fmt: skip
    yield "cookie", token, f"Cookie: _ga=GA1.2.3; connect.sid=s%3A{token}; lang=en"
    yield "cookie", token, f"< set-cookie: theme=dark, sid={token}; Path=/; HttpOnly"
    yield from (("webhook", token, text) for text in (
        f"https://outlook.office.com/webhook/{_uuid(random)}@{_uuid(random)}/IncomingWebhook/{token}/{_uuid(random)}",
        f"https://maker.ifttt.com/trigger/x/with/key/{token}",
        f"https://sentry.io/api/hooks/release/builtin/1/{token}/",
    ))  # fmt: skip
    yield (
        "webhook",
        (bot := some(random, SAFE, 35)),
        f"https://api.telegram.org/bot{some(random, '123456789', 10)}:{bot}/getMe",
    )
    yield "webhook", (hook := some(random, LOWER + DIGITS, 26)), f"https://chat.example/hooks/{hook}"
    yield "git url", (token := mixed(random, 18)), f"https://{token}:x-oauth-basic@git.example/a/b"


SERVICES = {
    "api_org_": (WORD, 34), "e2b_": (HEX, 40), "key_": (HEX, 64), "as-": (WORD, 22), "tgp_v1_": (SAFE, 43),
    "CLOJARS_": (HEX, 60), "pnu_": (WORD, 36), "dbtc_": (SAFE, 40), "LTAI5t": (WORD, 18), "AKID": (WORD, 32),
    "hcaik_01": (LOWER + DIGITS, 56), "sha256~": (SAFE, 43), "AQVN": (SAFE, 35), "mdb_sa_sk_": (SAFE, 40),
    "mlsn.": (HEX, 64), "shippo_live_": (HEX, 40), "live_": (HEX, 35), "rzp_live_": (WORD, 14), "duffel_live_": (SAFE, 43),
    "EZAK": (WORD, 54), "EAAAE": (SAFE, 59), "IGQVJ": (WORD, 150), "tfp_": (SAFE, 59), "fio-u-": (SAFE, 64),
    "rdme_": (LOWER + DIGITS, 70), "aio_": (WORD, 28), "phx_": (WORD, 43), "secret-": (WORD, 43),
    "ATCTT3xFfG": (SAFE, 170), "eyJhIjoi": (WORD, 160),
}  # fmt: skip
"""prefix: alphabet and length of what follows it"""


def services(random: Random) -> Iterator[tuple[str, str, str]]:
    made = [(prefix, prefix + some(random, *rest)) for prefix, rest in SERVICES.items()]
    upper = UPPER + DIGITS
    made += [
        ("dt0c01", f"dt0c01.{some(random, upper, 24)}.{some(random, upper, 64)}"),
        ("FLWSECK", f"FLWSECK-{some(random, HEX, 32)}-X"),
        ("pat-na1", f"pat-na1-{_uuid(random)}"),
        ("sdk", f"sdk-{_uuid(random)}"),
        ("snyk_uat", f"snyk_uat.{some(random, HEX, 8)}.{some(random, WORD, 60)}"),
        ("pat.", f"pat.{some(random, WORD, 22)}.{some(random, HEX, 24)}.{some(random, WORD, 20)}"),
        ("1/", f"1/1{some(random, DIGITS, 15)}:{some(random, HEX, 32)}"),
        ("jsn", f"{some(random, HEX, 10)}msh{some(random, HEX, 15)}p1{some(random, HEX, 5)}jsn{some(random, HEX, 12)}"),
    ]
    for prefix, token in made:
        for text in (
            token,
            f"use {token} for it",
            f"$ cat ~/.token\n{token}\n$ ",
            f'x = "{token}"',
            json.dumps([token]),
        ):
            yield f"service {prefix}", token, text


def texts(random: Random) -> Iterator[tuple[str, str, str]]:
    """Every kind in every place, once."""
    for part in (sql, code, operated, settings, services):
        yield from part(random)
