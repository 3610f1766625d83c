// The published pusher-js, in a page whose WebSockets are blocked, at `fermata hub` with several
// workers.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, createHmac } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, until } from "./support/chat.js";
import { freePort } from "./support/port.js";

const COMMAND = process.env.FERMATA_COMMAND ?? fileURLToPath(new URL("../../build/fermata", import.meta.url));
const LIBRARY = fileURLToPath(new URL("node_modules/pusher-js/dist/web/pusher.js", import.meta.url));
const APP = { id: "1", key: "app-key", secret: "0123456789abcdef" };
const TRANSPORTS = ["xhr_streaming", "xhr_polling"];

const sign = (text) => createHmac("sha256", APP.secret).update(text).digest("hex");

describe("pages without WebSockets", () => {
  let hub;
  let port;
  let browser;
  /** Server of the pages. Its origin differs from that of the hub, so that browsers send preflight requests. */
  let pages;
  const workers = new Map();

  before(async () => {
    port = await freePort();
    const application = Object.values(APP).join(":");
    hub = spawn(COMMAND, ["hub", "--app", application, "--workers", "3", "--listen", `127.0.0.1:${port}`], { stdio: ["ignore", "ignore", "pipe"] });
    process.on("exit", () => hub.kill("SIGKILL"));
    hub.stderr.on("data", (data) => {
      for (const [, worker, pid] of String(data).matchAll(/worker (\d+) started.*?pid=(\d+)/g)) {
        workers.set(worker, Number(pid));
      }
    });
    await until("the hub runs", () => workers.size === 3);
    pages = createHttpServer((_, response) => response.setHeader("Content-Type", "text/html").end("<!DOCTYPE html><title>A page</title>"));
    await new Promise((resolve) => pages.listen(0, "127.0.0.1", resolve));
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    pages?.close();
    hub.kill();
  });

  /** Opens a page with one client of this user; `options` are pusher-js's. */
  async function open(user, options) {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.exposeFunction("authorize", (socketId, channel, data) => {
      const text = [socketId, channel, ...(data ? [data] : [])].join(":");

      return { auth: `${APP.key}:${sign(text)}`, channel_data: data ?? undefined };
    });
    await page.goto(`http://127.0.0.1:${pages.address().port}/`);
    await page.addScriptTag({ content: await readFile(LIBRARY, "utf8") });
    await page.evaluate(({ key, port, user, options }) => {
      const reached = { cluster: "none", wsHost: "127.0.0.1", wsPort: port, httpHost: "127.0.0.1", httpPort: port, forceTLS: false, disableStats: true };
      window.states = [];
      window.heard = [];
      window.client = new Pusher(key, {
        ...reached,
        channelAuthorization: {
          customHandler({ socketId, channelName }, done) {
            const data = channelName.startsWith("presence-") ? JSON.stringify({ user_id: user, user_info: {} }) : null;
            window.authorize(socketId, channelName, data).then((auth) => done(null, auth));
          },
        },
        ...options,
      });
      window.client.connection.bind("state_change", ({ current }) => window.states.push(current));
      window.client.bind_global((name, data) => window.heard.push([name, data]));
      ["news", "private-room", "presence-room"].forEach((name) => window.client.subscribe(name));
    }, { key: APP.key, port, user, options });
    await page.waitForFunction(() => window.client.allChannels().length === 3 && window.client.allChannels().every((it) => it.subscribed));

    return { context, page };
  }

  const heard = (page, name) => page.waitForFunction((name) => window.heard.some(([it]) => it === name), name);

  async function publish(channel, name, data) {
    const path = `/apps/${APP.id}/events`;
    const body = JSON.stringify({ channel, name, data: JSON.stringify(data) });
    const md5 = createHash("md5").update(body).digest("hex");
    const query = `auth_key=${APP.key}&auth_timestamp=${Math.floor(Date.now() / 1000)}&auth_version=1.0&body_md5=${md5}`;
    const answer = await fetch(`http://127.0.0.1:${port}${path}?${query}&auth_signature=${sign(`POST\n${path}\n${query}`)}`, { method: "POST", body });
    assert.equal(answer.status, 200);
  }

  for (const transport of TRANSPORTS) {
    it(`talks by ${transport}, and comes back when a worker is killed`, async () => {
      const ann = await open("ann", { enabledTransports: [transport] });
      const bob = await open("bob", { enabledTransports: [transport] });
      assert.equal(await ann.page.evaluate(() => window.client.connection.connection.transport.name), transport);
      await publish("news", "item", { at: 1 });
      await heard(ann.page, "item");
      await heard(bob.page, "item");
      await ann.page.evaluate(() => window.client.channel("private-room").trigger("client-typing", { key: "a" }));
      await heard(bob.page, "client-typing");
      await ann.page.waitForFunction(() => window.client.channel("presence-room").members.count === 2);
      // One of the three has her session, or the request that waits for it.
      for (const pid of [...workers.values()]) {
        process.kill(pid, "SIGKILL");
        await until("it is replaced", () => ![...workers.values()].includes(pid));
      }
      await ann.page.waitForFunction(() => window.states.filter((it) => it === "connected").length > 1);
      // A page may not have noticed that its session was lost with the last worker, and pusher-js
      // does not request missed events.
      await until("both hear again", async () => {
        await publish("news", "after", {});
        const heard = await Promise.all([ann, bob].map(({ page }) => page.evaluate(() => window.heard.some(([it]) => it === "after"))));

        return heard.every(Boolean);
      });
      await ann.context.close();
      await bob.page.waitForFunction(() => window.client.channel("presence-room").members.count === 1);
      await bob.context.close();
    });
  }

  it("falls back by itself where WebSockets are blocked", async () => {
    const wall = createServer((line) => line.destroy());
    await new Promise((resolve) => wall.listen(0, "127.0.0.1", resolve));
    const { context, page } = await open("eve", { wsPort: wall.address().port });
    assert.match(await page.evaluate(() => window.client.connection.connection.transport.name), /^xhr_/);
    await publish("news", "item", {});
    await heard(page, "item");
    await context.close();
    wall.close();
  });
});
