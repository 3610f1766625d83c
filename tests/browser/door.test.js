// Signing in and out, and rejected requests.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { Chat, describeByEach, fillDoor, hasState, hears, isLive, message, PASSWORD, say, signIn, until } from "./support/chat.js";

describeByEach("the door", (transport) => {
  let chat;

  before(async () => { chat = await Chat.start(transport, { FERMATA_LEAVE_DELAY_MS: "20000" }); });
  after(() => chat.stop());

  const problem = (page, text) => page.locator("#door-problem", { hasText: text }).waitFor();

  it("refuses a wrong password, an unknown name, and then asks for patience", async () => {
    const { context } = await chat.user("Rosa");
    await context.close();
    const page = await chat.page(await chat.profile());
    await fillDoor(page, "Rosa", "wrong horse battery");
    await problem(page, "do not match");
    assert.equal(await page.getByLabel("Password", { exact: true }).getAttribute("aria-invalid"), "true");
    await page.locator("#door-password:focus").waitFor();
    await fillDoor(page, "Nobody at all", PASSWORD);
    await problem(page, "do not match");
    await fillDoor(page, "", PASSWORD);
    await problem(page, "give your name");
    for (let attempt = 0; attempt < 5; attempt += 1) {
      await fillDoor(page, "Rosa", `wrong horse ${attempt}`);
      await page.locator("#door-submit[aria-disabled=false]").waitFor();
    }
    await problem(page, "Too many attempts");
    await fillDoor(page, "Rosa", PASSWORD);
    await problem(page, "Too many attempts");
    await page.context().close();
  });

  it("refuses names and passwords that cannot be, and names that are taken", async () => {
    const page = await chat.page(await chat.profile());
    await page.getByRole("button", { name: "Create an account" }).click();
    await fillDoor(page, "all", PASSWORD);
    await problem(page, "means \"everyone\"");
    await fillDoor(page, "zero\u200bwidth", PASSWORD);
    await problem(page, "invisible");
    await fillDoor(page, "Short", "short");
    await problem(page, "at least 8");
    await fillDoor(page, "rosa", PASSWORD);
    await problem(page, "taken");
    await page.locator("#door-name:focus").waitFor();
    await page.context().close();
  });

  it("keeps who is signed in over a reload, and signs out in all tabs of that browser only", async () => {
    const nina = await chat.user("Nina");
    const elsewhere = await chat.page(await chat.profile());
    await signIn(elsewhere, "nina");
    await nina.page.reload();
    await isLive(nina.page);
    const second = await chat.tab(nina);
    await second.getByRole("button", { name: "Sign out" }).click();
    await second.getByLabel("Password", { exact: true }).waitFor();
    await nina.page.getByLabel("Password", { exact: true }).waitFor();
    await say(elsewhere, "still here");
    await hears(elsewhere, "still here");
    assert.deepEqual(await nina.context.cookies(), []);
    await elsewhere.context().close();
    await nina.context.close();
  });

  it("lets a waiting tab in when another tab signs in", async () => {
    const context = await chat.profile();
    const waiting = await chat.page(context);
    await waiting.getByLabel("Password", { exact: true }).waitFor();
    const page = await chat.page(context);
    await page.getByRole("button", { name: "Create an account" }).click();
    await fillDoor(page, "Otto", PASSWORD);
    await isLive(page);
    await isLive(waiting);
    await context.close();
  });

  it("keeps any number of tabs live, also when the one that leads is closed", async () => {
    const tom = await chat.user("Tom");
    const streams = [];
    tom.context.on("request", (sent) => new URL(sent.url()).pathname === "/events" && streams.push(sent.url()));
    const tabs = [tom.page];
    for (let count = 0; count < 7; count += 1) {
      tabs.push(await chat.tab(tom));
    }
    const una = await chat.user("Una");
    await say(una.page, "to all eight tabs");
    for (const tab of tabs) {
      await hears(tab, "to all eight tabs");
      await tab.locator("#people-online .person", { hasText: "Una" }).waitFor({ state: "attached" });
    }
    if (transport === "sse") {
      assert.deepEqual(streams, [], "the first tab's stream serves the others");
    }
    await tabs.shift().close();
    await say(una.page, "after the first has left");
    for (const tab of tabs) {
      await hears(tab, "after the first has left");
      await hasState(tab, "live");
    }
    await say(tabs.at(-1), "from the last tab");
    for (const page of [...tabs, una.page]) {
      await hears(page, "from the last tab");
      assert.equal(await message(page, "to all eight tabs").count(), 1);
    }
    assert.equal(await una.page.locator(".notice", { hasText: "Tom left" }).count(), 0);
    await una.context.close();
    await tom.context.close();
  });

  it("finds who is online, and sorts names as people do", async () => {
    const [ada, ...others] = await Promise.all(["Xara", "xéno 10", "Xéno 2"].map((name) => chat.user(name)));
    const listed = () => ada.page.locator("#people-online .person-name").allTextContents();
    await until("all are there", async () => (await listed()).filter((name) => /^x/i.test(name)).length === 3 || await listed());
    assert.deepEqual((await listed()).filter((name) => /^x/i.test(name)), ["Xara", "Xéno 2", "xéno 10"]);
    await ada.page.getByLabel("Find a person").fill("xéno 1");
    await until("the one is found", async () => (await listed()).join() === "xéno 10" || await listed());
    assert.equal(await ada.page.locator("#people-none").textContent(), "");
    await ada.page.getByLabel("Find a person").fill("nobody of this name");
    await ada.page.locator("#people-none", { hasText: "Nobody found." }).waitFor();
    await ada.page.getByLabel("Find a person").fill("");
    await until("all are listed again", async () => (await listed()).filter((name) => /^x/i.test(name)).length === 3 || await listed());
    for (const { context } of [ada, ...others]) {
      await context.close();
    }
  });

  it("marks its cookie so that scripts and other sites cannot use it", async () => {
    const { context, page } = await chat.user("Vera");
    const [cookie] = await context.cookies();
    assert.equal(cookie.httpOnly, true);
    assert.equal(cookie.sameSite, "Lax");
    assert.match(cookie.value, /^[0-9a-f]{64}$/);
    assert.equal(await page.evaluate(() => document.cookie), "");
    const body = { to: "all", text: "forged", key: "forged-key-1" };
    const post = (headers) => context.request.post(`${chat.url}/messages`, { data: body, headers });
    assert.equal((await post({ "Content-Type": "text/plain" })).status(), 415);
    assert.equal((await post({})).status(), 403, "no token");
    const { csrfToken } = await (await context.request.get(`${chat.url}/session`)).json();
    assert.equal((await post({ "X-CSRF-Token": csrfToken, Origin: "https://evil.example" })).status(), 403);
    assert.equal((await post({ "X-CSRF-Token": csrfToken, "Sec-Fetch-Site": "cross-site" })).status(), 403);
    assert.equal((await post({ "X-CSRF-Token": csrfToken })).status(), 201);
    await context.close();
  });

  it("answers nothing to who is not signed in", async () => {
    for (const path of ["/events", "/messages", "/users", "/online"]) {
      const response = await fetch(`${chat.url}${path}`);
      assert.equal(response.status, 401, path);
      assert.equal((await response.json()).error.code, "signed_out");
    }
  });
});
