"""Tests the example server of crates/proto with another HTTP/2 implementation, Python's h2: h2_client.py HOST:PORT."""

import random
import socket
import sys

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings


class Client:
    """A connection with the responses of its streams."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.bodies = {}
        self.heads = {}
        self.ended = set()
        self.resets = {}
        self.pongs = []
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def open(self, path, method="GET", end=True, extra=()):
        stream = self.h2.get_next_available_stream_id()
        head = [
            (":method", method),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            *extra,
        ]
        self.h2.send_headers(stream, head, end_stream=end)
        self.bodies[stream] = b""
        return stream

    def read(self):
        """Handles received frames, and returns flow-control credit for received data."""
        received = self.socket.recv(65536)
        assert received, "the server has closed"
        for event in self.h2.receive_data(received):
            stream = getattr(event, "stream_id", None)
            if isinstance(event, h2.events.ResponseReceived):
                self.heads[stream] = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self.bodies[stream] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(stream)
            elif isinstance(event, h2.events.StreamReset):
                self.resets[stream] = event.error_code
            elif isinstance(event, h2.events.PingAckReceived):
                self.pongs.append(event.ping_data)
            elif isinstance(event, h2.events.ConnectionTerminated):
                raise AssertionError(f"GOAWAY {event.error_code} {event.additional_data!r}")
        self.flush()

    def until(self, condition):
        while not condition():
            self.flush()
            self.read()


def interleaved_bodies(address, seed):
    """The server echoes bodies that arrive in random pieces on several streams."""
    choose = random.Random(seed)
    client = Client(address)
    bodies = {}
    for length in (0, 1, 70_000, 16_384, 200_000):
        stream = client.open("/echo", "POST", end=False)
        bodies[stream] = choose.randbytes(length)
    sent = dict.fromkeys(bodies, 0)
    while sent:
        stream = choose.choice(list(sent))
        body, at = bodies[stream], sent[stream]
        room = min(
            client.h2.local_flow_control_window(stream),
            client.h2.max_outbound_frame_size,
            choose.randint(1, 20_000),
        )
        if room <= 0:
            client.flush()
            client.read()
            continue
        piece = body[at : at + room]
        ends = at + len(piece) == len(body)
        trailers = ends and stream % 4 == 1 and body
        pad = choose.choice((None, 0, 7)) if len(piece) + 8 <= room else None
        client.h2.send_data(stream, piece, end_stream=ends and not trailers, pad_length=pad)
        if trailers:
            client.h2.send_headers(stream, [("x-sum", "1")], end_stream=True)
        sent[stream] += len(piece)
        if ends:
            del sent[stream]
    client.until(lambda: len(client.ended) == len(bodies))
    for stream, body in bodies.items():
        assert client.bodies[stream] == body, (stream, len(body), len(client.bodies[stream]))


def resets_and_pings(address):
    """Reset streams do not affect another one, and their flow-control credit is available again."""
    client = Client(address)
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    for _ in range(200):
        stream = client.open("/bytes/5000")
        client.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
    last = client.open("/bytes/100000")
    client.h2.ping(b"12345678")
    client.until(lambda: last in client.ended and client.pongs)
    assert client.bodies[last] == b"x" * 100_000
    assert client.pongs == [b"12345678"]


def refusals(address):
    """A malformed request gets an error status, and the connection stays usable."""
    client = Client(address)
    client.h2.config.validate_outbound_headers = False
    client.h2.config.normalize_outbound_headers = False
    bad = client.open("/", extra=(("transfer-encoding", "chunked"),))
    client.until(lambda: bad in client.heads)
    assert client.heads[bad][":status"] == "400", client.heads
    good = client.open("/")
    client.until(lambda: good in client.ended)
    assert client.bodies[good] == b"hello"


for seed in range(5):
    interleaved_bodies(sys.argv[1], seed)
resets_and_pings(sys.argv[1])
refusals(sys.argv[1])
print("ok")
