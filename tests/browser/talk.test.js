// User actions: write to everyone and to one user, in several tabs.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { Chat, describeByEach, hears, isLive, message, say, transcript, until, writeTo } from "./support/chat.js";

describeByEach("talking", (transport) => {
  let chat, ada, bob, adasOther;

  before(async () => {
    chat = await Chat.start(transport);
    ada = await chat.user("Ada");
    bob = await chat.user("Bob");
    adasOther = await chat.tab(ada);
  });
  after(() => chat.stop());

  it("brings a message to everyone to all tabs, the sender's own included", async () => {
    await say(ada.page, "Hello, everyone");
    for (const page of [ada.page, adasOther, bob.page]) {
      await hears(page, "Hello, everyone");
    }
    assert.match(await message(bob.page, "Hello, everyone").locator(".from").textContent(), /^Ada$/);
    assert.match(await message(adasOther, "Hello, everyone").locator(".from").textContent(), /^You$/);
  });

  it("brings a private message to the two only, in all their tabs", async () => {
    const eve = await chat.user("Eve");
    await writeTo(bob.page, "Ada");
    await say(bob.page, "Between us");
    for (const page of [ada.page, adasOther, bob.page]) {
      await hears(page, "Between us");
    }
    assert.match(await message(ada.page, "Between us").locator(".privacy").textContent(), /to you only/);
    assert.match(await message(bob.page, "Between us").locator(".privacy").textContent(), /to Ada only/);

    await writeTo(bob.page, "Everyone");
    await say(bob.page, "For all again");
    await hears(eve.page, "For all again");
    assert.equal(await message(eve.page, "Between us").count(), 0);
    await eve.page.reload();
    await hears(eve.page, "For all again");
    assert.equal(await message(eve.page, "Between us").count(), 0, "not after a reload either");
    await eve.context.close();
  });

  it("tells who joined, who left, and who is online now", async () => {
    const dan = await chat.user("Dan");
    await ada.page.locator(".notice", { hasText: "Dan joined" }).waitFor();
    await ada.page.locator("#people-online .person", { hasText: "Dan" }).waitFor();
    const online = dan.page.locator(".notice", { hasText: "Now online" });
    assert.match(await online.textContent(), /Ada, Bob/);

    const second = await chat.tab(dan);
    await second.close();
    await say(ada.page, "Is Dan still here?");
    await hears(dan.page, "Is Dan still here?");
    await dan.context.close();
    await ada.page.locator(".notice", { hasText: "Dan left" }).waitFor();
    await ada.page.locator("#people-away .person", { hasText: "Dan" }).waitFor();
    assert.equal(await ada.page.locator(".notice", { hasText: "Dan joined" }).count(), 1, "a second tab is no second person");
    assert.equal(await ada.page.locator(".notice", { hasText: "Dan left" }).count(), 1);
  });

  it("counts the unread messages in the title of a tab nobody looks at", async () => {
    await writeTo(bob.page, "Everyone");
    const look = (isActive) => ada.page.evaluate((value) => {
      document.hasFocus = () => value;
      dispatchEvent(new Event(value ? "focus" : "blur"));
    }, isActive);
    assert.equal(await ada.page.title(), "Ada · Fermata chat");
    await look(false);
    await say(bob.page, "one");
    await say(bob.page, "two");
    await hears(ada.page, "two");
    assert.equal(await ada.page.title(), "(2) Ada · Fermata chat");
    await say(adasOther, "my own do not count");
    await hears(ada.page, "my own do not count");
    assert.equal(await ada.page.title(), "(2) Ada · Fermata chat");
    await look(true);
    assert.equal(await ada.page.title(), "Ada · Fermata chat");
  });

  it("clears one tab, also over a reload, until the earlier messages are asked for", async () => {
    await say(ada.page, "soon gone");
    await hears(adasOther, "soon gone");
    await adasOther.getByRole("button", { name: "Clear" }).click();
    assert.deepEqual(await transcript(adasOther), []);
    assert.notDeepEqual(await transcript(ada.page), [], "other tabs keep theirs");
    await adasOther.reload();
    await isLive(adasOther);
    await say(ada.page, "after clearing");
    await hears(adasOther, "after clearing");
    assert.deepEqual((await transcript(adasOther)).map(({ text }) => text), ["after clearing"]);
    await adasOther.getByRole("button", { name: "Show earlier messages" }).click();
    await hears(adasOther, "soon gone");
    assert.deepEqual(await transcript(adasOther), await transcript(ada.page));
  });

  it("shows text as text, whatever it looks like", async () => {
    const name = "<script>window.hacked=1</script>".slice(0, 32);
    const text = "<script>window.hacked = 1</script><img src=x onerror=\"window.hacked=1\">&lt;b&gt; ${1} https://example.org/<b>";
    const mallory = await chat.user(name);
    await say(mallory.page, text);
    await writeTo(mallory.page, "Ada");
    await say(mallory.page, `${text} private`);
    for (const page of [mallory.page, ada.page, bob.page]) {
      await hears(page, text);
    }
    await hears(ada.page, `${text} private`);
    await ada.page.locator(".notice bdi").getByText(name, { exact: true }).first().waitFor();
    assert.equal(await message(ada.page, text).locator(".from").textContent(), name);
    for (const page of [mallory.page, ada.page, bob.page]) {
      assert.equal(await page.evaluate(() => window.hacked), undefined);
      assert.equal(await page.locator("#chat script, #chat img").count(), 0);
    }
    const link = message(ada.page, text).locator("a");
    assert.equal(await link.getAttribute("href"), "https://example.org/");
    assert.match(await link.getAttribute("rel"), /noopener/);
    await mallory.context.close();
  });

  it("carries a message of 10 kB", async () => {
    const text = Array.from({ length: 640 }, (_, line) => `${line}: "ünicode" 🎼\\`).join("\n").slice(0, 10_000);
    await say(bob.page, text);
    for (const page of [ada.page, adasOther, bob.page]) {
      await until("the long message is shown whole", async () => (await transcript(page)).at(-1)?.text === text);
    }
    const long = ada.page.locator("#messages .message").last();
    const folded = (await long.boundingBox()).height;
    await long.getByRole("button", { name: "Show all" }).click();
    assert.ok((await long.boundingBox()).height > 2 * folded, "unfolds");
    await long.getByRole("button", { name: "Show less" }).click();
  });

  it("refuses a message over the limit where it is written, and keeps it there", async () => {
    await ada.page.getByLabel("Message", { exact: true }).fill("x".repeat(16_385));
    await ada.page.keyboard.press("Enter");
    await ada.page.locator("#composer-problem", { hasText: "too long" }).waitFor();
    assert.equal((await ada.page.getByLabel("Message", { exact: true }).inputValue()).length, 16_385);
    await ada.page.getByLabel("Message", { exact: true }).fill("");
  });

  it("keeps a message the server refuses, with the reason, until it is sent or discarded", async () => {
    const refusal = { error: { code: "invalid", message: "Not like this.", field: "text" } };
    await chat.refuseMessages(ada.page, 2, refusal);
    await writeTo(ada.page, "Everyone");
    await say(ada.page, "refused at first");
    await say(ada.page, "refused for good");
    await say(ada.page, "accepted meanwhile");
    await hears(bob.page, "accepted meanwhile");
    const refused = ada.page.locator("#pending .failed");
    assert.equal(await refused.count(), 2);
    await refused.filter({ hasText: "Not sent. Not like this." }).first().waitFor();
    await refused.filter({ hasText: "refused for good" }).getByRole("button", { name: "Discard" }).click();
    await refused.filter({ hasText: "refused at first" }).getByRole("button", { name: "Try again" }).click();
    await hears(bob.page, "refused at first");
    await refused.first().waitFor({ state: "detached" });
    assert.equal(await message(bob.page, "refused for good").count(), 0);
  });

  it("stays at the newest message, but not while somebody reads above", async () => {
    const scroller = bob.page.locator("#scroller");
    const fromEnd = () => scroller.evaluate((node) => node.scrollHeight - node.scrollTop - node.clientHeight);
    await bob.page.bringToFront();
    for (let number = 0; number < 30; number += 1) {
      await say(ada.page, `line ${number}`);
    }
    await hears(bob.page, "line 29");
    await until("the end is in sight", async () => await fromEnd() < 5 || await fromEnd());
    await scroller.hover();
    await bob.page.mouse.wheel(0, -600);
    await until("moved up", async () => await fromEnd() > 300 || await fromEnd());
    await say(ada.page, "below");
    await bob.page.getByRole("button", { name: "1 new message" }).waitFor();
    assert.ok(await fromEnd() > 300, "what is read stays in sight");
    await bob.page.getByRole("button", { name: "1 new message" }).click();
    await until("the end is in sight", async () => await fromEnd() < 5 || await fromEnd());
    await bob.page.locator("#to-end").waitFor({ state: "hidden" });
  });

  it("shows all tabs the same messages in the same order", async () => {
    await say(ada.page, "the last one");
    await Promise.all([ada.page, adasOther, bob.page].map((page) => hears(page, "the last one")));
    const expected = await transcript(adasOther);
    assert.deepEqual(await transcript(ada.page), expected);
    const ids = expected.map(({ id }) => id);
    assert.deepEqual(ids, [...new Set(ids)].sort((left, right) => left - right));
  });
});
