# Pusher's Python server library, unmodified, against the hub. Arguments: the folder it is installed
# in, the port, and the application as ID:KEY:SECRET. Prints the events received and sent.
import hashlib
import hmac
import sys
import time

PATIENCE_S = 60

folder, port, application = sys.argv[1:]
sys.path.insert(0, folder)
import pusher  # noqa: E402

app_id, key, secret = application.split(":")


def client(secret):
    return pusher.Pusher(app_id, key, secret, ssl=False, host="127.0.0.1", port=int(port), timeout=30)


backend = client(secret)
assert backend.trigger("news", "item", {"text": "é"}) == {}
assert backend.trigger(["news", "other"], "item", {"text": "two"}) == {}
backend.trigger_batch([{"channel": "news", "name": "item", "data": {"at": at}} for at in (1, 2)])
print("published", flush=True)


def expect(ask, expected):
    """Repeats a request until its result is `expected`: workers exchange their counts with a delay."""
    end = time.monotonic() + PATIENCE_S
    while (found := ask()) != expected:
        assert time.monotonic() < end, found
        time.sleep(0.02)


expect(lambda: backend.channel_info("news", ["subscription_count"]), {"occupied": True, "subscription_count": 1})
expect(lambda: backend.channels_info("presence-", ["user_count"]), {"channels": {"presence-room": {"user_count": 1}}})
expect(lambda: backend.users_info("presence-room"), {"users": [{"id": "ann"}]})
print("asked", flush=True)

signed = backend.authenticate(channel="private-room", socket_id="1.2")
expected = hmac.new(secret.encode(), b"1.2:private-room", hashlib.sha256).hexdigest()
assert signed == {"auth": f"{key}:{expected}"}, signed

try:
    client("guessed").trigger("news", "item", {})
    raise SystemExit("a wrong secret was taken")
except pusher.errors.PusherBadAuth:
    print("refused", flush=True)
