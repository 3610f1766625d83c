// Failures of the server, of a worker and of the network.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { Chat, describeByEach, hasState, hears, isLive, message, say, signIn, transcript, until, writeTo } from "./support/chat.js";

describeByEach("when the server is restarted", (transport) => {
  let chat;

  before(async () => { chat = await Chat.start(transport); });
  after(() => chat.stop());

  it("keeps messages for who is away, and delivers them with their time", async () => {
    const bob = await chat.user("Bob");
    await bob.context.close();
    const ada = await chat.user("Ada");
    await ada.page.locator("#people-away .person", { hasText: "Bob" }).waitFor();
    await writeTo(ada.page, "Bob");
    await ada.page.locator("#composer-note", { hasText: "Away" }).waitFor();
    await say(ada.page, "Read this when you are back");
    await hears(ada.page, "Read this when you are back");
    assert.match(await message(ada.page, "Read this when you are back").locator(".privacy").textContent(), /to Bob \(offline\)/);
    const sent = await message(ada.page, "Read this when you are back").locator("time").getAttribute("datetime");

    chat.expectsProblems = true;
    assert.equal(await chat.server.stop(), 0);
    await hasState(ada.page, "lost");
    await ada.page.locator("#banner", { hasText: "The connection was lost" }).waitFor();
    await chat.server.start();
    await isLive(ada.page);
    await ada.page.locator("#banner").waitFor({ state: "hidden" });
    chat.expectsProblems = false;

    const page = await chat.page(await chat.profile());
    await signIn(page, "bob");
    await hears(page, "Read this when you are back");
    await page.locator(".person", { hasText: "Ada" }).filter({ hasText: "1 unread" }).click();
    await page.locator(".divider", { hasText: "While you were away" }).waitFor();
    assert.equal(await message(page, "Read this when you are back").locator("time").getAttribute("datetime"), sent);
    assert.equal((await transcript(page)).length, 1);

    await say(page, "Here I am");
    await hears(ada.page, "Here I am");
    assert.deepEqual((await transcript(ada.page)).map(({ text }) => text), ["Read this when you are back", "Here I am"]);
    await page.context().close();
    await ada.context.close();
  });

  it("sends what was written meanwhile, once", async () => {
    const cleo = await chat.user("Cleo");
    const dora = await chat.user("Dora");
    chat.expectsProblems = true;
    await chat.server.stop();
    await hasState(cleo.page, "lost");
    await say(cleo.page, "written while it was down");
    await cleo.page.locator("#pending .delivery", { hasText: "Not sent yet" }).waitFor();
    await cleo.page.reload().catch(() => {});
    await chat.server.start();
    await chat.reopen(cleo.page);
    await isLive(cleo.page);
    await hears(dora.page, "written while it was down");
    await hears(cleo.page, "written while it was down");
    chat.expectsProblems = false;
    await until("nothing is left to send", async () => await cleo.page.locator("#pending li").count() === 0);
    assert.equal(await message(dora.page, "written while it was down").count(), 1);
    await cleo.context.close();
    await dora.context.close();
  });
});

describeByEach("when a worker is killed during a burst", (transport) => {
  const MESSAGES = 1000;
  let chat;

  before(async () => { chat = await Chat.start(transport); });
  after(() => chat.stop());

  it(`shows each of ${MESSAGES} messages exactly once and in order in every tab`, { timeout: 300_000 }, async () => {
    const ada = await chat.user("Ada");
    const bob = await chat.user("Bob");
    const adasOther = await chat.tab(ada);
    const pages = [ada.page, adasOther, bob.page];
    chat.expectsProblems = true;
    await writeTo(adasOther, "Bob");

    const sendMany = (page, prefix, count) => page.evaluate(([start, end]) => {
      const form = document.querySelector("#composer");
      const text = document.querySelector("#composer-text");
      for (let number = 0; number < end; number += 1) {
        text.value = `${start}${number}`;
        form.requestSubmit();
      }
    }, [prefix, count]);
    await Promise.all([sendMany(ada.page, "a", 400), sendMany(adasOther, "private ", 200), sendMany(bob.page, "b", 400)]);

    const shown = (page) => page.locator("#messages .message").count();
    await until("a quarter has arrived", async () => await shown(bob.page) >= MESSAGES / 4 || await shown(bob.page));
    const [first, second] = chat.server.workers;
    const from = chat.server.lineCount;
    process.kill(first, "SIGKILL");
    await chat.server.waitForLine(/worker \d+ started.*pid=/, 10_000, from);
    await until("half has arrived", async () => await shown(bob.page) >= MESSAGES / 2 || await shown(bob.page));
    process.kill(second, "SIGKILL");

    for (const page of pages) {
      await until("everything has arrived", async () => await shown(page) >= MESSAGES || await shown(page), 200_000);
      await until("everything is sent", async () => await page.locator("#pending li").count() === 0);
      await hasState(page, "live");
    }
    const expected = await transcript(pages[0]);
    assert.equal(expected.length, MESSAGES);
    for (const page of pages) {
      assert.deepEqual(await transcript(page), expected, "every tab shows the same");
    }
    const ids = expected.map(({ id }) => id);
    assert.deepEqual(ids, [...new Set(ids)].sort((left, right) => left - right), "in order, without doubles");
    for (const [prefix, count] of [["a", 400], ["private ", 200], ["b", 400]]) {
      const own = expected.map(({ text }) => text).filter((text) => text.startsWith(prefix));
      assert.deepEqual(own, Array.from({ length: count }, (_, number) => `${prefix}${number}`), "as they were written");
    }
    await until("both workers serve again", async () => chat.server.workers.length === 2 || chat.server.workers);
    await ada.page.reload();
    await isLive(ada.page);
    assert.deepEqual((await transcript(ada.page)).at(-1), expected.at(-1));
  });
});

