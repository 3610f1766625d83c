// The chat on three servers behind nginx; each component is killed once while users chat.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Chat, hears, isLive, say, signIn, transcript, until, writeTo } from "./support/chat.js";
import { Cluster, missing } from "./support/cluster.js";

const PATIENCE_MS = 20_000;
/** Number of messages per user around a kill. */
const MESSAGES = 2;

for (const [log, transport] of [["nats", "sse"], ["redis", "websocket"]]) {
  const lacks = missing(log);
  const skip = lacks !== undefined && `${lacks} is not installed`;
  describe(`the chat on three servers over ${log}, by ${transport}`, { skip }, () => talkThroughKills(log, transport));
}

function talkThroughKills(log, transport) {
  let chat, cluster, ada, bob, cleo, everyone;
  /** Messages to everyone, which every tab must show. */
  const said = [];
  const PRIVATE = ["Between us", "Agreed"];

  before(async () => {
    cluster = await Cluster.of(log);
    chat = await Chat.start(transport, {}, cluster);
    ada = await chat.user("Ada");
    bob = await chat.user("Bob");
    cleo = await chat.user("Cleo");
    everyone = [ada, bob, cleo];
    for (const { page } of everyone) {
      await page.locator("#inside-worker", { hasText: "pid" }).waitFor();
    }
  });
  after(() => chat.stop());

  /** Returns the server that holds a page. */
  const nodeOf = async ({ page }) => cluster.nodeOf(Number(/pid (\d+)/.exec(await page.locator("#inside-worker").textContent())?.[1]));

  /** Returns the messages to everyone that a tab shows. */
  const shown = async (page) => (await transcript(page)).filter(({ text }) => !PRIVATE.includes(text));

  async function talk(name) {
    for (let number = 0; number < MESSAGES; number += 1) {
      for (const person of everyone) {
        const text = `${name} ${number}, ${person.name}`;
        said.push(text);
        await say(person.page, text);
      }
    }
  }

  /**
   * Asserts that every tab shows all messages, once and in one order, that no message is pending,
   * and that all users see each other.
   */
  async function allIsWell() {
    for (const { page } of everyone) {
      await until("everything has arrived", async () => {
        const { length } = await shown(page);

        return length >= said.length || `${length} of ${said.length}`;
      }, PATIENCE_MS);
      await until("nothing is left to send", async () => await page.locator("#pending li").count() === 0, PATIENCE_MS);
      await page.locator("#status[data-state=live]").waitFor();
    }
    const expected = await shown(ada.page);
    assert.deepEqual(expected.map(({ text }) => text).sort(), [...said].sort(), "each once");
    const ids = expected.map(({ id }) => id);
    assert.deepEqual(ids, [...new Set(ids)].sort((left, right) => left - right), "in order");
    for (const { page, name } of everyone) {
      assert.deepEqual(await shown(page), expected, `${name}'s tab shows the same`);
      for (const other of everyone.filter((person) => person.name !== name)) {
        await page.locator("#people-online .person", { hasText: other.name }).waitFor();
      }
    }
  }

  const left = ({ page }, name) => page.locator(".notice", { hasText: `${name} left` }).count();

  /** Kills a component while users chat, and restarts it. */
  async function killed(what, { start, isBack }) {
    chat.expectsProblems = true;
    await talk(`before ${what}`);
    const from = cluster.enter(`kill ${what}`);
    await talk(`without ${what}`);
    if (start) {
      await cluster.waitForLine(/has ended/, PATIENCE_MS, from);
      cluster.enter(`start ${what}`);
    }
    await isBack?.(from);
    await talk(`with ${what} again`);
    await allIsWell();
    chat.expectsProblems = false;
  }

  it("has people on different servers, who talk, see who is there and who types", async () => {
    const nodes = await Promise.all(everyone.map(nodeOf));
    assert.ok(new Set(nodes).size > 1, `all are held by server ${nodes}`);
    await talk("to begin");
    await allIsWell();
    await until("Ada sees that Bob types", async () => {
      await bob.page.locator("#composer-text").pressSequentially("h");
      const text = await ada.page.locator("#typing").textContent();

      return text === "Bob is typing…" || text;
    });
    await bob.page.locator("#composer-text").fill("");
  });

  it("brings private messages to the two", async () => {
    const [question, answer] = PRIVATE;
    await writeTo(ada.page, "Bob");
    await say(ada.page, question);
    await hears(bob.page, question);
    await writeTo(bob.page, "Ada");
    await say(bob.page, answer);
    await hears(ada.page, answer);
    for (const { page } of [ada, bob]) {
      await writeTo(page, "Everyone");
    }
    await talk("after that");
    await allIsWell();
    assert.deepEqual(await transcript(cleo.page), await shown(ada.page), "a third person has none of it");
  });

  it("gives a token on one server that is good on another", async () => {
    const [one, two] = cluster.nodePorts.map((port) => `http://127.0.0.1:${port}`);
    const cookie = (await ada.context.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
    const { csrfToken } = await (await fetch(`${one}/session`, { headers: { cookie } })).json();
    const headers = { cookie, "Content-Type": "application/json", "X-CSRF-Token": csrfToken };
    const entered = await fetch(`${one}/mercure`, { method: "POST", headers, body: "{}" });
    assert.equal(entered.status, 200);
    const [token] = entered.headers.getSetCookie()[0].split(";");
    const abort = new AbortController();
    const stream = await fetch(`${two}/.well-known/mercure?topic=all`, { headers: { cookie: token }, signal: abort.signal });
    assert.equal(stream.status, 200);
    abort.abort();
  });

  it("survives that a server is killed", async () => {
    const node = await nodeOf(ada);
    await killed(String(node), { start: true, isBack: (from) => cluster.connected(node, from) });
    assert.deepEqual([await left(bob, "Ada"), await left(cleo, "Ada")], [0, 0], "she is back before she counts as gone");
  });

  it("survives that a bridge is killed", async () => {
    const node = await nodeOf(bob);
    await killed(`bridge ${node}`, { isBack: (from) => cluster.connected(node, from) });
  });

  it("survives that the log is killed", async () => {
    await killed("log", { start: true, isBack: (from) => Promise.all([1, 2, 3].map((node) => cluster.connected(node, from))) });
  });

  it("survives that a worker is killed", async () => {
    const node = await nodeOf(cleo);
    await killed(`worker ${node}`, {});
  });

  it("survives that nginx is killed", () => killed("proxy", { start: true }));

  it("tells once that somebody left whose server died", async () => {
    const dan = await chat.user("Dan");
    await dan.page.locator("#inside-worker", { hasText: "pid" }).waitFor();
    await ada.page.locator("#people-online .person", { hasText: "Dan" }).waitFor();
    const node = await nodeOf(dan);
    chat.expectsProblems = true;
    await dan.context.setOffline(true);
    const from = cluster.enter(`kill ${node}`);
    await dan.context.close();
    for (const person of everyone) {
      await person.page.locator(".notice", { hasText: "Dan left" }).waitFor();
      await person.page.locator("#people-away .person", { hasText: "Dan" }).waitFor();
    }
    cluster.enter(`start ${node}`);
    await cluster.connected(node, from);
    await talk("without Dan");
    await allIsWell();
    chat.expectsProblems = false;
    assert.deepEqual(await Promise.all(everyone.map((person) => left(person, "Dan"))), [1, 1, 1]);
  });

  it("has all of it for who comes later", async () => {
    const context = await chat.profile();
    const page = await chat.page(context);
    await signIn(page, "Cleo");
    await isLive(page);
    await hears(page, said.at(-1));
    const history = await transcript(page);
    assert.deepEqual(history, (await transcript(cleo.page)).slice(-history.length));
    await context.close();
  });
}
