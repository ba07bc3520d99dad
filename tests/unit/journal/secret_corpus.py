"""Made-up secrets of many kinds in the places where agents meet them: dumps, settings, logs, headers, listings.

`texts(random)` yields (kind, secret, text). Everything is drawn from a seeded generator; no key here ever opened
anything, and none is written down whole.
"""

# ruff: noqa: E501 - texts as they stand in files and on screens
from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Iterator
from random import Random

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
WORD = LOWER + UPPER + DIGITS
SAFE = WORD + "-_"
BASE64 = WORD + "+/"
HEX = "0123456789abcdef"
WORDS = [
    "abandon",
    "ability",
    "absent",
    "absorb",
    "access",
    "account",
    "acid",
    "across",
    "action",
    "adapt",
    "addict",
    "adjust",
    "admit",
    "advance",
    "airport",
    "album",
    "alert",
    "alien",
    "alley",
    "almost",
    "alpha",
    "amount",
    "anchor",
    "angle",
    "animal",
    "ankle",
    "apple",
    "arctic",
    "arena",
    "armor",
    "arrow",
    "artist",
    "aspect",
    "asset",
    "atom",
]
Draw = Callable[[Random], str]


def some(random: Random, alphabet: str, length: int) -> str:
    return "".join(random.choices(alphabet, k=length))


def mixed(random: Random, length: int) -> str:
    """Letters of both cases and digits, as generators of keys make them."""
    made = some(random, WORD, length - 3) + random.choice(DIGITS) + random.choice(UPPER) + random.choice(DIGITS)
    return made


