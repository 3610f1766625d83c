// Keyboard, screen reader, contrast, small screens.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, it } from "node:test";
import { Chat, describeByEach, fillDoor, hears, isLive, PASSWORD, say, writeTo } from "./support/chat.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PHONE = { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true };

async function breaches(page) {
  // Colours fade in; the check would measure them during the transition.
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  }));

  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(" | ")}`);
}

describeByEach("access for everyone", (transport) => {
  let chat;

  before(async () => { chat = await Chat.start(transport); });
  after(() => chat.stop());

  for (const [what, options] of [
    ["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }],
    ["phone, light", { ...PHONE, colorScheme: "light" }], ["phone, dark", { ...PHONE, colorScheme: "dark" }],
  ]) {
    it(`passes axe: ${what}`, async () => {
      const page = await chat.page(await chat.profile(options));
      await page.getByRole("button", { name: "Create an account" }).click();
      await fillDoor(page, "all", PASSWORD);
      await page.locator("#door-problem", { hasText: "everyone" }).waitFor();
      assert.deepEqual(await breaches(page), [], "the door");
      await fillDoor(page, `User ${what}`, PASSWORD);
      await isLive(page);
      const send = async (text) => {
        await page.getByLabel("Message", { exact: true }).fill(text);
        await page.getByRole("button", { name: "Send" }).click();
        await hears(page, text);
      };
      await send(`To everyone from ${what}, https://example.org/`);
      await writeTo(page, `User ${what}`);
      await send(`A note from ${what}`);
      assert.deepEqual(await breaches(page), [], "the chat");
      if (options.isMobile) {
        await page.getByRole("button", { name: /online, show people/ }).click();
        assert.deepEqual(await breaches(page), [], "the people");
      }
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, "nothing sticks out to the right");
      await page.context().close();
    });
  }

  it("can be used from sign-in to a private message without a mouse", async () => {
    const friend = await chat.user("Zoe");
    const page = await chat.page(await chat.profile());
    await page.locator("#door-name:focus").waitFor();
    const press = async (...keys) => {
      for (const key of keys) {
        await page.keyboard.press(key);
      }
    };
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.className);
    await press("Tab", "Tab", "Tab", "Tab");
    assert.equal(await focused(), "door-mode");
    await press("Enter");
    assert.equal(await focused(), "door-name");
    await page.keyboard.type("Keys");
    await press("Tab");
    await page.keyboard.type(PASSWORD);
    await press("Enter");
    await isLive(page);
    assert.equal(await focused(), "composer-text");
    await page.keyboard.type("Typed");
    await press("Shift+Enter");
    await page.keyboard.type("in two lines");
    await press("Enter");
    await hears(friend.page, "Typed\nin two lines");
    await press("Shift+Tab");
    assert.equal(await focused(), "composer-recipient");
    await page.keyboard.type("Zoe");
    await press("Tab");
    await page.keyboard.type("Only you");
    await press("Enter");
    await hears(friend.page, "Only you");
    assert.match(await friend.page.locator(".message", { hasText: "Only you" }).locator(".privacy").textContent(), /to you only/);
    const outline = await page.evaluate(() => {
      const button = document.querySelector("#clear");
      button.focus({ focusVisible: true });

      return getComputedStyle(button).outlineStyle;
    });
    assert.equal(outline, "solid", "the focus can be seen");
    await page.context().close();
    await friend.context.close();
  });

  it("hands the focus into the list of people on a phone and back", async () => {
    const { page, context } = await chat.user("Pia", PHONE);
    const opener = page.getByRole("button", { name: /online, show people/ });
    await opener.click();
    await page.locator("#people-close:focus").waitFor();
    assert.equal(await page.locator("#room").getAttribute("inert"), "");
    await page.keyboard.press("Escape");
    await page.locator("#people-open:focus").waitFor();
    assert.equal(await opener.getAttribute("aria-expanded"), "false");
    await context.close();
  });

  it("reads new messages aloud, but not the history", async () => {
    const ida = await chat.user("Ida");
    await say(ida.page, "for the live region");
    await hears(ida.page, "for the live region");
    await ida.page.locator("#log[aria-live=polite]").waitFor();
    await ida.page.addInitScript(() => {
      addEventListener("DOMContentLoaded", () => {
        const log = document.querySelector("#log");
        new MutationObserver(() => {
          window.liveAtFirstMessage ??= log.getAttribute("aria-live");
        }).observe(log, { childList: true, subtree: true });
      });
    });
    await ida.page.reload();
    await isLive(ida.page);
    assert.equal(await ida.page.evaluate(() => window.liveAtFirstMessage), "off");
    await ida.context.close();
  });
});
