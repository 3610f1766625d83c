// One chat in one browser: server, relay and pages, in the words of the tests.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe } from "node:test";
import { chromium, firefox } from "playwright-core";
import { Proxy } from "./proxy.js";
import { Server } from "./server.js";

export const PASSWORD = "correct horse battery";
/** Generous: two busy cores run the server, three pages and other tests at once. */
export const PATIENCE_MS = 30_000;

const EXECUTABLES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const ARGUMENTS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
];

/** Describes what pages do whichever way they are connected: the same tests run over both. */
export function describeByEach(name, body) {
  ["sse", "websocket"].forEach((transport) => describe(`${name}, by ${transport}`, () => body(transport)));
}

/** Firefox as Debian has it. Playwright speaks WebDriver BiDi with it by this channel. */
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
  /** What pages wrote to their console as errors although the test did not break anything on purpose. */
  expectsProblems = false;

  /**
   * @param {"sse" | "websocket"} transport how pages are connected
   * @param {Server} server what serves the chat
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

  /** Ends everything. Call it from `after`, so that it also runs when a test failed. */
  async stop() {
    await this.#browser.close();
    await this.proxy.stop();
    const code = await this.server.stop();
    const { log } = this.server;
    await this.server.remove();
    assert.equal(code, 0, `the server should end cleanly:\n${log}`);
    // On a busy machine any handler may hold its worker for longer than it should.
    const complaints = log.replace(/^.* held the loop for .*$/gm, "");
    assert.doesNotMatch(complaints, /\.php:\d+|PHP (Fatal|Warning|Notice|Deprecated)|panick/, "no handler should fail");
    assert.deepEqual(this.#problems, [], "pages should not report errors");
  }

  /** A browser of its own: its tabs share cookies with each other and with nobody else. */
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

  /** A tab with the page open, wherever that leads. */
  async page(context) {
    const page = await context.newPage();
    await page.goto(this.pageUrl);

    return page;
  }

  /** Opens the page again in a tab that may still be busy showing that the server was gone. */
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

  /** Refuses the next messages of a page in the server's place. */
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

  /** One more tab of somebody who is signed in. */
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

/** The stream is open and the first messages are there, whichever conversation is shown. */
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
  // What Enter does; a click would wait for animation frames, of which a tab in the background gets few.
  await page.locator("#composer").evaluate((form) => form.requestSubmit());
}

/** The row of one message, by its whole text. */
export function message(page, text) {
  return page.locator("#messages .message").filter({ has: page.locator(".text").getByText(text, { exact: true }) });
}

export async function hears(page, text) {
  await message(page, text).waitFor({ state: "attached" });
}

/** All messages as the page shows them, in order. */
export function transcript(page) {
  return page.locator("#messages .message").evaluateAll((nodes) => nodes.map((node) => ({
    id: Number(node.dataset.id),
    text: node.querySelector(".text").textContent,
  })));
}

/** Waits until the condition over the page's transcript holds. */
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