def _jwt(random: Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': some(random, WORD, 12)})}.{some(random, SAFE, 43)}"


def _password(random: Random) -> str:
    return random.choice([
        some(random, LOWER, 5) + some(random, DIGITS, 3) + random.choice("!#%*+_"),
        some(random, UPPER, 1) + some(random, LOWER, 5) + "@" + some(random, DIGITS, 4),
        some(random, WORD, 10) + some(random, DIGITS, 2),
    ])  # fmt: skip


SERVICES: dict[str, tuple[str, Draw]] = {
    "anthropic": ("ANTHROPIC_API_KEY", lambda r: f"sk-ant-api03-{some(r, SAFE, 93)}AA"),
    "openai": ("OPENAI_API_KEY", lambda r: f"sk-proj-{some(r, SAFE, 120)}"),
    "openrouter": ("OPENROUTER_API_KEY", lambda r: f"sk-or-v1-{some(r, HEX, 64)}"),
    "groq": ("GROQ_API_KEY", lambda r: f"gsk_{some(r, WORD, 52)}"),
    "replicate": ("REPLICATE_API_TOKEN", lambda r: f"r8_{some(r, WORD, 37)}"),
    "xai": ("XAI_API_KEY", lambda r: f"xai-{some(r, WORD, 80)}"),
    "perplexity": ("PPLX_API_KEY", lambda r: f"pplx-{some(r, WORD, 48)}"),
    "tavily": ("TAVILY_API_KEY", lambda r: f"tvly-{some(r, WORD, 32)}"),
    "pinecone": ("PINECONE_API_KEY", lambda r: f"pcsk_{some(r, WORD, 6)}_{some(r, WORD, 60)}"),
    "langsmith": ("LANGSMITH_API_KEY", lambda r: f"lsv2_pt_{some(r, HEX, 32)}_{some(r, HEX, 10)}"),
    "huggingface": ("HF_TOKEN", lambda r: f"hf_{some(r, LOWER + UPPER, 34)}"),
    "databricks": ("DATABRICKS_TOKEN", lambda r: f"dapi{some(r, HEX, 32)}"),
    "github": ("GITHUB_TOKEN", lambda r: f"ghp_{some(r, WORD, 36)}"),
    "gitlab": ("GITLAB_TOKEN", lambda r: f"glpat-{some(r, SAFE, 20)}"),
    "npm": ("NPM_TOKEN", lambda r: f"npm_{some(r, WORD, 36)}"),
    "pypi": ("TWINE_PASSWORD", lambda r: f"pypi-AgEIcHlwaS5vcmc{some(r, SAFE, 120)}"),
    "rubygems": ("GEM_HOST_API_KEY", lambda r: f"rubygems_{some(r, HEX, 48)}"),
    "docker": ("DOCKER_PAT", lambda r: f"dckr_pat_{some(r, SAFE, 27)}"),
    "google": ("GOOGLE_API_KEY", lambda r: f"AIza{some(r, SAFE, 35)}"),
    "google-oauth": ("GOOGLE_TOKEN", lambda r: f"ya29.{some(r, SAFE, 120)}"),
    "azure-client": ("AZURE_CLIENT_SECRET", lambda r: f"{some(r, WORD, 3)}8Q~{some(r, WORD, 33)}"),
    "digitalocean": ("DO_TOKEN", lambda r: f"dop_v1_{some(r, HEX, 64)}"),
    "vault": ("VAULT_TOKEN", lambda r: f"hvs.{some(r, SAFE, 90)}"),
    "terraform": ("TF_TOKEN", lambda r: f"{some(r, WORD, 14)}.atlasv1.{some(r, SAFE, 67)}"),
    "supabase": ("SUPABASE_ACCESS_TOKEN", lambda r: f"sbp_{some(r, HEX, 40)}"),
    "tailscale": ("TS_AUTHKEY", lambda r: f"tskey-auth-{some(r, WORD, 12)}-{some(r, WORD, 32)}"),
    "newrelic": ("NEW_RELIC_API_KEY", lambda r: f"NRAK-{some(r, UPPER + DIGITS, 27)}"),
    "grafana": ("GRAFANA_TOKEN", lambda r: f"glsa_{some(r, WORD, 32)}_{some(r, HEX, 8)}"),
    "sentry": ("SENTRY_AUTH_TOKEN", lambda r: f"sntrys_{some(r, BASE64, 90)}"),
    "stripe": ("STRIPE_SECRET_KEY", lambda r: f"sk_live_{some(r, WORD, 99)}"),
    "shopify": ("SHOPIFY_TOKEN", lambda r: f"shpat_{some(r, HEX, 32)}"),
    "mailgun": ("MAILGUN_API_KEY", lambda r: f"key-{some(r, HEX, 32)}"),
    "sendgrid": ("SENDGRID_API_KEY", lambda r: f"SG.{some(r, SAFE, 22)}.{some(r, SAFE, 43)}"),
    "mailchimp": ("MAILCHIMP_API_KEY", lambda r: f"{some(r, HEX, 32)}-us{r.randint(1, 21)}"),
    "discord": ("DISCORD_BOT_TOKEN", lambda r: f"{base64.b64encode(str(r.randint(10**16, 10**19)).encode()).decode().rstrip('=')}.{some(r, SAFE, 6)}.{mixed(r, r.choice([27, 38]))}"),
    "azure-storage": ("AZURE_STORAGE_KEY", lambda r: base64.b64encode(r.randbytes(64)).decode()),
    "twilio": ("TWILIO_API_KEY", lambda r: f"SK{some(r, HEX, 32)}"),
    "slack": ("SLACK_BOT_TOKEN", lambda r: f"xoxb-{some(r, DIGITS, 12)}-{some(r, WORD, 24)}"),
    "telegram": ("TELEGRAM_BOT_TOKEN", lambda r: f"{some(r, '123456789', 10)}:AA{some(r, SAFE, 33)}"),
    "notion": ("NOTION_TOKEN", lambda r: f"secret_{some(r, WORD, 43)}"),
    "linear": ("LINEAR_API_KEY", lambda r: f"lin_api_{some(r, WORD, 40)}"),
    "figma": ("FIGMA_TOKEN", lambda r: f"figd_{some(r, SAFE, 43)}"),
    "airtable": ("AIRTABLE_TOKEN", lambda r: f"pat{some(r, WORD, 14)}.{some(r, HEX, 64)}"),
    "atlassian": ("JIRA_API_TOKEN", lambda r: f"ATATT3xFfGF0{some(r, SAFE, 170)}={some(r, '0123456789ABCDEF', 8)}"),
    "age": ("AGE_KEY", lambda r: f"AGE-SECRET-KEY-1{some(r, UPPER + DIGITS, 58)}"),
    "jwt": ("JWT", _jwt),
    "mapbox": ("MAPBOX_TOKEN", lambda r: f"sk.eyJ{some(r, WORD, 80)}.{some(r, SAFE, 22)}"),
    "dropbox": ("DROPBOX_TOKEN", lambda r: f"sl.{some(r, SAFE, 135)}"),
    "contentful": ("CONTENTFUL_TOKEN", lambda r: f"CFPAT-{some(r, SAFE, 43)}"),
    "braintree": (
        "BRAINTREE_TOKEN",
        lambda r: f"access_token$production${some(r, LOWER + DIGITS, 16)}${some(r, HEX, 32)}",
    ),
    "twitter": ("TWITTER_BEARER_TOKEN", lambda r: f"{'A' * 21}{some(r, WORD, 40)}%3D{some(r, WORD, 50)}"),
    "doppler": ("DOPPLER_TOKEN", lambda r: f"dp.st.prd.{some(r, WORD, 40)}"),
    "planetscale": ("PSCALE_TOKEN", lambda r: f"pscale_tkn_{some(r, SAFE, 43)}"),
    "postman": ("POSTMAN_API_KEY", lambda r: f"PMAK-{some(r, HEX, 24)}-{some(r, HEX, 34)}"),
    "aws-id": ("AWS_ACCESS_KEY_ID", lambda r: f"AKIA{some(r, UPPER + '234567', 16)}"),
}  # fmt: skip
"""they show their type: behind a name, and bare"""

NAMED: dict[str, tuple[str, Draw]] = {
    "aws-secret": ("AWS_SECRET_ACCESS_KEY", lambda r: some(r, BASE64, 37) + "a1Z"),
    "aws-session": ("AWS_SESSION_TOKEN", lambda r: "IQoJb3JpZ2luX2Vj" + some(r, BASE64, 600) + "=="),
    "datadog": ("DD_API_KEY", lambda r: some(r, HEX, 32)),
    "wandb": ("WANDB_API_KEY", lambda r: some(r, HEX, 40)),
    "twilio-auth": ("TWILIO_AUTH_TOKEN", lambda r: some(r, HEX, 32)),
    "cohere": ("COHERE_API_KEY", lambda r: mixed(r, 40)),
    "mistral": ("MISTRAL_API_KEY", lambda r: mixed(r, 32)),
    "cloudflare": ("CLOUDFLARE_API_TOKEN", lambda r: mixed(r, 40)),
    "django": ("DJANGO_SECRET_KEY", lambda r: "django-insecure-" + some(r, LOWER + DIGITS + "!@#^*(-_=+", 46) + "a1"),
    "oauth": ("OAUTH_CLIENT_SECRET", lambda r: mixed(r, 32)),
    "own-token": ("INTERNAL_SERVICE_TOKEN", lambda r: "token_" + mixed(r, 24)),
    "refresh": ("REFRESH_TOKEN", lambda r: mixed(r, 60)),
    "uuid-key": ("SNYK_TOKEN", lambda r: "-".join(some(r, HEX, n) for n in (8, 4, 4, 4, 12))),
}  # fmt: skip
"""only a name betrays them"""

NAMED_PLACES: tuple[Callable[[str, str], str], ...] = (
    lambda n, s: f"$ env | sort\nHOME=/home/dev\n{n}={s}\nLANG=C.UTF-8\nSHELL=/bin/bash\n",
    lambda n, s: f"# .env\nDEBUG=1\n{n}={s}\nPORT=8080\n",
    lambda n, s: f'{n}="{s}"\n',
    lambda n, s: f"export {n}='{s}'\n",
    lambda n, s: f"FROM python:3.12\nENV {n} {s}\nCMD python app.py\n",
    lambda n, s: f"ENV {n}={s} \\\n    OTHER=1\n",
    lambda n, s: f"services:\n  web:\n    environment:\n      {n}: {s}\n      PORT: 80\n",
    lambda n, s: f"    environment:\n      - {n}={s}\n",
    lambda n, s: f"app:\n  {n.lower()}: {s}\n  name: shop\n",
    lambda n, s: f'app:\n  {n.lower()}: "{s}"\n',
    lambda n, s: json.dumps({"name": "app", n.lower(): s, "port": 80}, indent=2),
    lambda n, s: json.dumps({n: s}),
    lambda n, s: json.dumps({"stdout": f"{n}={s}\n", "code": 0}),
    lambda n, s: json.dumps({"out": json.dumps({n: s})}),
    lambda n, s: f'[auth]\n{n.lower()} = "{s}"\n',
    lambda n, s: f'{n.lower()} = "{s}"  # from the console',
    lambda n, s: f"const {_camel(n)} = '{s}';",
    lambda n, s: f"os.environ['{n}'] = '{s}'",
    lambda n, s: f"docker run -e {n}={s} -p 80:80 image",
    lambda n, s: f"  412  {n}={s} ./deploy.sh --fast",
    lambda n, s: f"tool deploy --{n.lower().replace('_', '-')} {s} --region eu",
    lambda n, s: f"tool deploy --{n.lower().replace('_', '-')}={s}",
    lambda n, s: f"2026-11-15 12:00:01 INFO config loaded: {n}={s} region=eu",
    lambda n, s: f"diff --git a/.env b/.env\n@@ -1,2 +1,2 @@\n PORT=80\n-{n}=old\n+{n}={s}\n",
    lambda n, s: f"resource \"x\" \"y\" {{\n  {n.lower()} = \"{s}\"\n}}\n",
    lambda n, s: f"KeyError in load({{'{n}': '{s}', 'n': 1}})",
    lambda n, s: f"\x1b[32m{n}\x1b[0m=\x1b[1m{s}\x1b[0m\n",
    lambda n, s: f"$env:{n} = \"{s}\"",
    lambda n, s: f"<add key=\"{n}\" value=\"{s}\" />",
    lambda n, s: f"{n.lower().replace('_', '.')}={s}\n",
    lambda n, s: f"env:\n  - name: {n}\n    value: {s}\n  - name: PORT\n    value: 80\n",
    lambda n, s: json.dumps({"environment": [{"name": n, "value": s}]}),
    lambda n, s: f'<input type="hidden" name="{n.lower()}" value="{s}">',
    lambda n, s: f"name,value\n{n},{s}\nPORT,80\n",
    lambda n, s: f"set -gx {n} {s}",
    lambda n, s: f"gh secret set {n} --repo a/b --body {s}",
    lambda n, s: f"AuthError: invalid {n.lower()} '{s}'",
    lambda n, s: f"[default]\n{n.lower()} = {s}\n",
)  # fmt: skip
BARE_PLACES: tuple[Callable[[str], str], ...] = (
    lambda s: s,
    lambda s: f"the key is {s}, use it",
    lambda s: f"$ cat token.txt\n{s}\n$ ",
    lambda s: f"value: {s}\n",
    lambda s: f'"{s}"',
    lambda s: f"login failed for {s} (401)",
    lambda s: f"| prod | {s} | active |",
    lambda s: f"['{s}']",
    lambda s: f"{s}\n{s}\n",
)


def _camel(name: str) -> str:
    first, *rest = name.lower().split("_")
    return first + "".join(one.capitalize() for one in rest)


def _lines(data: str, width: int = 64) -> list[str]:
    return [data[at : at + width] for at in range(0, len(data), width)]


def _pem(random: Random) -> list[str]:
    kind = random.choice(["RSA ", "EC ", "OPENSSH ", ""])
    body = _lines(some(random, BASE64, 64 * random.randint(4, 20) + 20) + "==")
    return [f"-----BEGIN {kind}PRIVATE KEY-----", *body, f"-----END {kind}PRIVATE KEY-----"]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def passwords(random: Random) -> Iterator[tuple[str, str, str]]:
    """Passwords behind names and in the arguments of tools: (kind, secret, text)."""
    p = _password(random)
    for name in ("password", "db_password", "MYSQL_ROOT_PASSWORD", "admin_pass", "smtp.password", "dbPassword"):
        for location in (
            f"{name}={p}\n",
            f"{name}: {p}\n",
            f'{name} = "{p}"\n',
            f'{{"{name}": "{p}"}}',
            f"  {name}: '{p}'\n",
        ):
            yield "password named", p, location
    user, host = some(random, LOWER, 5), "db.internal"
    yield from (("password in tools", p, text) for text in (
        f"mysql -u {user} -p{p} shop", f"mysqldump --user={user} --password={p} shop > d.sql",
        f"curl -u {user}:{p} https://api.example.com/v1", f"curl --user {user}:{p} -X POST https://a.example",
        f"sshpass -p {p} ssh {user}@{host}", f"sshpass -p '{p}' scp a b", f"redis-cli -h {host} -a {p} ping",
        f"docker login -u {user} -p {p} registry.example.com", f"PGPASSWORD={p} psql -h {host}",
        f"machine {host} login {user} password {p}\n", f"machine {host}\n  login {user}\n  password {p}\n",
        f"{host}:5432:shop:{user}:{p}\n", f"*:*:*:{user}:{p}\n", f"wget --password={p} https://a.example",
        f"ldapsearch -D cn=admin -w {p} -b dc=x", f"CREATE USER {user} IDENTIFIED BY '{p}';",
        f"ALTER ROLE {user} WITH PASSWORD '{p}';", f"openssl rsa -in k.pem -passin pass:{p}",
        f"kubectl create secret generic db --from-literal=password={p}", f"requirepass {p}\n",
        f"htpasswd -b .htpasswd {user} {p}", f"sqlcmd -S {host} -U sa -P {p}",
        f"mysql -uroot -p'{p}' shop < d.sql", f"mariadb -u {user} -p{p}", f'["mysql", "-u", "{user}", "-p{p}"]',
        f"docker exec db mysqladmin -u root -p{p} ping", f"curl -su {user}:{p} https://a.example",
        f"curl \\\n  -H 'A: b; c' \\\n  -u {user}:{p} \\\n  https://a.example", f"curl 'https://a.example?a=1&b=2' -u {user}:{p}",
        f"podman login -p '{p}' -u {user} registry.example.com", f"echo {p} | docker login -u {user} --password-stdin",
        f"helm registry login r.example -u {user} -p {p}", json.dumps({"command": f'curl -u "{user}:{p}" https://a.example'}),
    ))  # fmt: skip


def written(random: Random) -> Iterator[tuple[str, str, str]]:
    """Passwords that people tell each other, keys in programs and on command lines."""
    p, user = _password(random), some(random, LOWER, 5)
    yield from (("password in words", p, text) for text in (
        f"the password is {p}", f"The password is {p}.", f"my password is \"{p}\" now", f"Password for {user}: {p}\n",
        f"**Password:** {p}\n", f"user: {user}, password: {p}", f"login {user} / password: {p} and then go on",
        f"  password: {p}  # prod", f"root password: `{p}`",
    ))  # fmt: skip
    word = some(random, LOWER, 9)
    yield "password beside a user", word, f"db:\n  user: {user}\n  password: {word}\n  port: 5432\n"
    yield "password beside a user", word, f"[client]\nhost = db.internal\npassword = {word}\n"
    key = some(random, HEX, random.choice([24, 32, 48, 64]))
    yield from (("key in a program", key, text) for text in (
        f"app.secret_key = b'{key}'", f'app.config["SECRET_KEY"] = b"{key}"', f"SECRET_KEY: bytes = b'{key}'",
        f"SECRET_KEY = bytes.fromhex('{key}')", f"app.secret_key = os.environ.get('K', '{key}')",
    ))  # fmt: skip
    key = some(random, HEX, 40)
    yield from (("wandb", key, text) for text in (
        f"wandb login {key}", f"$ wandb login --relogin {key}\n", f"RUN wandb login '{key}'", f"wandb.login(key='{key}')",
    ))  # fmt: skip


def sent(random: Random) -> Iterator[tuple[str, str, str]]:
    """Connection strings, headers, addresses."""
    p, user, host = _password(random), some(random, LOWER, 5), "db.internal"
    for scheme in ("postgres", "mysql", "mongodb+srv", "redis", "amqp", "https"):
        written = "".join(one if one.isalnum() else f"%{ord(one):02X}" for one in p)
        yield "connection string", written, f"{scheme}://{user}:{written}@{host}:5432/shop"
    yield "connection string", p, f"Server=tcp:{host},1433;User ID={user};Password={p};Encrypt=True"
    token = mixed(random, 32)
    for text in (
        f"Authorization: Bearer {token}", f"authorization: Basic {_encoded(user + ':' + token)}", f"X-Api-Key: {token}",
        f"PRIVATE-TOKEN: {token}", f"x-auth-token: {token}", f"Cookie: session={token}; theme=dark",
        f"Set-Cookie: sessionid={token}; HttpOnly", f'-H "X-Vault-Token: {token}"', f'{{"Authorization": "token {token}"}}',
    ):  # fmt: skip
        yield "header", token if "Basic" not in text else _encoded(user + ":" + token), text
    for name in ("access_token", "api_key", "token", "sig", "client_secret", "key", "code"):
        yield "url query", token, f"GET https://api.example.com/v1/items?{name}={token}&page=2 200"


def keys(random: Random) -> Iterator[tuple[str, str, str]]:
    """Private keys, secrets of Kubernetes, states of Terraform."""
    p = _password(random)
    key = _pem(random)
    body = key[2]
    whole = "\n".join(key)
    yield "pem", body, whole
    yield "pem", body, json.dumps({"private_key": whole})
    yield "pem numbered", body, "\n".join(f"{n:6}\t{line}" for n, line in enumerate(key, 1))
    yield "pem numbered", body, "\n".join(f"> {line}" for line in key)
    yield "pem numbered", body, "\n".join(f"+{line}" for line in key)
    yield "pem numbered", body, "\n".join(f"{n:6}\t{line}" for n, line in enumerate(key[:4], 1))
    yield "pem cut", body, "\n".join(key[:4])
    yield "pem tail", key[-2 - 1], "\n".join(key[-4:])
    yield "kubeconfig", _encoded(whole)[60:140], f"users:\n- name: a\n  user:\n    client-key-data: {_encoded(whole)}\n"
    for name in ("password", "tls.key", "config", "username-and-more"):
        value = _encoded(mixed(random, 20))
        yield (
            "k8s secret",
            value,
            f"apiVersion: v1\nkind: Secret\ndata:\n  {name}: {value}\n  other: {_encoded(p)}\nmetadata:\n  name: x\n",
        )
        yield "k8s secret", value, json.dumps({"kind": "Secret", "data": {name: value}}, indent=1)
    result = some(random, WORD + "!@#%", 20) + "1a"
    yield "terraform state", result, json.dumps({"type": "random_password", "name": "db", "instances": [{"attributes": {"length": 22, "result": result, "special": True}}]}, indent=2)  # fmt: skip
    yield (
        "terraform state",
        result,
        json.dumps({"outputs": {"db": {"value": result, "type": "string", "sensitive": True}}}, indent=2),
    )
    yield "terraform state", result, json.dumps({"attributes": {"master_password": result, "engine": "pg"}}, indent=2)


def others(random: Random) -> Iterator[tuple[str, str, str]]:
    """Webhooks, disguises, password files, phrases."""
    user, token = some(random, LOWER, 5), mixed(random, 32)
    yield (
        "webhook",
        (hook := some(random, SAFE, 68)),
        f"https://discord.com/api/webhooks/{some(random, '123456789', 18)}/{hook}",
    )
    uuid = "-".join(some(random, HEX, n) for n in (8, 4, 4, 4, 12))
    yield (
        "webhook",
        (hook := some(random, HEX, 32)),
        f"https://corp.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{hook}/{uuid}",
    )
    yield (
        "webhook",
        (hook := some(random, WORD, 24)),
        f"https://hooks.slack.com/services/T{some(random, UPPER, 8)}/B{some(random, UPPER, 8)}/{hook}",
    )
    github = f"ghp_{some(random, WORD, 36)}"
    yield "base64 of a token", _encoded(github), f"data: {_encoded(github)}"
    yield "base64 of a token", _encoded(github), _encoded(github)
    yield "ansi", github[6:], f"\x1b[36m{github[:6]}\x1b[0m{github[6:]}"
    for method, salt in (("6", 16), ("5", 16), ("y", 22), ("1", 8)):
        digest = some(random, WORD + "./", 60)
        yield "shadow", digest, f"{user}:${method}${some(random, WORD, salt)}${digest}:19000:0:99999:7:::"
    yield "htpasswd", (digest := some(random, WORD + "./", 22)), f"{user}:$apr1${some(random, WORD, 8)}${digest}"
    yield "htpasswd", (digest := some(random, WORD + "./", 53)), f"{user}:$2y$05${digest}"
    phrase = " ".join(random.choices(WORDS, k=12))
    for text in (
        f"mnemonic: {phrase}",
        f'MNEMONIC="{phrase}"',
        f"seed phrase: {phrase}\n",
        f"recovery phrase = {phrase}",
    ):
        yield "mnemonic", phrase, text
    yield "wireguard", (k := some(random, BASE64, 42) + "8="), f"[Interface]\nPrivateKey = {k}\nAddress = 10.0.0.2/32\n"
    yield (
        "docker auth",
        (k := _encoded(f"{user}:{token}")),
        json.dumps({"auths": {"registry.example.com": {"auth": k}}}),
    )
    yield "npmrc", token, f"//registry.example.com/:_authToken={token}\n"
    yield "git url", token, f"https://{user}:{token}@git.example.com/a.git"
    yield "totp", (k := some(random, UPPER + "234567", 32)), f"otpauth://totp/a?secret={k}&issuer=b"
    for name in ("d", "dq", "k"):
        jwk = {"kty": "RSA", "use": "sig", name: (k := some(random, SAFE, 86))}
        yield "jwk", k, json.dumps(jwk)
        yield "jwk", k, json.dumps({"stdout": json.dumps(jwk)})
    signature = some(random, LOWER, 12) + some(random, BASE64.replace("+", "").replace("/", ""), 31)
    yield "shared access", signature, f"sv=2023-01-03&sp=rl&se=2027-01-01T00:00:00Z&sig={signature}1%3D"
    yield "git url", token, f"https://{user}:%2B{token}@git.example.com/a.git"
    yield "git url", token, f"https://{user}:%7e{token}@git.example.com/a.git"
    yield "header", token, f"Authorization: Bearer 1/{some(random, DIGITS, 16)}:{token}"
    yield "aws bare", (k := some(random, BASE64, 36) + "a1Zq"), f"{k}"
    yield "aws bare", k, f"secret {k} done"


def texts(random: Random) -> Iterator[tuple[str, str, str]]:
    """Every kind in every place, once."""
    for kind, (name, draw) in SERVICES.items():
        for location in NAMED_PLACES:
            yield f"{kind} named", (secret := draw(random)), location(name, secret)
        for bare in BARE_PLACES:
            yield f"{kind} bare", (secret := draw(random)), bare(secret)
    for kind, (name, draw) in NAMED.items():
        for location in NAMED_PLACES:
            yield f"{kind} named", (secret := draw(random)), location(name, secret)
    for _ in range(4):
        for part in (passwords, written, sent, keys, others):
            yield from part(random)
