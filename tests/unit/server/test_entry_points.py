"""Errors over HTTP speak HTTP: no flag and no verb of the command line, unless it is reported as a command to run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import relight
from relight.errors import RelightError, UsageError
from relight.server.http.hints import http_hints, http_text
from relight.server.http.problems import problem_of
from tests.support.server_harness import Answer, ServerHarness

SOURCE = Path(relight.__file__).parent
CLI = re.compile(r"(?:^|\s)--[a-z]|(?:^|[\s(:])relight [a-z]")


def hints_in_the_source() -> list[str]:
    """Every text in the source that names a command or a flag, as an error might say it."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(SOURCE / "cli") or path.is_relative_to(SOURCE / "testing"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CLI.search(node.value):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (one.value if isinstance(one, ast.Constant) else "x1" for one in node.values)
                found.append("".join(str(part) for part in parts))
    return [text for text in found if CLI.search(text) and len(text) < 400]


def test_whatever_an_error_hints_at_is_told_in_the_words_of_http_or_as_a_command() -> None:
    texts = hints_in_the_source()
    assert len(texts) > 100
    for text in texts:
        document = problem_of(UsageError(text.splitlines()[0], hints=[text])).document()
        said = [document["detail"], *document["hints"]]
        assert not [one for one in said if re.search(r"(?:^|\s)--[a-z]", one)], said
        assert not [one for one in document["hints"] if CLI.search(one)], said
        assert len(document["hints"]) + len(document.get("commands", [])) == 1


@pytest.mark.parametrize(
    ("hint", "here"),
    [
        ("relight list --all", "GET /api/sessions"),
        ("keep them: --theirs", 'keep them: "choice": "theirs"'),
        ("it hangs: relight clear job", "it hangs: POST /api/sessions/job/clear"),
        ("relight rm job --with-forks", "DELETE /api/sessions/job?with_forks=true"),
        ("go on: relight resume job --from-last-good", 'go on: POST /api/sessions/job/resume {"from_last_good": true}'),
        ("see: relight resume job --dry-run", "see: GET /api/sessions/job/can-resume"),
        ("or: relight settle job c1 --retry", 'or: POST /api/sessions/job/settle {"call": "c1", "retry": true}'),
        ("relight token add NAME --scope operate", 'POST /api/tokens {"name": "NAME", "scope": "operate"}'),
        ("use a new key", "use a new key"),
    ],
)
def test_a_command_is_told_as_the_request_that_does_it(hint: str, here: str) -> None:
    assert http_text(hint) == here


def test_what_only_a_terminal_can_do_is_told_apart() -> None:
    assert http_hints(["a new link: relight serve --link", "use a new key"]) == (
        ("use a new key",),
        ("a new link: relight serve --link",),
    )


def test_the_documents_that_people_meet_first(some: ServerHarness) -> None:
    """M29, W4."""
    client = some.client()
    scope = Answer(client.post("/api/sessions/fix-login@3/rewind", json={}))
    assert '"scope": "conversation"' in scope.document["detail"]
    unknown = Answer(client.get("/api/sessions/no-such-one"))
    assert unknown.document["hints"] == ["GET /api/sessions"]
    nobody = Answer(some.client(None).get("/api/sessions"))
    assert nobody.document["hints"] == [] and nobody.document["commands"] == ["a new link: relight serve --link"]
    for answered in (scope, unknown):
        assert not CLI.search(str({**answered.document, "commands": None}))


def test_every_error_of_ours_has_a_problem_document() -> None:
    assert issubclass(UsageError, RelightError)
    assert problem_of(UsageError("x", evidence=["said", "  hint: relight list"])).evidence == ("said",)
