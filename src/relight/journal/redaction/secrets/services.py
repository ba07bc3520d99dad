"""Tokens of well-known services, by their prefix. One table: name, texts that must occur, pattern.

Patterns are bounded and start at a boundary, so that a word that merely contains one is left alone.
"""

# ruff: noqa: E501 - a table of patterns
from __future__ import annotations

from typing import Final

HEX: Final = "[a-f0-9]"
WORD: Final = "[A-Za-z0-9]"
SAFE: Final = "[A-Za-z0-9_-]"
UUID: Final = rf"{HEX}{{8}}(?:-{HEX}{{4}}){{3}}-{HEX}{{12}}"
MIXED: Final = r"(?=[^0-9]{0,40}[0-9][^0-9]{0,40}[0-9])(?=[^a-z]{0,40}[a-z])(?=[^A-Z]{0,40}[A-Z])"
"""two digits and letters of both cases follow: where the prefix alone is that of words too"""

SERVICES: Final[tuple[tuple[str, str, str], ...]] = (
    # models and their tooling
    ("anthropic-key", "sk-ant-", rf"sk-ant-{SAFE}{{16,256}}"),
    ("openai-key", "sk-",
     rf"sk-(?:(?:proj|svcacct|admin|None|or-v1|lf|helicone|litellm)-{SAFE}{{20,256}}|{WORD}{{32,128}})"),
    ("model-key", "api_org_ e2b_ key_ ak_ ak- as- tgp_v1_ gsk_ r8_ xai- pplx- tvly- pcsk_ csk- jina_ fw_ nvapi- fc- sk_ lsv2_ ls__ wandb_v1_ hf_ dapi sgp_",
     rf"(?:api_org_{WORD}{{30,64}}|e2b_{HEX}{{40}}|key_{HEX}{{64}}|a[ks]-{MIXED}{WORD}{{22}}|ak_{MIXED}{SAFE}{{20}}"
     rf"|tgp_v1_{SAFE}{{43}}|gsk_{WORD}{{40,80}}|r8_{WORD}{{30,50}}|xai-{WORD}{{60,100}}|pplx-{WORD}{{40,64}}|tvly-(?:dev-|prod-)?{SAFE}{{20,64}}"
     rf"|pcsk_{SAFE}{{40,100}}|csk-{WORD}{{40,64}}|jina_{SAFE}{{40,80}}|fw_{WORD}{{20,40}}|nvapi-{SAFE}{{40,100}}"
     rf"|fc-{HEX}{{32}}|sk_{HEX}{{48}}|lsv2_(?:pt|sk)_{HEX}{{32}}_{HEX}{{10}}|ls__{HEX}{{32}}|wandb_v1_{SAFE}{{20,128}}"
     rf"|hf_{WORD}{{30,64}}|dapi{HEX}{{32}}(?:-\d)?|sgp_{SAFE}{{20,80}})(?!{SAFE})"),
    # forges, registries, builds
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", rf"gh[pousr]_{WORD}{{30,255}}|github_pat_\w{{40,255}}"),
    ("gitlab-token", "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- glimt- gloas-",
     r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas)-[A-Za-z0-9_.-]{20,128}"),
    ("registry-token", "CLOJARS_ npm_ pypi-AgE rubygems_ dckr_pat_ dckr_oat_ oy2 cio AKCp cmVmdGtu",
     rf"CLOJARS_{HEX}{{60}}|npm_{WORD}{{36}}(?!{WORD})|pypi-AgE{SAFE}{{40,512}}|rubygems_{HEX}{{48}}|dckr_[po]at_{SAFE}{{20,64}}"
     rf"|oy2[a-z0-9]{{43}}(?!{WORD})|cio{WORD}{{32}}(?!{WORD})|AKCp{WORD}{{40,100}}|cmVmdGtu{WORD}{{40,80}}"),
    ("build-token", "snyk_uat. snyk_sat. pnu_ pnb_ dbtc_ dbtu_ pat. sat. CCIPAT_ CCIPRJ_ bkua_ bkpi_ sqp_ sqa_ squ_ pul- PMAK- dp. nfp_ vcp_ HRKU- rnd_ fm2_ fo1_",
     rf"snyk_[us]at\.{HEX}{{8}}\.{SAFE}{{40,120}}|pn[ub]_{WORD}{{36}}|dbt[cu]_{SAFE}{{40}}|[ps]at\.{WORD}{{22}}\.{HEX}{{24}}\.{WORD}{{20}}"
     rf"|CCIP(?:AT|RJ)_{WORD}{{10,40}}_{HEX}{{40}}|bk(?:ua|pi)_{WORD}{{30,64}}|sq[pua]_{HEX}{{40}}|pul-{HEX}{{40}}"
     rf"|PMAK-{HEX}{{24}}-{HEX}{{34}}|dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?{SAFE}{{20,64}}|nfp_{WORD}{{36,48}}|vcp_{WORD}{{24,80}}"
     rf"|HRKU-{SAFE}{{36,80}}|rnd_{WORD}{{20,48}}|f[mo][12]_[A-Za-z0-9+/=_-]{{40,600}}"),
    # clouds
    ("aws-key-id", "AKIA ASIA ABIA ACCA", r"(?<![A-Za-z0-9+/])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9+/])"),
    ("aws-key", "ABSK bedrock-api-key-", r"ABSK[A-Za-z0-9+/]{80,300}={0,2}|bedrock-api-key-[A-Za-z0-9+/=_-]{20,2000}"),
    ("cloud-key-id", "LTAI AKID SCW", rf"(?:LTAI{MIXED}{WORD}{{16,20}}|AKID{MIXED}{WORD}{{32}}|SCW(?=[A-Z]{{0,16}}[0-9][A-Z]{{0,16}}[0-9])[A-Z0-9]{{17}})(?!{WORD})"),
    ("aws-session-token", "FwoG IQoJ FQoG", r"(?:FwoGZXIvYXdz|IQoJb3JpZ2luX2Vj|FQoGZXIvYXdz)[A-Za-z0-9+/=]{40,2000}"),
    ("google-key", "AIza", rf"AIza{SAFE}{{35}}"),
    ("google-token", "ya29. GOCSPX- 1//0", rf"ya29\.{SAFE}{{20,2048}}|GOCSPX-{SAFE}{{20,64}}|1//0{SAFE}{{30,256}}"),
    ("azure-secret", "Q~", r"[A-Za-z0-9_.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("cloud-token", "_v1_ hvs. hvb. hvr. .atlasv1. tskey- sbp_ sb_secret_ pscale_ napi_ glsa_ glc_ NRAK- NRII- NRAL v1.0- ops_eyJ hcaik_ hcalk_ dt0 sha256~ AQVN eyJhIjoi mdb_sa_ sdk- api- mob-",
     rf"hca[il]k_{WORD}{{50,64}}|dt0[a-z]\d\d\.[A-Z0-9]{{24}}\.[A-Z0-9]{{64}}|sha256~{SAFE}{{43}}|AQVN{SAFE}{{35,38}}(?!{SAFE})"
     rf"|eyJhIjoi[A-Za-z0-9+/]{{120,400}}|mdb_sa_(?:sk|id)_{SAFE}{{40}}"
     rf"|(?:sdk|api|mob)-{UUID}(?![\w-])|do[opr]_v1_{HEX}{{64}}|hv[sbr]\.{SAFE}{{20,300}}|{WORD}{{14}}\.atlasv1\.{SAFE}{{40,80}}|tskey-[a-z]{{3,8}}-{SAFE}{{16,100}}"
     rf"|sbp_{HEX}{{40}}|sb_secret_{SAFE}{{20,64}}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{{30,64}}|napi_{WORD}{{40,80}}"
     rf"|glsa_{WORD}{{32}}_{HEX}{{8}}|glc_[A-Za-z0-9+/=]{{32,400}}|NR(?:AK|II)-{SAFE}{{20,64}}|{HEX}{{36}}NRAL"
     rf"|v1\.0-{HEX}{{24}}-{HEX}{{100,200}}|ops_eyJ[A-Za-z0-9+/=_-]{{60,2000}}"),
    # money, mail, chat, tickets
    ("stripe-key", "k_live_ k_test_", rf"[srp]k_(?:live|test)_{WORD}{{16,256}}"),
    ("payment-key", "rzp_live_ rzp_test_ live_ EZAK EZTK FLWSECK EAAA",
     rf"rzp_(?:live|test)_{WORD}{{14}}(?!{WORD})|(?:shippo_|duffel_)?live_(?:{HEX}{{40}}|{HEX}{{35}}|{MIXED}{SAFE}{{43}})(?!{SAFE})"
     rf"|EZ[AT]K{MIXED}{WORD}{{54}}|FLWSECK(?:_TEST)?-{WORD}{{32}}-X|EAAA[El]{MIXED}{SAFE}{{59}}(?!{SAFE})"),
    ("webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=_-]{20,128}"),
    ("shop-token", "shp sq0 access- access_token$", rf"shp(?:at|ca|pa|ss|tka)_[A-Fa-f0-9]{{32}}|sq0[a-z]{{3}}-{SAFE}{{22,50}}"
     rf"|access_token\$(?:production|sandbox)\$[a-z0-9]{{16}}\${HEX}{{32}}"
     rf"|access-(?:sandbox|development|production)-{HEX}{{8}}(?:-{HEX}{{4}}){{3}}-{HEX}{{12}}"),
    ("mail-key", "mlsn. SG. key- xkeysib- -us", rf"mlsn\.{HEX}{{64}}|SG\.{SAFE}{{16,32}}\.{SAFE}{{32,64}}|key-{HEX}{{32}}(?!{WORD})"
     rf"|xkeysib-{HEX}{{64}}-{WORD}{{16}}|{HEX}{{32}}-us\d{{1,2}}(?!{WORD})"),
    ("mail-key", "re_", rf"re_{WORD}{{8}}_{WORD}{{20,32}}"),
    ("slack-token", "xox xapp-", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{16,256}|xapp-[A-Za-z0-9-]{20,256}"),
    ("infisical-token", "st.", rf"st\.{HEX}{{24}}\.{HEX}{{32}}\.{HEX}{{32}}(?!{WORD})"),
    ("telegram-token", ":AA", rf"\d{{8,10}}:AA{SAFE}{{32,35}}(?!{SAFE})"),
    ("discord-token", "M N O", rf"[MNO][A-Za-z0-9_-]{{22,27}}\.{SAFE}{{6}}\.{SAFE}{{27,40}}(?!\.?[A-Za-z0-9_-])"),
    ("twilio-key", "SK", rf"SK{HEX}{{32}}(?!{WORD})"),
    ("facebook-token", "EAA IGQVJ", rf"(?:EAA|IGQVJ){WORD}{{80,300}}"),
    ("site-token", "tfp_ fio-u- rdme_ aio_ jsn phx_ secret- sk.eyJ tk.eyJ sl. CFPAT- AAAAAAAAAAAAAAAAAAA",
     rf"tfp_{SAFE}{{40,80}}|fio-u-{SAFE}{{64}}|rdme_[a-z0-9]{{60,80}}|aio_{MIXED}{WORD}{{28}}(?!{WORD})|{HEX}{{10}}msh{HEX}{{15}}p1{HEX}{{5}}jsn{HEX}{{12}}"
     rf"|phx_{WORD}{{40,64}}|secret-{MIXED}{WORD}{{43}}(?!{WORD})|[st]k\.eyJ{SAFE}{{40,400}}\.{SAFE}{{20,64}}|sl\.(?:u\.)?{SAFE}{{120,1600}}|CFPAT-{SAFE}{{43}}"
     rf"|A{{19,25}}{WORD}{{20,80}}%(?:2[BF]|3D)[A-Za-z0-9%]{{30,120}}"),
    ("work-token", "ATCTT3x pat-na1- pat-eu1- 0/1 1/1 2/1 ATATT3x ATBB lin_api_ lin_oauth_ ntn_ secret_ figd_ sntry",
     rf"pat-(?:na|eu|ap)\d-{UUID}|[012]/\d{{16}}(?:/\d{{16}})?:{HEX}{{32}}(?!{WORD})|AT[AC]TT3x{SAFE}{{40,300}}(?:=[0-9A-F]{{8}})?|ATBB{WORD}{{24,40}}|lin_(?:api|oauth)_{WORD}{{30,80}}"
     rf"|ntn_{WORD}{{40,60}}|secret_{WORD}{{43}}(?!{WORD})|figd_{SAFE}{{30,60}}"
     rf"|sntry[su]_[A-Za-z0-9+/=_-]{{40,500}}"),
    ("work-token", "pat", rf"pat{WORD}{{14}}\.{HEX}{{64}}"),  # by itself: a need that many words have costs less so
    # user-defined keys
    ("age-key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    ("private-key", "LS0tLS1CRUdJTi", r"LS0tLS1CRUdJTi(?:BQUklWQVRF|BSU0EgUFJJVkFU|BFQyBQUklWQVRF|BPUEVOU1NI|BFTkNSWVBURU|BEU0EgUFJJVkFU)"
     r"[A-Za-z0-9+/=]{20,20000}"),
    ("extended-key", "xprv yprv zprv tprv", rf"[xyzt]prv{WORD}{{100,112}}"),
    ("jwt", "eyJ", rf"eyJ{SAFE}{{8,4096}}\.eyJ{SAFE}{{8,8192}}\.{SAFE}{{16,1024}}|eyJ{SAFE}{{8,1024}}\.{SAFE}{{0,1024}}\.{SAFE}{{8,64}}\.{SAFE}{{16,8192}}\.{SAFE}{{16,64}}"),
    ("password-hash", "$1$ $2$ $2a$ $2b$ $2x$ $2y$ $5$ $6$ $7$ $y$ $gy$ $apr1$ $argon2 $scrypt$ $pbkdf2 $bcrypt", r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:id|i|d)|scrypt|pbkdf2(?:-sha\d+)?|bcrypt-sha256)\$[./A-Za-z0-9$=,+-]{16,200}"),
)  # fmt: skip
"""tokens that start where no letter or digit precedes them"""

