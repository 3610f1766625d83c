// Signing in and out, and what is refused.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { Chat, describeByEach, fillDoor, hasState, hears, isLive, PASSWORD, say, signIn } from "./support/chat.js";

describeByEach("the door", (transport) => {
  let chat;

  before(async () => { chat = await Chat.start(transport); });
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

  const isRoomy = transport === "websocket" && "WebSockets do not count among the connections that requests need";
  it("pauses a fifth tab until one of the four closes, so that sending always works", { skip: isRoomy }, async () => {
    const tom = await chat.user("Tom");
    const tabs = [tom.page];
    for (let count = 0; count < 3; count += 1) {
      tabs.push(await chat.tab(tom));
    }
    const fifth = await chat.page(tom.context);
    await hasState(fifth, "waiting");
    await fifth.locator("#banner", { hasText: "four other tabs" }).waitFor();
    await say(fifth, "from the fifth");
    await hears(tom.page, "from the fifth");
    await tabs[1].close();
    await isLive(fifth);
    await hears(fifth, "from the fifth");
    await tom.context.close();
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
    for (const path of ["/events", "/messages", "/users"]) {
      const response = await fetch(`${chat.url}${path}`);
      assert.equal(response.status, 401, path);
      assert.equal((await response.json()).error.code, "signed_out");
    }
  });
});