describeByEach("when the network fails", (transport) => {
  let chat;

  // Comments every second, so that a silent connection is detected after two and a half.
  before(async () => { chat = await Chat.start(transport, { CHAT_KEEP_ALIVE: "1" }); });
  after(() => chat.stop());

  it("says so, tries again by itself, and misses nothing", async () => {
    const ada = await chat.user("Ada");
    const bob = await chat.user("Bob");
    chat.expectsProblems = true;
    await say(ada.page, "before");
    await hears(bob.page, "before");
    chat.proxy.down();
    await hasState(ada.page, "lost");
    await hasState(bob.page, "lost");
    await ada.page.locator("#banner", { hasText: "Trying again" }).waitFor();
    await say(ada.page, "while the line was cut");
    await ada.page.locator("#pending .delivery", { hasText: "Not sent yet" }).waitFor();
    chat.proxy.restore();
    await ada.page.getByRole("button", { name: "Try now" }).click({ timeout: 2_000 }).catch(() => {});
    await hasState(ada.page, "live");
    await hasState(bob.page, "live");
    await hears(bob.page, "while the line was cut");
    await hears(ada.page, "while the line was cut");
    assert.deepEqual((await transcript(bob.page)).map(({ text }) => text), ["before", "while the line was cut"]);
    assert.deepEqual(await transcript(ada.page), await transcript(bob.page));
    await ada.page.locator("#banner").waitFor({ state: "hidden" });
    await ada.context.close();
    await bob.context.close();
  });

  it("notices a line that is open but silent", async () => {
    const ada = await chat.user("Eva");
    chat.expectsProblems = true;
    chat.proxy.stall();
    await hasState(ada.page, "lost");
    chat.proxy.restore();
    await hasState(ada.page, "live");
    await say(ada.page, "awake again");
    await hears(ada.page, "awake again");
    await ada.context.close();
  });

  it("knows when the browser itself is offline", async () => {
    const ada = await chat.user("Mia");
    chat.expectsProblems = true;
    await ada.context.setOffline(true);
    await hasState(ada.page, "lost");
    await ada.page.locator("#status-text", { hasText: "You are offline" }).waitFor();
    await ada.context.setOffline(false);
    await hasState(ada.page, "live");
    await ada.context.close();
  });

  it("works over a slow line", async () => {
    const bob = await chat.user("Slow Bob");
    const context = await chat.profile();
    const page = await context.newPage();
    const devtools = await context.newCDPSession(page);
    await devtools.send("Network.enable");
    await devtools.send("Network.emulateNetworkConditions", {
      offline: false, latency: 600, downloadThroughput: 30_000, uploadThroughput: 10_000,
    });
    await page.goto(chat.pageUrl);
    await page.getByRole("button", { name: "Create an account" }).click();
    await page.getByLabel("Name", { exact: true }).fill("Slow Ada");
    await page.getByLabel("Password", { exact: true }).fill("correct horse battery");
    await page.keyboard.press("Enter");
    await isLive(page);
    for (const text of ["one", "two", "three"]) {
      await say(page, text);
    }
    if (transport === "sse") {
      // Chromium's emulation delays requests, but not WebSocket messages.
      await page.locator("#pending .delivery", { hasText: "Sending" }).first().waitFor();
    }
    await say(bob.page, "and back");
    await hears(page, "and back");
    await hears(bob.page, "three");
    await hears(page, "three");
    await until("nothing is left to send", async () => await page.locator("#pending li").count() === 0);
    assert.deepEqual(
      (await transcript(bob.page)).map(({ text }) => text).filter((text) => /^(one|two|three)$/.test(text)),
      ["one", "two", "three"],
    );
    const expected = await transcript(bob.page);
    assert.deepEqual((await transcript(page)).slice(-4), expected.slice(-4));
    await context.close();
    await bob.context.close();
  });
});
