"""A gRPC server without a schema, and a client that makes every kind of call through an edge.

    python3 grpc_calls.py serve          prints its port
    python3 grpc_calls.py call HOST:PORT
    python3 grpc_calls.py loop HOST:PORT  thousands of calls without pauses
"""

import queue
import sys
from concurrent import futures

import grpc

SERVICE = "fermata.Test"
# Longer than any call takes on a busy machine.
CALL_S = 120
LARGE = bytes(range(256)) * 4096


def unary(request, context):
    context.set_trailing_metadata((("x-own", "trailer"), ("x-own-bin", b"\x00\xff")))
    if request == b"fail":
        context.abort(grpc.StatusCode.NOT_FOUND, "there is no such thing")
    context.send_initial_metadata((("x-first", "head"),))
    return b"re: " + request


def count(request, context):
    for number in range(int(request)):
        yield str(number).encode()


def total(requests, context):
    return str(sum(len(request) for request in requests)).encode()


def echo(requests, context):
    yield from requests


def serve():
    kinds = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Total": grpc.stream_unary_rpc_method_handler(total),
        "Echo": grpc.stream_stream_rpc_method_handler(echo),
    }
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, kinds),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def call(address):
    with grpc.insecure_channel(address) as channel:
        answer, made = channel.unary_unary(f"/{SERVICE}/Unary").with_call(b"hello", timeout=CALL_S)
        assert answer == b"re: hello", answer
        assert ("x-first", "head") in made.initial_metadata(), made.initial_metadata()
        trailing = dict(made.trailing_metadata())
        assert trailing["x-own"] == "trailer" and trailing["x-own-bin"] == b"\x00\xff", trailing
        large = channel.unary_unary(f"/{SERVICE}/Unary")(LARGE, timeout=CALL_S)
        assert large == b"re: " + LARGE, len(large)
        try:
            channel.unary_unary(f"/{SERVICE}/Unary")(b"fail", timeout=CALL_S)
            raise AssertionError("it should fail")
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND, error
            assert error.details() == "there is no such thing", error
        try:
            channel.unary_unary(f"/{SERVICE}/Nothing")(b"", timeout=CALL_S)
            raise AssertionError("it should be unknown")
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNIMPLEMENTED, error
        counted = list(channel.unary_stream(f"/{SERVICE}/Count")(b"500", timeout=CALL_S))
        assert counted == [str(number).encode() for number in range(500)], counted
        pieces = (b"x" * 10_000 for _ in range(200))
        summed = channel.stream_unary(f"/{SERVICE}/Total")(pieces, timeout=CALL_S)
        assert summed == b"2000000", summed
        talk(channel)
        leave(channel)
        calls = [channel.unary_unary(f"/{SERVICE}/Unary").future(b"%d" % n, timeout=CALL_S) for n in range(200)]
        for number, future in enumerate(calls):
            assert future.result() == b"re: %d" % number
    print("all calls are as they should be")


def loop(address):
    """Causes the control frames of a fast network: a WINDOW_UPDATE per message, a PING per round trip."""
    with grpc.insecure_channel(address) as channel:
        unary_call = channel.unary_unary(f"/{SERVICE}/Unary")
        for number in range(2_000):
            assert unary_call(b"%d" % number, timeout=CALL_S) == b"re: %d" % number
        calls = [unary_call.future(b"x" * 1_000, timeout=CALL_S) for _ in range(2_000)]
        assert all(len(future.result()) == 1_004 for future in calls)
        many = channel.unary_stream(f"/{SERVICE}/Count")
        assert sum(1 for _ in many(b"10000", timeout=CALL_S)) == 10_000
        for _ in range(1_500):
            answers = many(b"100", timeout=CALL_S)
            assert next(answers) == b"0"
            answers.cancel()
        assert unary_call(b"end", timeout=CALL_S) == b"re: end"
    print("no call was lost")


def talk(channel):
    """Sends each message after the previous one was echoed."""
    said = queue.SimpleQueue()
    answers = channel.stream_stream(f"/{SERVICE}/Echo")(iter(said.get, None), timeout=CALL_S)
    for number in range(50):
        said.put(b"message %d" % number)
        assert next(answers) == b"message %d" % number
    said.put(None)
    assert list(answers) == []
    assert answers.code() is grpc.StatusCode.OK


def leave(channel):
    """Cancels a call after its first response message."""
    said = queue.SimpleQueue()
    answers = channel.stream_stream(f"/{SERVICE}/Echo")(iter(said.get, None), timeout=CALL_S)
    said.put(b"one")
    assert next(answers) == b"one"
    answers.cancel()
    said.put(None)


match sys.argv[1]:
    case "serve":
        serve()
    case "loop":
        loop(sys.argv[2])
    case _:
        call(sys.argv[2])
