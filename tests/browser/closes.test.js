// Pages that close their EventSource: ten thousand RST_STREAM frames on one connection leak
// nothing.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import http2 from "node:http2";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { PATIENCE_MS, until } from "./support/chat.js";
import { Server } from "./support/server.js";

const CONNECTIONS = 100;
/** Number of streams per connection. */
const STREAMS = 100;
/** Number of connections after which the worker has its final buffers, which later connections reuse. */
const WARM_CONNECTIONS = 20;
const GROWTH_BYTES_MAX = 4 << 20;

describe("event streams over HTTP/2 that are closed", { timeout: 10 * PATIENCE_MS }, () => {
  let server;
  let control;

  before(async () => {
    server = new Server({ FERMATA_WORKERS: "1", FERMATA_LISTEN: "http://127.0.0.1:0" }, ["tests/fixtures/hub.php"]);
    control = join(dirname(server.database), "control.sock");
    server.set("FERMATA_CONTROL", `unix:${control}`);
    await server.start();
  });

  after(() => server.remove());

  async function stats() {
    const asked = request({ socketPath: control, path: "/stats" }).end();
    const [response] = await once(asked, "response");
    const pieces = [];
    for await (const piece of response) {
      pieces.push(piece);
    }

    return JSON.parse(Buffer.concat(pieces)).total;
  }

  /** Opens as many streams as a connection allows, and closes them like a browser. */
  async function openAndClose() {
    const session = http2.connect(server.url);
    const streams = Array.from({ length: STREAMS }, () => session.request({ ":path": "/events?channels=news" }));
    await Promise.all(streams.map((stream) => once(stream, "response")));
    const closed = streams.map((stream) => once(stream, "close"));
    streams.forEach((stream) => stream.close(http2.constants.NGHTTP2_CANCEL));
    await Promise.all(closed);
    // The connection stays usable.
    const again = session.request({ ":path": "/pid" });
    again.resume();
    const [head] = await once(again, "response");
    assert.equal(head[":status"], 200);
    await once(again, "close");
    session.close();
  }

  function residentBytes() {
    const [pid] = server.workers;

    return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) * 1024;
  }

  it(`leave nothing, ${CONNECTIONS * STREAMS} of them`, async () => {
    let before = 0;
    for (let nth = 0; nth < CONNECTIONS; nth += 1) {
      if (nth === WARM_CONNECTIONS) {
        before = residentBytes();
      }
      await openAndClose();
    }
    await until("nobody is held", async () => {
      const { connections, channels, subscriptions } = await stats();
      const left = connections.sse + channels + subscriptions;

      return left === 0 || { connections, channels, subscriptions };
    });
    const { holds, http2_closed: closed } = await stats();
    assert.equal(holds, CONNECTIONS * STREAMS);
    assert.ok(Object.values(closed).every((count) => count === 0), JSON.stringify(closed));
    const growth = residentBytes() - before;
    assert.ok(growth < GROWTH_BYTES_MAX, `${growth} bytes more`);
  });
});
