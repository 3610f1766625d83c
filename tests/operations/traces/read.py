#!/usr/bin/env python3
"""Reads a post of spans by the messages of OpenTelemetry: read.py PACKAGES FILE. Unknown fields and wrong types fail."""

import base64
import json
import sys

sys.path.insert(0, sys.argv[1])

from google.protobuf import json_format  # noqa: E402
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: E402
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status  # noqa: E402

LENGTHS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def as_protobuf_has_it(span):
    """OTLP writes ids in hexadecimal, where JSON of protobuf has base64."""
    for name, length in LENGTHS.items():
        if name in span:
            value = bytes.fromhex(span[name])
            assert len(value) == length and any(value), span
            span[name] = base64.b64encode(value).decode()


with open(sys.argv[2], encoding="utf-8") as file:
    post = json.load(file)
for resource in post["resourceSpans"]:
    for scope in resource["scopeSpans"]:
        for one in scope["spans"]:
            as_protobuf_has_it(one)
request = json_format.ParseDict(post, ExportTraceServiceRequest())
for resource in request.resource_spans:
    names = {attribute.key for attribute in resource.resource.attributes}
    assert {"service.name", "telemetry.sdk.name"} <= names, names
    for scope in resource.scope_spans:
        assert scope.spans
        for one in scope.spans:
            assert one.name and len(one.trace_id) == 16 and len(one.span_id) == 8
            assert one.kind in (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_PRODUCER)
            assert 0 < one.start_time_unix_nano <= one.end_time_unix_nano
            assert one.status.code in (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR)
            keys = [attribute.key for attribute in one.attributes]
            assert len(keys) == len(set(keys)), keys
