// The chat with Laravel Echo and with Mercure: two small pages on the channels of the chat's own
// page.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Chat, hears, message, say, until, writeTo } from "./support/chat.js";

const PACKAGES = fileURLToPath(new URL("node_modules/", import.meta.url));
const PAGES = ["echo", "mercure"];

/** The page loads the libraries from a CDN; here they come from the packages. The page verifies their hashes. */
async function serveLibraries(context) {
  await context.route("https://cdn.jsdelivr.net/npm/**", async (route) => {
    const [, name, path] = /\/npm\/([^@]+)@[^/]+\/(.+)$/.exec(route.request().url());
    await route.fulfill({
      body: await readFile(`${PACKAGES}${name}/${path}`),
      contentType: "text/javascript",
      headers: { "Access-Control-Allow-Origin": "*" },
    });
  });
}

const isLive = (page) => page.locator("#status[data-state=live]").waitFor();
const isSignedOut = (page) => page.locator("#status[data-state=signed-out]").waitFor();
const texts = (page) => page.locator("#messages .text").allTextContents();
const row = (page, text) => page.locator("#messages li").filter({ has: page.locator(".text").getByText(text, { exact: true }) });

async function write(page, text) {
  await page.locator("#text").fill(text);
  await page.locator("#composer").evaluate((form) => form.requestSubmit());
}

describe("the chat by other protocols", () => {
  let chat;
  /** The chat's own page, and the small ones by name, each of a different user. */
  let own;
  const small = {};

  async function open(context, name) {
    const page = await context.newPage();
    await page.goto(`${chat.url}/${name}`);

    return page;
  }

  before(async () => {
    chat = await Chat.start("sse");
    own = await chat.user("Olga");
    for (const name of PAGES) {
      const user = await chat.user(`By ${name}`);
      await user.page.close();
      await serveLibraries(user.context);
      small[name] = { ...user, page: await open(user.context, name) };
      await isLive(small[name].page);
    }
  });
  after(() => chat.stop());

  /** Sends a message as a client signed in as Olga, without the relay, so also while the pages are disconnected. */
  async function post(text, to = "all") {
    const { csrfToken } = await (await own.context.request.get(`${chat.server.url}/session`)).json();
    const data = { to, text, key: `test-${text.replaceAll(" ", "-")}` };
    const answer = await own.context.request.post(`${chat.server.url}/messages`, { data, headers: { "X-CSRF-Token": csrfToken } });
    assert.equal(answer.status(), 201);
  }

  it("brings what any page says to all of them, in one order and once", async () => {
    await say(own.page, "from the chat");
    await hears(own.page, "from the chat");
    for (const name of PAGES) {
      for (const other of PAGES) {
        await row(small[other].page, "from the chat").waitFor();
      }
      await write(small[name].page, `from ${name}`);
      await hears(own.page, `from ${name}`);
      for (const other of PAGES) {
        await row(small[other].page, `from ${name}`).waitFor();
      }
    }
    for (const name of PAGES) {
      assert.deepEqual(await texts(small[name].page), ["from the chat", "from echo", "from mercure"]);
    }
  });

  it("brings a private message to its two people alone", async () => {
    for (const name of PAGES) {
      await writeTo(own.page, `By ${name}`);
      await say(own.page, `a secret for ${name}`);
      await row(small[name].page, `a secret for ${name}`).waitFor();
      assert.equal(await row(small[name].page, `a secret for ${name}`).getAttribute("class"), "private");
    }
    // The next message arrives after any wrongly delivered one.
    await post("after the secrets");
    for (const [name, other] of [PAGES, PAGES.toReversed()]) {
      await row(small[name].page, "after the secrets").waitFor();
      assert.equal(await row(small[name].page, `a secret for ${other}`).count(), 0);
    }
  });

  it("misses nothing when the network was away", async () => {
    chat.expectsProblems = true;
    chat.proxy.down();
    for (const name of PAGES) {
      await small[name].page.locator("#status[data-state=waiting]").waitFor();
    }
    await post("while they were away");
    chat.proxy.restore();
    for (const name of PAGES) {
      await row(small[name].page, "while they were away").waitFor();
      await isLive(small[name].page);
      assert.equal(await row(small[name].page, "while they were away").count(), 1);
    }
  });

  it("goes on when a worker is killed, and when the server is started anew", async () => {
    const [killed] = chat.server.workers;
    process.kill(killed, "SIGKILL");
    await until("another one comes in its place", () => {
      const { workers } = chat.server;
      return (workers.length === 2 && !workers.includes(killed)) || workers;
    });
    await post("after a worker was killed");
    for (const name of PAGES) {
      await row(small[name].page, "after a worker was killed").waitFor();
    }
    // The signing secret has changed: the pages request new authorization.
    await chat.server.stop();
    await chat.server.start();
    await post("after a new start");
    for (const name of PAGES) {
      await row(small[name].page, "after a new start").waitFor();
      await isLive(small[name].page);
      const shown = await texts(small[name].page);
      assert.equal(new Set(shown).size, shown.length, shown.join());
    }
    chat.expectsProblems = false;
  });

  it("refuses who is not signed in, and other people's channels", async () => {
    const authorize = async (context, channel) => (await context.request.post(`${chat.url}/broadcasting/auth`, {
      form: { socket_id: "1.2", channel_name: channel },
    })).status();
    const stranger = await chat.profile();
    const { user } = await (await own.context.request.get(`${chat.url}/session`)).json();
    assert.equal(await authorize(stranger, "private-all"), 403);
    assert.equal(await authorize(own.context, "private-all"), 200);
    assert.equal(await authorize(own.context, `private-user.${user.id}`), 200);
    for (const channel of [`private-user.${user.id}`, "private-", "private-user.", "presence-all"]) {
      assert.equal(await authorize(small.echo.context, channel), 403, channel);
    }
    const hub = `${chat.url}/.well-known/mercure?topic=all`;
    assert.equal((await stranger.request.get(hub)).status(), 401);
    const update = { form: { topic: "all", data: "forged" } };
    assert.equal((await small.mercure.context.request.post(hub, update)).status(), 401);
    assert.equal((await stranger.request.post(`${chat.url}/mercure`, { data: {} })).status(), 401);
    const [cookie] = (await small.mercure.context.cookies(hub)).filter(({ name }) => name === "mercureAuthorization");
    assert.equal(cookie.httpOnly, true);
    assert.equal(cookie.sameSite, "Strict");
    await serveLibraries(stranger);
    for (const name of PAGES) {
      const page = await open(stranger, name);
      await isSignedOut(page);
      assert.equal(await page.locator("#composer").isHidden(), true);
      assert.equal(await page.locator("#messages li").count(), 0);
    }
    await stranger.close();
    assert.equal(await message(own.page, "forged").count(), 0);
  });

  it("ends with the session", async () => {
    for (const name of PAGES) {
      const { context, page } = small[name];
      const { csrfToken } = await (await context.request.get(`${chat.url}/session`)).json();
      const answer = await context.request.delete(`${chat.url}/session`, { data: {}, headers: { "X-CSRF-Token": csrfToken } });
      assert.equal(answer.status(), 204);
      await isSignedOut(page);
    }
    await post("nobody of them hears");
    await hears(own.page, "nobody of them hears");
    for (const name of PAGES) {
      assert.equal(await row(small[name].page, "nobody of them hears").count(), 0);
    }
  });
});
