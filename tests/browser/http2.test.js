// The chat over https and HTTP/2: one connection for all tabs. HTTP/1.1 allows six connections, and
// the seventh tab waits.

import assert from "node:assert/strict";
import { request } from "node:http";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { hears, isLive, launch, launchFirefox, PATIENCE_MS, say, signUp } from "./support/chat.js";
import { Edge } from "./support/edge.js";
import { Server } from "./support/server.js";

/** More than HTTP/1.1's limit of connections, and few enough for a busy machine; TABS=50 tests more. */
const TABS = Number(process.env.TABS ?? 12);
const SOCKETS = 12;

/** The chat's own https listener. */
class Direct {
  #server = new Server({ FERMATA_LISTEN: "https://127.0.0.1:0", FERMATA_TLS_DEVELOPMENT: "on", FERMATA_WORKERS: "1" });

  async start() {
    await this.#server.start();
  }

  get port() {
    return this.#server.port;
  }

  /** Returns the numbers of accepted connections and of the streams on them. */
  async counted() {
    const asked = request({ socketPath: join(dirname(this.#server.database), "control.sock"), path: "/stats" }).end();
    const pieces = await new Promise((resolve, reject) => {
      asked.on("error", reject);
      asked.on("response", (response) => resolve(response.toArray()));
    });
    const { accepted, http2_streams: streams } = JSON.parse(Buffer.concat(pieces)).total;

    return { accepted, streams };
  }

  async stop() {
    const code = await this.#server.stop();
    const { log } = this.#server;
    await this.#server.remove();
    assert.equal(code, 0, log);
  }
}

/** The chat over http, behind `fermata edge`. */
class BehindEdge {
  #edge = new Edge();
  #server = new Server({ FERMATA_WORKERS: "1" });

  async start() {
    await this.#server.start();
    await this.#edge.start(this.#server.port);
  }

  get port() {
    return this.#edge.port;
  }

  async counted() {
    const [accepted, streams] = await Promise.all(
      ["fermata_connections_accepted_total", "fermata_http2_streams_total"].map((name) => this.#edge.counted(name)));

    return { accepted, streams };
  }

  async stop() {
    const codes = [await this.#edge.stop(), await this.#server.stop()];
    const logs = `${this.#edge.log}\n${this.#server.log}`;
    await this.#server.remove();
    assert.deepEqual(codes, [0, 0], logs);
  }
}

const CASES = [
  { name: "in Chromium", begin: launch, place: Direct },
  { name: "in Firefox", begin: launchFirefox, place: Direct },
  { name: "through the edge in Chromium", begin: launch, place: BehindEdge },
];

for (const { name, begin, place } of CASES) {
  describe(`the chat over HTTP/2 ${name}`, { timeout: 20 * PATIENCE_MS }, () => {
    let server;
    let browser;
    let context;

    before(async () => {
      server = new place();
      await server.start();
      browser = await begin();
      context = await browser.newContext({ ignoreHTTPSErrors: true });
      context.setDefaultTimeout(4 * PATIENCE_MS);
    });

    after(async () => {
      await browser?.close();
      await server.stop();
    });

    async function open(transport) {
      const page = await context.newPage();
      await page.goto(`https://127.0.0.1:${server.port}/?transport=${transport}`);

      return page;
    }

    // Firefox's driver reports no TLS details.
    if (begin === launch) {
      it("exchanges keys by X25519MLKEM768, which browsers offer first", async () => {
        const page = await context.newPage();
        const devtools = await context.newCDPSession(page);
        const groups = [];
        devtools.on("Network.responseReceived", ({ response }) => groups.push(response.securityDetails?.keyExchangeGroup));
        await devtools.send("Network.enable");
        await page.goto(`https://127.0.0.1:${server.port}/`);
        assert.equal(groups[0], "X25519MLKEM768");
        await page.close();
      });
    }

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
      // The server has released the closed streams: new ones fit.
      const again = await open("sse");
      await isLive(again);
      await again.close();
    });

    it("opens WebSockets within it", async () => {
      const before = await server.counted();
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
      const after = await server.counted();
      const [connections, streams] = [after.accepted - before.accepted, after.streams - before.streams];
      // One connection per WebSocket would exceed this; a browser may open one or two unused ones.
      assert.ok(connections < SOCKETS / 2, `${connections} connections for ${SOCKETS} WebSockets`);
      assert.ok(streams >= SOCKETS, `${streams} streams`);
    });
  });
}
