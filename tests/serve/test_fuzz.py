"""Requests that nobody would think of, made by schemathesis from the description of the service: no server error."""

from __future__ import annotations

from collections import Counter

import pytest
import schemathesis
from clients import served
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from cbdl.serve import Limits, application

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def tried(trained, cases: int) -> Counter[int]:
    """How many requests had which status, good and bad ones; the first that a check does not like is an error."""
    seen: Counter[int] = Counter()
    with served(application(trained, Limits(gather=0.0))) as url:
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        operations = [op.ok() for op in schema.get_all_operations()]
        for operation in operations:
            main = operation.path == "/v1/predict"
            for mode in GenerationMode:
                if not main and mode is GenerationMode.NEGATIVE:
                    continue  # nothing to get wrong

                @settings(
                    max_examples=cases // 2 if main else 1,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )
                @given(case=operation.as_strategy(generation_mode=mode))
                def run(case):
                    response = case.call_and_validate(base_url=url, checks=CHECKS)
                    seen[response.status_code] += 1

                run()
    return seen


@pytest.mark.parametrize("kind", ["of_classes", "of_numbers"])
def test_no_request_makes_the_service_fail(kind, request):
    seen = tried(request.getfixturevalue(kind), 30)
    assert seen.total() >= 30
    assert {200, 422} <= set(seen)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["of_classes", "of_numbers", "of_pictures"])
def test_no_request_of_a_thousand_makes_the_service_fail(kind, request):
    seen = tried(request.getfixturevalue(kind), 1000)
    print(dict(seen))
    assert seen.total() >= 1000
    assert {200, 422} <= set(seen)
