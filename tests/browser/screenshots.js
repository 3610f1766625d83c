// Takes the screenshots of the documentation: `npm run screenshots` writes docs/images/chat-*.png.
// Review the result.

import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Chat, hears, isLive, message, say, signIn, writeTo } from "./support/chat.js";

const IMAGES = resolve(fileURLToPath(import.meta.url), "../../../docs/images");
const DESKTOP = { viewport: { width: 1280, height: 880 } };
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };
/** Long enough for the animations of the status line and of the drawer. */
const SETTLE_MS = 700;

const chat = await Chat.start(process.env.CHAT_TRANSPORT ?? "sse");

async function shoot(page, name) {
  await page.mouse.move(0, 0);
  await page.waitForTimeout(SETTLE_MS);
  await page.screenshot({ path: join(IMAGES, `chat-${name}.png`), animations: "disabled" });
}

async function talk(speaker, text, ...listeners) {
  await say(speaker.page, text);
  for (const { page } of [speaker, ...listeners]) {
    await hears(page, text);
  }
}

try {
  const door = await chat.page(await chat.profile({ ...DESKTOP, colorScheme: "light" }));
  await door.locator("#door-name:focus").waitFor();
  await shoot(door, "sign-in");
  const pocket = await chat.page(await chat.profile({ ...PHONE, colorScheme: "dark" }));
  await pocket.locator("#door-name:focus").waitFor();
  await pocket.getByRole("button", { name: "Create an account" }).click();
  await shoot(pocket, "sign-in-phone");

  const nadia = await chat.user("Nadia Boulanger");
  await nadia.context.close();
  const clara = await chat.user("Clara", { ...DESKTOP, colorScheme: "light" });
  const fanny = await chat.user("Fanny", { ...DESKTOP, colorScheme: "dark" });
  const john = await chat.user("John", { ...PHONE, colorScheme: "light" });
  const everyone = [clara, fanny, john];
  await talk(john, "Are we still on for the rehearsal tonight?", ...everyone);
  await talk(fanny, "Yes, seven o’clock, the small hall.", ...everyone);
  await talk(fanny, "I have marked the fermata in bar 24: please all wait for my sign there.", ...everyone);
  await talk(clara, "How long do we hold it?", ...everyone);
  await talk(fanny, "As long as the audience breathes ♪\nThe score is at https://example.org/score", ...everyone);
  await writeTo(fanny.page, "Clara");
  await talk(fanny, "Between us: longer than last time.", clara);
  await writeTo(clara.page, "Fanny");
  await talk(clara, "I saw John turning purple.", fanny);
  await clara.page.locator("#people-away .person", { hasText: "Nadia" }).click();
  await talk(clara, "Rehearsal at seven tonight. Bring the Brahms?");
  await writeTo(john.page, "Everyone");
  await talk(john, "See you there!", ...everyone);
  await writeTo(clara.page, "Everyone");
  await clara.page.locator("#people-everyone[aria-pressed=true]").waitFor();
  await shoot(clara.page, "desktop");
  await writeTo(fanny.page, "Clara");
  await shoot(fanny.page, "dark");
  await shoot(john.page, "phone");
  await john.page.getByRole("button", { name: /online, show people/ }).click();
  await shoot(john.page, "phone-people");

  const away = await chat.page(await chat.profile({ ...PHONE, colorScheme: "dark" }));
  await signIn(away, "Nadia Boulanger");
  await away.getByRole("button", { name: /online, show people/ }).click();
  await away.locator(".person", { hasText: "Clara" }).click();
  await message(away, "Rehearsal at seven tonight. Bring the Brahms?").waitFor();
  await shoot(away, "phone-dark");

  chat.expectsProblems = true;
  chat.proxy.down();
  await clara.page.locator("#status[data-state=lost]").waitFor();
  await say(clara.page, "I will be five minutes late.");
  await clara.page.locator("#pending .delivery", { hasText: "Not sent yet" }).waitFor();
  await shoot(clara.page, "lost");
  chat.proxy.restore();
  await isLive(clara.page);
} finally {
  await chat.stop();
}
