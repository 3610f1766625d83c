// WebSocket specifics: which clients may connect, and which are disconnected. Behaviour visible to
// users is tested for both transports.

import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, describe, it } from "node:test";
import { Chat, hears, isLive, message, say, until, writeTo } from "./support/chat.js";

/** Requests a WebSocket without a browser; resolves to the status. */
function handshake(url, headers) {
  return new Promise((resolve, reject) => {
    const asked = request(`${url}/socket`, {
      headers: {
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        ...headers,
      },
    });
    asked.on("upgrade", (response, socket) => {
      socket.destroy();
      resolve(response.statusCode);
    });
    asked.on("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** Sends messages in a page and resolves to the server's messages up to the close. */
function converse(page, messages) {
  return page.evaluate((sent) => new Promise((resolve) => {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/socket`);
    const heard = [];
    socket.onopen = () => sent.forEach((text) => socket.send(text));
    socket.onmessage = ({ data }) => heard.push(JSON.parse(data).event);
    socket.onclose = ({ code }) => resolve({ code, heard });
  }), messages.map((text) => (typeof text === "string" ? text : JSON.stringify(text))));
}

describe("the socket", () => {
  let chat, ada;

  before(async () => {
    chat = await Chat.start("websocket");
    ada = await chat.user("Ada");
  });
  after(() => chat.stop());

  it("takes signed-in users of its own page only", async () => {
    const [{ name, value }] = await ada.context.cookies();
    const cookie = { Cookie: `${name}=${value}` };
    const own = chat.url;
    assert.equal(await handshake(chat.url, {}), 401);
    assert.equal(await handshake(chat.url, { Cookie: `${name}=${"0".repeat(64)}` }), 401);
    assert.equal(await handshake(chat.url, { ...cookie, Origin: "https://evil.example" }), 403);
    assert.equal(await handshake(chat.url, { ...cookie, Origin: "null" }), 403);
    assert.equal(await handshake(chat.url, { ...cookie, Origin: own }), 101);
    assert.equal(await handshake(chat.url, cookie), 101, "a program that says who it is");
  });

  it("wants the session's token before anything else, and only what it knows", async () => {
    chat.expectsProblems = true;
    const { csrfToken } = await (await ada.context.request.get(`${chat.url}/session`)).json();
    const hello = { do: "hello", token: csrfToken };
    assert.deepEqual(await converse(ada.page, [{ do: "hello", token: "0".repeat(64) }]), { code: 4403, heard: [] });
    assert.deepEqual(await converse(ada.page, [{ do: "hello" }]), { code: 4403, heard: [] });
    assert.deepEqual(await converse(ada.page, [{ do: "send", to: "all", text: "no", key: "forged-key-2" }]), { code: 1007, heard: [] });
    assert.equal((await converse(ada.page, ["no JSON"])).code, 1007);
    assert.equal((await converse(ada.page, [hello, { do: "nothing of the kind" }])).code, 1007);
    assert.equal((await converse(ada.page, [hello, "x".repeat(200_000)])).code, 1009);
    chat.expectsProblems = false;
  });

  it("shows one conversation to both transports", async () => {
    const bob = await chat.user("Bob");
    const page = await bob.context.newPage();
    await page.goto(`${chat.url}/?transport=sse`);
    await isLive(page);
    assert.equal(await page.locator("#status").getAttribute("title"), "Connected by server-sent events");
    assert.equal(await ada.page.locator("#status").getAttribute("title"), "Connected by WebSocket");
    await say(ada.page, "by socket");
    await say(page, "by request");
    for (const tab of [ada.page, bob.page, page]) {
      await hears(tab, "by socket");
      await hears(tab, "by request");
    }
    await writeTo(ada.page, "Bob");
    await say(ada.page, "to all your tabs");
    await hears(page, "to all your tabs");
    await hears(bob.page, "to all your tabs");
    assert.match(await message(ada.page, "to all your tabs").locator(".privacy").textContent(), /to Bob only/);
    await writeTo(ada.page, "Everyone");
    await bob.context.close();
  });

  it("sends nothing by request", async () => {
    const asked = [];
    ada.page.on("request", (sent) => asked.push(`${sent.method()} ${new URL(sent.url()).pathname}`));
    await say(ada.page, "not by request");
    await hears(ada.page, "not by request");
    await until("it is sent", async () => await ada.page.locator("#pending li").count() === 0);
    assert.deepEqual(asked.filter((line) => /events|POST \/messages/.test(line)), []);
  });

  it("closes a program's connection when its session ends", async () => {
    const eve = await chat.user("Eve");
    const { csrfToken } = await (await eve.context.request.get(`${chat.url}/session`)).json();
    chat.expectsProblems = true;
    // A page elsewhere on the same server that has the token and ignores messages.
    const stubborn = await eve.context.newPage();
    await stubborn.goto(`${chat.url}/session`);
    const code = stubborn.evaluate((token) => new Promise((resolve) => {
      const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/socket`);
      socket.onopen = () => socket.send(JSON.stringify({ do: "hello", token }));
      socket.onmessage = ({ data }) => {
        if (JSON.parse(data).event === "hello") {
          window.isWelcome = true;
        } else if (JSON.parse(data).event === "signout") {
          socket.send(JSON.stringify({ do: "ping" }));
        }
      };
      socket.onclose = (event) => resolve(event.code);
    }), csrfToken);
    await stubborn.waitForFunction(() => window.isWelcome);
    await eve.page.getByRole("button", { name: "Sign out" }).click();
    await eve.page.getByLabel("Password", { exact: true }).waitFor();
    assert.equal(await code, 4401);
    chat.expectsProblems = false;
    await eve.context.close();
  });
});
