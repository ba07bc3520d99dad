"""The OpenAPI document is what the server does: generated requests find no fault and no undeclared answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from tests.support.figures import Figure
from tests.support.server_harness import ServerHarness
from tests.unit.server.conftest import fill

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
LEFT_OUT = {"/api/events", "/api/sessions/{ref}/events"}
"""they do not end; test_streams.py reads them"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHarness]:
    made = ServerHarness(tmp_path_factory.mktemp("document") / "p.db", rate_burst=10**9, failures_burst=10**9)
    fill(made.rl)
    yield made
    made.close()


@pytest.mark.timeout(900)  # for the full size
def test_generated_requests_find_no_fault(
    harness: ServerHarness, sample: Callable[..., int], figure: Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a made-up directory would be made
    document = harness.app.openapi()
    for path in LEFT_OUT:
        assert path in document["paths"]
    schema = schemathesis.openapi.from_dict(document)
    tried = 0
    with harness.client() as client:
        for result in schema.get_all_operations():
            operation: Any = result.ok()  # type: ignore[union-attr]
            if operation.path in LEFT_OUT:
                continue
            tried += _try(operation, client, sample(2, proof=300))
    figure("G27", f"{tried} generated requests over {len(document['paths'])} paths: 0 faults, 0 undeclared answers")


def _try(operation: Any, client: TestClient, examples: int) -> int:
    count = 0

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def one(case: Any) -> None:
        nonlocal count
        count += 1
        _tame(case, operation, count)
        response = client.request(**_request(case))
        case.validate_response(response, checks=CHECKS)

    one()
    return count


def _tame(case: Any, operation: Any, number: int) -> None:
    """Most are about sessions that are there; nothing of this machine is started, and no directory made."""
    if "{ref}" in operation.path and operation.method.upper() != "DELETE" and number % 3:
        case.path_parameters["ref"] = ("fix-login", "changelog@1", "nightly-docs", "port-to-uv@1")[number % 4]
    if isinstance(case.body, dict) and "workspace" in case.body:
        case.body = {**case.body, "workspace": None}
    if (operation.method.upper(), operation.path) == ("POST", "/api/sessions"):
        case.body = {"command": ["/nonexistent"], "labels": {"a": "b"}}


def _request(case: Any) -> dict[str, Any]:
    built = case.as_transport_kwargs(base_url="http://127.0.0.1:7878")
    built.pop("cookies", None)
    if isinstance(built.get("data"), bytes):
        built["content"] = built.pop("data")
    return {key: value for key, value in built.items() if value is not None}


def test_every_route_of_the_surface_is_in_the_document(harness: ServerHarness) -> None:
    document = harness.app.openapi()["paths"]
    wanted = """
        GET /api/sessions, GET /api/sessions/{ref}, DELETE /api/sessions/{ref}, POST /api/sessions,
        POST /api/sessions/{ref}/resume, POST /api/sessions/{ref}/fork, POST /api/sessions/{ref}/rewind,
        POST /api/sessions/{ref}/stop, POST /api/sessions/{ref}/send, POST /api/sessions/{ref}/clear,
        POST /api/sessions/{ref}/approve, POST /api/sessions/{ref}/deny, POST /api/sessions/{ref}/undo,
        POST /api/sessions/{ref}/restore, POST /api/sessions/{ref}/archive, POST /api/sessions/{ref}/settle,
        GET /api/sessions/{ref}/events, GET /api/sessions/{ref}/checkpoints, GET /api/sessions/{ref}/can-resume,
        GET /api/sessions/{ref}/operations, GET /api/sessions/{ref}/files, GET /api/sessions/{ref}/diff,
        GET /api/sessions/{ref}/tree, GET /api/sessions/{ref}/search, GET /api/search, GET /api/checkpoints,
        GET /api/checkpoints/{ref},
        DELETE /api/checkpoints/{ref}, GET /api/checkpoints/{ref}/can-resume, GET /api/checkpoints/{ref}/diff,
        POST /api/checkpoints/{ref}/resume, POST /api/checkpoints/{ref}/label, POST /api/agent/runs/resume,
        GET /api/attention, GET /api/actions, GET /api/events, GET /api/leases, GET /api/workers, GET /api/sweep,
        POST /api/sweep, GET /api/retention, POST /api/retention, GET /api/tokens,
        POST /api/tokens, GET /api/stats, GET /healthz, GET /metrics, GET /login,
        GET /openapi.json
    """
    for one in wanted.split(","):
        method, path = one.split()
        assert method.lower() in document.get(path, {}), one
    for path, operations in document.items():
        for method, operation in operations.items():
            assert operation.get("description"), (method, path)


def test_no_schema_is_named_after_a_module_of_ours(harness: ServerHarness) -> None:
    """As two bodies of one name are: a client generated from the document would have that name in its code."""
    assert [name for name in harness.app.openapi()["components"]["schemas"] if name.startswith("relight_")] == []


def test_every_request_and_every_good_answer_has_an_example_that_its_schema_allows(harness: ServerHarness) -> None:
    document = harness.app.openapi()
    seen = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            contents = list(operation.get("requestBody", {}).get("content", {}).values())
            for status, answered in operation["responses"].items():
                if status.startswith("2"):
                    assert answered.get("content"), (method, path)
                    contents += answered["content"].values()
            for content in contents:
                assert "example" in content, (method, path)
                whole = {**content["schema"], "components": document["components"]}
                wrong = [
                    error.message for error in jsonschema_rs.Draft202012Validator(whole).iter_errors(content["example"])
                ]
                assert not wrong, (method, path, wrong[:3])
                seen += 1
    assert seen > 60