PLACED: Final[tuple[tuple[str, str, str], ...]] = (
    # group 1 is the secret, recognised by what precedes it
    (
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,160})",
    ),
    (
        "webhook",
        "/api/webhooks/ webhookb2/ /webhook/ hooks.zapier.com/ /incomingwebhook/ /with/key/ /hooks/ /open-apis/bot/",
        r"(?:/api/webhooks/\d{5,25}/|webhookb2/|webhook\.office\.com/[^\s\"']{0,20}/|outlook\.office(?:365)?\.com/webhook/|/trigger/[\w-]{1,80}/with/key/|/api/hooks/release/builtin/\d{1,12}/"
        r"|/hooks/(?=[a-z0-9]{26}(?![\w-]))|hooks\.zapier\.com/hooks/catch/\d+/|open-apis/bot/v2/hook/)"
        r"([A-Za-z0-9@/_.-]{16,400})",
    ),
    (
        "authorization",
        "authorization",
        r"(?<![a-z])authorization\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?"
        r"(?:(?:bearer|basic|token|digest|apikey|api-key|key|negotiate|bot|aws4-hmac-sha256)\s{1,3}|(?![\w.]{1,128}[(\[])(?=[^\s\"']{0,128}[0-9]))"
        r"((?!bearer |basic |token |digest |apikey )[A-Za-z0-9+/=_.~:-]{8,4096})",
    ),
    ("bearer-token", "bearer ", r"(?<![A-Za-z0-9])bearer\s{1,3}((?=[a-z_.~+/=-]{0,64}[0-9])[a-z0-9+/=_.~-]{16,4096})"),
    ("url-password", "://", r"://[^\s/:@\"'<>\[\]]{0,128}:([^\s/\"'<>]{1,256})@(?=[\w\[.-])"),
    ("url-password", "oracle:thin:", r"oracle:thin:[^/\s\"']{1,64}/([^@\s\"']{3,128})@"),
    ("url-password", ":x-oauth-basic@", r"://([^\s/:@\"']{8,255}):x-oauth-basic@"),
    ("telegram-token", "/bot", r"/bot(\d{8,10}:[a-z0-9_-]{30,40})(?![a-z0-9_-])"),
    ("rpc-key", "infura.io/ alchemy.com/", rf"(?:infura\.io/(?:ws/)?v3/({HEX}{{32}}))(?!{WORD})"),
    ("rpc-key", "alchemy.com/", rf"alchemy\.com/v2/({SAFE}{{32}})(?!{SAFE})"),
    ("saml", "samlresponse=", r"samlresponse=([a-z0-9+/=%]{100,20000})"),
    ("instrumentation-key", "instrumentationkey=", rf"instrumentationkey=({UUID})"),
    (
        "basic-auth",
        "basic ",
        r"(?<![a-z])authorization\\{0,3}[\"']?[ ]{1,3}\\{0,3}[\"']?basic[ ]{1,3}([a-z0-9+/=_-]{8,2048})",
    ),
    (
        "authorization",
        "aws4-hmac-sha256 digest ",
        rf"(?:aws4-hmac-sha256|digest)[ ][^\n]{{1,800}}?\b(?:signature|response)=\\{{0,3}}[\"']?({HEX}{{32,64}})(?!{WORD})",
    ),
    ("authorization", "geniekey ", rf"geniekey[ ]({UUID})"),
    ("url-signature", "appid=", rf"[?&]appid=({HEX}{{32}})(?!{WORD})"),
    ("cluster-token", "::server: ::node:", rf"k10({HEX}{{64}}::(?:server|node):\w{{16,128}})"),
    ("url-token", "://", r"://([A-Za-z0-9_.-]{20,255})@(?=[\w\[.-])"),
    (
        "url-signature",
        "sig= signature= token= key= secret= code= pass",
        r"[?&](?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature|access_token|refresh_token|id_token|token|auth|api_?key|key"
        r"|client_secret|secret|password|passwd|pwd|code|session|sessionid|jwt|apikey|private_token|hapikey)=((?=[^\s&\"']{0,64}[0-9])[A-Za-z0-9%+/_.~=-]{8,2048})",
    ),
    # tokens of old Vaults, of which the prefix alone says nothing
    (
        "vault-token",
        "vault token",
        rf"(?:vault|token)[^\n]{{0,60}}?(?<![\w.])(s\.(?-i:{MIXED}{WORD}{{24}}))(?![\w.(])",
    ),
    # Rails prints its key like any digest; the command before it says what it is
    (
        "key-file",
        "master.key credentials/",
        rf"(?:cat|head|tail|type|less|more)\s{{1,3}}[^\s\"';|&]{{0,200}}?(?:master|credentials/[\w-]{{1,40}})\.key[\"']?[^\n\\]{{0,80}}"
        rf"(?:\r?\n|\\{{1,2}}n)({HEX}{{32}})(?!{WORD})",
    ),
    ("password-hash", "{ssha {sha}", r"\{(?:s?sha(?:256|512)?)\}([A-Za-z0-9+/=]{20,160})"),
)
"""in any case"""
