// Private conversations next to the room, unread messages, typing notices, and the history of the
// page.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { Chat, describeByEach, hears, isLive, message, say, until } from "./support/chat.js";

describeByEach("conversations", (transport) => {
  let chat, ada, bob;
  const title = (page) => page.locator("#conversation-name").textContent();
  const person = ({ page }, name) => page.locator(".person", { hasText: name });

  before(async () => {
    chat = await Chat.start(transport, { CHAT_DEMO: "1" });
    ada = await chat.user("Ada");
    bob = await chat.user("Bob");
    await person(ada, "Bob").waitFor();
  });
  after(() => chat.stop());

  it("shows one at a time, and sends to the one that is shown", async () => {
    await say(ada.page, "for all");
    await hears(bob.page, "for all");
    await person(ada, "Bob").click();
    assert.equal(await title(ada.page), "Bob");
    await message(ada.page, "for all").waitFor({ state: "hidden" });
    await say(ada.page, "for Bob alone");
    await message(ada.page, "for Bob alone").waitFor();

    await person(bob, "Ada").filter({ hasText: "1 unread" }).waitFor();
    assert.equal(await message(bob.page, "for Bob alone").isVisible(), false);
    await person(bob, "Ada").click();
    await message(bob.page, "for Bob alone").waitFor();
    assert.equal(await person(bob, "Ada").locator(".unread").isVisible(), false);
    await say(bob.page, "an answer");
    await message(ada.page, "an answer").waitFor();

    // Messages written after going back go to everyone, not to the recipient of the last message.
    await ada.page.locator("#conversation-back").click();
    assert.equal(await title(ada.page), "Everyone");
    await message(ada.page, "an answer").waitFor({ state: "hidden" });
    await say(ada.page, "to all again");
    await message(ada.page, "to all again").waitFor();
    await bob.page.locator("#people-everyone").filter({ hasText: "1 unread" }).click();
    await message(bob.page, "to all again").waitFor();
    assert.equal(await bob.page.locator("#messages .day:visible").count(), 1);
    assert.equal(await message(bob.page, "to all again").locator(".privacy").count(), 0);
  });

  it("marks what is new since somebody left the tab", async () => {
    const look = (isActive) => bob.page.evaluate((value) => {
      document.hasFocus = () => value;
      dispatchEvent(new Event(value ? "focus" : "blur"));
    }, isActive);
    await look(false);
    await say(ada.page, "first while away");
    await say(ada.page, "second while away");
    await hears(bob.page, "second while away");
    await look(true);
    const divider = bob.page.locator(".divider", { hasText: "New since you left" });
    await divider.waitFor();
    assert.equal(await divider.count(), 1);
    const after = await divider.evaluate((node) => node.nextElementSibling.querySelector(".text").textContent);
    assert.equal(after, "first while away");
    await look(false);
    await divider.waitFor({ state: "detached" });
    await look(true);
  });

  it("puts those who come and go together into one line", async () => {
    await say(ada.page, "nobody has come yet");
    const guests = [];
    for (const name of ["Gil", "Hal", "Ivo", "Jan"]) {
      guests.push(await chat.user(name));
    }
    await ada.page.locator(".notice", { hasText: /^1 other, Hal, Ivo and Jan joined/ }).waitFor();
    for (const { context } of guests) {
      await context.close();
    }
    const notices = () => ada.page.locator(".notice", { hasText: / left/ }).allTextContents();
    await until("all four have left", async () => (await notices()).some((text) => text.startsWith("1 other, ")) || await notices());
    assert.equal((await notices()).length, 1);
  });

  it("shows who is typing where, until it is said", async () => {
    const shown = () => bob.page.locator("#typing").textContent();
    await until("Bob sees it", async () => {
      await ada.page.locator("#composer-text").pressSequentially("I");
      const text = await shown();
      return text === "Ada is typing…" || text;
    });
    await person(bob, "Ada").click();
    assert.equal(await bob.page.locator("#typing").textContent(), "");
    await bob.page.locator("#people-everyone").click();
    await say(ada.page, "I am writing");
    await hears(bob.page, "I am writing");
    await bob.page.locator("#typing").filter({ hasText: /^$/ }).waitFor({ state: "attached" });
  });

  it("says what each of many clients takes", async () => {
    await ada.page.route("**/inside", (route) => route.fulfill({ json: { held: 10_000, memoryBytes: 21_500_000 } }));
    await say(ada.page, "many are here");
    await ada.page.locator("#inside-memory", { hasText: /^21\.5 MB, 2\.1 kB each$/ }).waitFor();
    await ada.page.unroute("**/inside");
  });

  it("names what is behind the page, and goes on when that worker is killed", async () => {
    const held = () => ada.page.locator("#inside-held").textContent();
    await say(ada.page, "on its way");
    await ada.page.locator("#inside-way", { hasText: / ms$/ }).waitFor();
    await until("two are held", async () => await held() === "2" || await held());
    await ada.page.locator("#inside-memory", { hasText: /^\d+\.\d MB$/ }).waitFor();
    const pid = async () => Number(/pid (\d+)/.exec(await ada.page.locator("#inside-worker").textContent())?.[1]);
    const before = await pid();
    assert.ok(chat.server.workers.includes(before));
    chat.expectsProblems = true;
    await ada.page.getByRole("button", { name: "Kill this worker" }).click();
    await until("another one holds the page", async () => await pid() !== before || before);
    await isLive(ada.page);
    await say(bob.page, "the talk goes on");
    await hears(ada.page, "the talk goes on");
    assert.ok(!chat.server.workers.includes(before));
    chat.expectsProblems = false;
  });
});
