"""Python's `websockets`: client.py URL"""

import json
import sys

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

large = b"fermata holds this note " * 8000
sent = ["grüße 🎵", "", "x" * 70_000, large]
with connect(sys.argv[1], subprotocols=["v2", "v1"], max_size=None) as socket:
    for message in sent:
        socket.send(message)
    # A message in fragments.
    socket.send(iter(["in ", "three ", "parts"]))
    got = [socket.recv() for _ in range(len(sent) + 1)]
    assert socket.ping("?").wait(20)
    extensions = [extension.name for extension in socket.protocol.extensions]
    socket.close(4000, "bye")
    try:
        socket.recv()
        code = None
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else 1006
print(json.dumps({
    "same": got == [*sent, "in three parts"],
    "count": len(got) - 1,
    "protocol": socket.subprotocol,
    "compressed": "permessage-deflate" in extensions,
    "code": code,
    "wasClean": code == 4000,
}))
