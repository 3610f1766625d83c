"""Unmodified Mercure clients from PyPI publish to the hub and subscribe. Arguments: the hub's URL, its secret."""

import queue
import sys

import jwt
from mercure_publisher import MercureConfig, MercurePublisher, MercurePublishError
from pymercure.consumer import Consumer
from pymercure.message import Message
from pymercure.publisher.sync import SyncPublisher

url, secret = sys.argv[1:]
PATIENCE_S = 60
TOPIC = "https://example.com/books/1"

heard = queue.Queue()
consumer = Consumer(url, [TOPIC, "https://example.com/authors/{id}"], heard.put)
# The thread reads an endless stream, so it must not keep the process running.
consumer.daemon = True
consumer.start_consumption()


def expect(id, data, type):
    event = heard.get(timeout=PATIENCE_S)
    # A subscriber first receives its position, which this library treats as an event without data.
    while not event.data:
        event = heard.get(timeout=PATIENCE_S)
    assert (event.message_id, event.data, event.event_type) == (id, data, type), vars(event)


token = jwt.encode({"mercure": {"publish": ["*"]}}, secret, algorithm="HS256")
publisher = SyncPublisher(url, token)
expect(publisher.publish(Message([TOPIC], "by pymercure é")), "by pymercure é", "message")
expect(publisher.publish(Message([TOPIC], "given", message_id="urn:1", event_type="added")), "given", "added")

config = MercureConfig(hub_url=url, publisher_jwt_key=secret, publish_topics=["https://example.com/authors/{id}"])
with MercurePublisher(config) as other:
    topic = "https://example.com/authors/7"
    # Clients without a token never receive private updates.
    other.publish(topic, "private", private=True)
    expect(other.publish(topic, {"name": "Ada"}, type="changed"), '{"name": "Ada"}', "changed")
    try:
        other.publish(TOPIC, "for another topic")
        sys.exit("it was published")
    except MercurePublishError as refused:
        assert refused.status_code == 403, refused
print("heard")
