// The page's event parser, without a browser.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EventParser } from "../../examples/chat/public/assets/sse.js";

function read(pieces) {
  const events = [];
  const parser = new EventParser((event) => events.push(event), (retry) => events.push({ retry }));
  pieces.forEach((piece) => parser.feed(piece));

  return { events, lastEventId: parser.lastEventId };
}

describe("EventParser", () => {
  const stream = "\uFEFF: comment\n\nretry: 1500\r\nid: 7\revent: join\ndata: one\r\ndata:two\ndata\n\n"
    + "data: no id of its own\r\r" + "id: 8\n\n" + "id: bad\0id\ndata: x\r\n\r\nevent: empty\n\nretry: soon\ndata:  two spaces\n\ndata: unfinished";

  it("reads what the standard says", () => {
    assert.deepEqual(read([stream]), {
      events: [
        { retry: 1500 },
        { name: "join", data: "one\ntwo\n", id: "7" },
        { name: "message", data: "no id of its own", id: "7" },
        { name: "message", data: "x", id: "8" },
        { name: "message", data: " two spaces", id: "8" },
      ],
      lastEventId: "8",
    });
  });

  it("gives the same events for any split", () => {
    const expected = read([stream]);
    assert.deepEqual(read([...stream]), expected);
    for (let first = 0; first <= stream.length; first += 1) {
      assert.deepEqual(read([stream.slice(0, first), stream.slice(first)]), expected, `split at ${first}`);
      assert.deepEqual(read([stream.slice(0, first), "", stream.slice(first)]), expected);
    }
  });

  it("forgets an unfinished event on a new connection, but not the last id", () => {
    const events = [];
    const parser = new EventParser((event) => events.push(event));
    parser.feed("id: 1\ndata: a\n\nid: 2\ndata: b");
    parser.reset();
    parser.feed("data: c\n\n");
    assert.deepEqual(events, [{ name: "message", data: "a", id: "1" }, { name: "message", data: "c", id: "1" }]);
  });
});
