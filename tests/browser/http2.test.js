// The chat over https and HTTP/2: one connection for all tabs, where HTTP/1.1 has six and the seventh waits.

import assert from "node:assert/strict";
import { request } from "node:http";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { hears, isLive, launch, PATIENCE_MS, say, signUp } from "./support/chat.js";
import { Server } from "./support/server.js";

/** More than HTTP/1.1 has connections for, and few enough for a machine that is busy; TABS=50 are more. */
const TABS = Number(process.env.TABS ?? 12);
const SOCKETS = 12;

describe("the chat over HTTP/2", { timeout: 20 * PATIENCE_MS }, () => {
  let server;
  let browser;
  let context;

  before(async () => {
    server = new Server({ FERMATA_LISTEN: "https://127.0.0.1:0", FERMATA_TLS_DEVELOPMENT: "on", FERMATA_WORKERS: "1" });
    await server.start();
    browser = await launch();
    context = await browser.newContext({ ignoreHTTPSErrors: true });
    context.setDefaultTimeout(4 * PATIENCE_MS);
  });

  after(async () => {
    await browser?.close();
    const code = await server.stop();
    const { log } = server;
    await server.remove();
    assert.equal(code, 0, log);
  });

  /** What the server has counted. */
  function stats() {
    return new Promise((resolve, reject) => {
      const asked = request({ socketPath: join(dirname(server.database), "control.sock"), path: "/stats" });
      asked.on("error", reject);
      asked.on("response", async (response) => {
        const pieces = [];
        for await (const piece of response) {
          pieces.push(piece);
        }
        resolve(JSON.parse(Buffer.concat(pieces)));
      });
      asked.end();
    });
  }

  async function open(transport) {
    const page = await context.newPage();
    await page.goto(`https://127.0.0.1:${server.port}/?transport=${transport}`);

    return page;
  }

  it("exchanges keys by X25519MLKEM768, which the browser offers first", async () => {
    const page = await context.newPage();
    const devtools = await context.newCDPSession(page);
    const groups = [];
    devtools.on("Network.responseReceived", ({ response }) => groups.push(response.securityDetails?.keyExchangeGroup));
    await devtools.send("Network.enable");
    await page.goto(`https://127.0.0.1:${server.port}/`);
    assert.equal(groups[0], "X25519MLKEM768");
    await page.close();
  });

  it(`keeps ${TABS} tabs live on one connection`, async () => {
    const first = await open("sse");
    await signUp(first, "Ada");
    const tabs = [first];
    while (tabs.length < TABS) {
      const page = await open("sse");
      await isLive(page);
      tabs.push(page);
    }
    await say(first, "one for all");
    for (const page of tabs) {
      await hears(page, "one for all");
    }
    const protocols = await tabs.at(-1).evaluate(() => performance.getEntriesByType("resource").map((it) => it.nextHopProtocol));
    assert.ok(protocols.length > 0 && protocols.every((it) => it === "h2"), protocols.join());
    await Promise.all(tabs.slice(1).map((page) => page.close()));
    // Streams that were closed are gone for the server, too: others take their places.
    const again = await open("sse");
    await isLive(again);
    await again.close();
  });

  it("opens WebSockets within it", async () => {
    const tabs = [];
    while (tabs.length < SOCKETS) {
      const page = await open("websocket");
      await isLive(page);
      tabs.push(page);
    }
    await say(tabs[0], "by a stream");
    for (const page of tabs) {
      await hears(page, "by a stream");
    }
    // A socket for each WebSocket would be more; a browser may open one or two that it does not use.
    const { accepted, http2_streams: streams } = (await stats()).total;
    assert.ok(accepted < TABS + SOCKETS, `${accepted} connections`);
    assert.ok(streams >= TABS + SOCKETS, `${streams} streams`);
  });
});
