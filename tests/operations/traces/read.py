#!/usr/bin/env python3
"""Decodes a POST of spans with OpenTelemetry's message types: read.py PACKAGES FILE http/json|http/protobuf.

Fails on unknown fields and wrong types. Prints a line for each span, without fields that differ between runs.
"""

import base64
import json
import sys

sys.path.insert(0, sys.argv[1])

from google.protobuf import json_format, unknown_fields  # noqa: E402
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: E402
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status  # noqa: E402

LENGTHS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
# Attributes that differ between runs.
CHANGING = {"messaging.message.id", "network.peer.port", "server.port", "fermata.hold.bytes", "http.response.body.size"}


def as_protobuf_has_it(span):
    """Converts ids from hexadecimal, as OTLP encodes them, to base64, as JSON of protobuf requires."""
    for name, length in LENGTHS.items():
        if name in span:
            value = bytes.fromhex(span[name])
            assert len(value) == length and any(value), span
            span[name] = base64.b64encode(value).decode()


def from_json(content):
    post = json.loads(content.decode("utf-8"))
    for resource in post["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for one in scope["spans"]:
                as_protobuf_has_it(one)
    return json_format.ParseDict(post, ExportTraceServiceRequest())


def from_protobuf(content):
    request = ExportTraceServiceRequest()
    assert request.ParseFromString(content) == len(content)
    assert_all_known(request)
    return request


def assert_all_known(message):
    assert not len(unknown_fields.UnknownFieldSet(message)), message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.label == field.LABEL_REPEATED else [value]:
                assert_all_known(one)


with open(sys.argv[2], "rb") as file:
    request = {"http/json": from_json, "http/protobuf": from_protobuf}[sys.argv[3]](file.read())
assert request.resource_spans
for resource in request.resource_spans:
    said = {attribute.key: attribute.value for attribute in resource.resource.attributes}
    assert said["service.name"].string_value == "fermata"
    assert said["deployment.environment.name"].string_value == "t\u00e9st"
    assert said["process.pid"].int_value > 1
    assert {"telemetry.sdk.name", "telemetry.sdk.version", "host.name"} <= set(said), said
    for scope in resource.scope_spans:
        assert scope.spans and scope.scope.name == "fermata" and scope.scope.version
        for one in scope.spans:
            assert one.name and len(one.trace_id) == 16 and len(one.span_id) == 8
            assert len(one.parent_span_id) in (0, 8)
            assert one.kind in (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_PRODUCER)
            assert 0 < one.start_time_unix_nano <= one.end_time_unix_nano
            assert one.status.code in (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR)
            attributes = {attribute.key: attribute.value for attribute in one.attributes}
            assert len(attributes) == len(one.attributes), one.attributes
            values = {
                key: getattr(value, value.WhichOneof("value"))
                for key, value in sorted(attributes.items())
            }
            values = {key: None if key in CHANGING else value for key, value in values.items()}
            given = one.trace_id.hex() if one.flags & 0x200 else None
            print(json.dumps([one.name, one.kind, one.flags, one.trace_state, given, one.status.code, values]))
