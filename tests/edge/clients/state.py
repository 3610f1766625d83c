"""A service with pyzmq that stores sessions: state.py ENDPOINT. Prints every request as a line of JSON."""

import json
import sys

import zmq


def dump(value):
    if value is None:
        data, kind = b"", b"~"
    elif isinstance(value, bool):
        data, kind = (b"true" if value else b"false"), b"!"
    elif isinstance(value, int):
        data, kind = str(value).encode(), b"#"
    elif isinstance(value, str):
        data, kind = value.encode(), b","
    elif isinstance(value, list):
        data, kind = b"".join(map(dump, value)), b"]"
    else:
        data, kind = b"".join(dump(key) + dump(each) for key, each in value.items()), b"}"
    return str(len(data)).encode() + b":" + data + kind


def load(text):
    length, rest = text.split(b":", 1)
    end = int(length)
    data, kind, rest = rest[:end], rest[end : end + 1], rest[end + 1 :]
    values = []
    if kind in b"]}":
        while data:
            value, data = load(data)
            values.append(value)
    readers = {
        b",": lambda: data.decode(),
        b"#": lambda: int(data),
        b"!": lambda: data == b"true",
        b"~": lambda: None,
        b"]": lambda: values,
        b"}": lambda: dict(zip(values[::2], values[1::2], strict=False)),
    }
    return readers[kind](), rest


rules = []
sessions = {}


def answer(method, args):
    if method == "session-detect-rules-set":
        rules.extend(rule for rule in args["rules"] if rule not in rules)
    elif method == "session-detect-rules-get":
        return [
            rule
            for rule in rules
            if rule["domain"] == args["domain"] and args["path"].startswith(rule["path-prefix"])
        ]
    elif method == "session-create-or-update":
        sessions.setdefault(args["sid"], {}).update(args["last-ids"])
    elif method == "session-update-many":
        for sid, last_ids in args["sid-last-ids"].items():
            sessions[sid].update(last_ids)
    elif method == "session-get-last-ids":
        return sessions[args["sid"]]
    return None


socket = zmq.Context().socket(zmq.REP)
socket.connect(sys.argv[1])
while True:
    request, _ = load(socket.recv())
    try:
        reply = {"success": True, "value": answer(request["method"], request["args"])}
    except KeyError:
        reply = {"success": False, "condition": "item-not-found"}
    print(json.dumps({"method": request["method"], "args": request["args"]}), flush=True)
    socket.send(dump({"id": request["id"], **reply}))
