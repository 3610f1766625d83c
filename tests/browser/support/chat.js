// One chat in one browser: server, relay and pages, with the actions of the tests.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe } from "node:test";
import { chromium, firefox } from "playwright-core";
import { Proxy } from "./proxy.js";
import { Server } from "./server.js";

export const PASSWORD = "correct horse battery";
/** Generous: two busy cores run the server, three pages and other tests concurrently. */
export const PATIENCE_MS = 30_000;

const EXECUTABLES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const ARGUMENTS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
];

/** Describes the behaviour of pages for each transport: the same tests run over both. */
export function describeByEach(name, body) {
  ["sse", "websocket"].forEach((transport) => describe(`${name}, by ${transport}`, () => body(transport)));
}

/** Starts Debian's Firefox. Playwright controls it over WebDriver BiDi with this channel. */
export function launchFirefox() {
  return firefox.launch({ executablePath: process.env.FERMATA_FIREFOX ?? "/usr/bin/firefox-esr", channel: "moz-firefox" });
}

export function launch() {
  return chromium.launch({ executablePath: process.env.FERMATA_CHROMIUM ?? EXECUTABLES.find(existsSync), args: ARGUMENTS });
}

export class Chat {
  #browser;
  #transport;
  #problems = [];
  /** True while errors on the pages' consoles are expected, because a test causes failures. */
  expectsProblems = false;

  /**
   * @param {"sse" | "websocket"} transport the transport of the pages
   * @param {Server} server serves the chat
   */
  static async start(transport, environment = {}, server = new Server(environment)) {
    const chat = new Chat();
    chat.#transport = transport;
    chat.server = server;
    await chat.server.start();
    chat.proxy = new Proxy(() => chat.server.port);
    await chat.proxy.start();
    chat.#browser = await launch();

    return chat;
  }

  get url() {
    return this.proxy.url;
  }

  get pageUrl() {
    return `${this.url}/?transport=${this.#transport}`;
  }

  /** Stops everything. Call it from `after`, so that it also runs after a failed test. */
  async stop() {
    await this.#browser.close();
    await this.proxy.stop();
    const code = await this.server.stop();
    const { log } = this.server;
    await this.server.remove();
    assert.equal(code, 0, `the server should end cleanly:\n${log}`);
    // On a busy machine any handler may hold its worker too long.
    const complaints = log.replace(/^.* held the loop for .*$/gm, "");
    assert.doesNotMatch(complaints, /\.php:\d+|PHP (Fatal|Warning|Notice|Deprecated)|panick/, "no handler should fail");
    assert.deepEqual(this.#problems, [], "pages should not report errors");
  }

  /** A new browser context: its tabs share cookies only with each other. */
  async profile(options = {}) {
    const context = await this.#browser.newContext({ locale: "en-GB", timezoneId: "Europe/Berlin", ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    context.on("weberror", (error) => this.#problems.push(String(error.error())));
    context.on("console", (message) => {
      if (message.type() === "error" && !this.expectsProblems && !/Failed to load resource/.test(message.text())) {
        this.#problems.push(message.text());
      }
    });

    return context;
  }

  /** Opens the page in a new tab, wherever it redirects to. */
  async page(context) {
    const page = await context.newPage();
    await page.goto(this.pageUrl);

    return page;
  }

  /** Opens the page again in a tab that may still be showing the lost connection. */
  async reopen(page) {
    await until("the page is open again", () => page.goto(this.pageUrl).then(() => true, String));
  }

  /** A new user in a new profile, live in one tab. */
  async user(name, options = {}) {
    const context = await this.profile(options);
    const page = await this.page(context);
    await signUp(page, name);

    return { name, context, page };
  }

  /** Rejects the next messages of a page, as the server would. */
  async refuseMessages(page, times, refusal) {
    if (this.#transport === "sse") {
      await page.route("**/messages", (route) => route.fulfill({ status: 422, json: refusal }), { times });
      return;
    }
    await page.evaluate(([count, answer]) => {
      const { send } = WebSocket.prototype;
      let left = count;
      WebSocket.prototype.send = function sendUnlessRefused(text) {
        const { do: what, reference } = JSON.parse(text);
        if (what !== "send" || left === 0) {
          send.call(this, text);
          return;
        }
        left -= 1;
        const data = JSON.stringify({ event: "reply", data: JSON.stringify({ reference, status: 422, ...answer }) });
        this.dispatchEvent(new MessageEvent("message", { data }));
      };
    }, [times, refusal]);
  }

  /** Opens another tab of a signed-in user. */
  async tab(user) {
    const page = await this.page(user.context);
    await isLive(page);

    return page;
  }
}

export async function signUp(page, name, password = PASSWORD) {
  await page.getByRole("button", { name: "Create an account" }).click();
  await fillDoor(page, name, password);
  await isLive(page);
}

export async function signIn(page, name, password = PASSWORD) {
  await fillDoor(page, name, password);
  await isLive(page);
}

export async function fillDoor(page, name, password) {
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.keyboard.press("Enter");
}

/** Waits until the stream is open and the first messages are shown, in whichever conversation. */
export async function isLive(page) {
  await page.locator("#status[data-state=live]").waitFor();
  await page.locator(".notice", { hasText: "Welcome" }).waitFor({ state: "attached" });
}

export async function hasState(page, state) {
  await page.locator(`#status[data-state=${state}]`).waitFor();
}

/** @param {string} to a name, or "Everyone" */
export async function writeTo(page, to) {
  await page.getByLabel("To", { exact: true }).selectOption({ label: to });
}

export async function say(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  // Submits like Enter; a click would wait for animation frames, which are rare in a background
  // tab.
  await page.locator("#composer").evaluate((form) => form.requestSubmit());
}

/** Returns the row of a message, by its complete text. */
export function message(page, text) {
  return page.locator("#messages .message").filter({ has: page.locator(".text").getByText(text, { exact: true }) });
}

export async function hears(page, text) {
  await message(page, text).waitFor({ state: "attached" });
}

/** Returns all messages as the page shows them, in order. */
export function transcript(page) {
  return page.locator("#messages .message").evaluateAll((nodes) => nodes.map((node) => ({
    id: Number(node.dataset.id),
    text: node.querySelector(".text").textContent,
  })));
}

/** Waits until the condition holds. */
export async function until(describe, condition, timeoutMs = PATIENCE_MS) {
  const endMs = Date.now() + timeoutMs;
  let last;
  while (Date.now() < endMs) {
    last = await condition();
    if (last === true) {
      return;
    }
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  assert.fail(`${describe}; last seen: ${JSON.stringify(last)?.slice(0, 500)}`);
}
