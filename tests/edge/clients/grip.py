"""`gripcontrol` and `pubcontrol`: grip.py hold CHANNEL, or grip.py publish URI CHANNEL TOKEN KEY"""

import json
import sys

from gripcontrol import (
    Channel,
    GripPubControl,
    HttpStreamFormat,
    Response,
    create_hold_stream,
    parse_grip_uri,
    validate_sig,
)
from pubcontrol import Item

if sys.argv[1] == "hold":
    response = Response(headers={"Content-Type": "text/plain"}, body="opened\n")
    print(create_hold_stream(Channel(sys.argv[2]), response))
else:
    uri, channel, token, key = sys.argv[2:]
    publisher = GripPubControl(parse_grip_uri(uri))
    publisher.publish(channel, Item(HttpStreamFormat("first "), "1", "0"), blocking=True)
    publisher.publish(channel, Item(HttpStreamFormat(b"\xc3\xbc "), "2", "1"), blocking=True)
    publisher.publish(channel, Item(HttpStreamFormat(close=True), "3", "2"), blocking=True)
    print(json.dumps({
        "signed": validate_sig(token, key),
        "forged": validate_sig(token[:-2], key),
    }))
