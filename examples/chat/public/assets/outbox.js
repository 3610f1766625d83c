// The queue of outgoing messages: sends one at a time, retries each until the server has it, and stores each exactly once.
//
// Every message has a key. If a response is lost, the message is sent again with the same key, by which the server detects the
// duplicate. Unsent messages survive a reload of the tab.

import { bubble } from "./timeline.js";
import { button, element, icon, nameNode } from "./dom.js";

const WAITING_MAX = 2_000;
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 15_000;
const SAVE_AFTER_MS = 200;
/** Delay before a message is shown as being sent. Most responses arrive earlier, and a brief display would distract. */
const SHOW_SENDING_AFTER_MS = 400;

/** Events: "taken" (queued), "sent" (detail: the stored message), "failed" (detail: the ApiError), "change". */
export class Outbox extends EventTarget {
  #list;
  #deliver;
  #storageKey;
  /** {key, to, toName, text, state: "waiting" | "retrying" | "refused", problem, node} */
  #items = [];
  #isRunning = false;
  #wake = null;
  #saveTimer = 0;

  /** @param {{deliver: (message: {to: string, text: string, key: string}) => Promise<{message: object}>}} parts */
  constructor({ list, self, deliver }) {
    super();
    this.#list = list;
    this.#deliver = deliver;
    this.#storageKey = `fermata.outbox.${self.id}`;
    addEventListener("pagehide", () => this.#save());
  }

  get isEmpty() {
    return this.#items.length === 0;
  }

  get isFull() {
    return this.#items.length >= WAITING_MAX;
  }

  /** Queues the messages that were unsent before a reload. */
  restore() {
    for (const { key, to, toName, text } of stored(this.#storageKey)) {
      this.#push({ key, to, toName, text });
    }
    this.#run();
  }

  /** @param {{to: string, toName: ?string, text: string}} message `to` is "all" or a name */
  send({ to, toName, text }) {
    this.#push({ key: newKey(), to, toName, text });
    this.#emit("taken");
    this.#run();
  }

  /** Removes a message that was received over the connection, possibly before the response. */
  confirm(key) {
    const item = this.#items.find((candidate) => candidate.key === key);
    if (item !== undefined) {
      this.#remove(item);
    }
  }

  /** Retries immediately after a reconnect. */
  retryNow() {
    this.#wake?.();
  }

  #push(fields) {
    const item = { ...fields, state: "waiting", problem: "", node: pendingNode(fields) };
    this.#items.push(item);
    this.#list.append(item.node);
    setTimeout(() => this.#describe(item), SHOW_SENDING_AFTER_MS);
    this.#saveSoon();
    this.#emit("change");
  }

  async #run() {
    if (this.#isRunning) {
      return;
    }
    this.#isRunning = true;
    let failures = 0;
    let item;
    while ((item = this.#items.find(({ state }) => state !== "refused")) !== undefined) {
      try {
        const { message } = await this.#deliver({ to: item.to, text: item.text, key: item.key });
        failures = 0;
        this.#emit("sent", message);
        this.#remove(item);
      } catch (error) {
        if (!this.#items.includes(item)) {
          continue;
        }
        if (error.isTemporary) {
          item.state = "retrying";
          this.#describe(item);
          const delayMs = Math.max(Math.min(RETRY_FIRST_MS * 2 ** failures, RETRY_MAX_MS), error.retryAfterMs);
          failures += 1;
          await this.#pause(delayMs * (0.75 + Math.random() / 2));
        } else {
          item.state = "refused";
          item.problem = error.message;
          this.#describe(item);
          this.#emit("failed", error);
        }
      }
    }
    this.#isRunning = false;
  }

  #pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    }).finally(() => { this.#wake = null; });
  }

  #describe(item) {
    const line = item.node.querySelector(".delivery");
    item.node.classList.toggle("failed", item.state === "refused");
    if (item.state === "waiting") {
      line.textContent = "Sending…";
    } else if (item.state === "retrying") {
      line.textContent = "Not sent yet. Trying again…";
    } else {
      line.replaceChildren(
        `Not sent. ${item.problem}`,
        button("Try again", "link", () => this.#tryAgain(item)),
        button("Discard", "link", () => this.#remove(item)),
      );
    }
  }

  #tryAgain(item) {
    item.state = "waiting";
    this.#describe(item);
    this.#run();
  }

  #remove(item) {
    const index = this.#items.indexOf(item);
    if (index >= 0) {
      this.#items.splice(index, 1);
      item.node.remove();
      this.#saveSoon();
      this.#emit("change");
    }
  }

  #saveSoon() {
    this.#saveTimer ||= setTimeout(() => this.#save(), SAVE_AFTER_MS);
  }

  #save() {
    clearTimeout(this.#saveTimer);
    this.#saveTimer = 0;
    try {
      if (this.isEmpty) {
        sessionStorage.removeItem(this.#storageKey);
      } else {
        const items = this.#items.map(({ key, to, toName, text }) => ({ key, to, toName, text }));
        sessionStorage.setItem(this.#storageKey, JSON.stringify(items));
      }
    } catch {
      // Storage is full or disabled: messages are still sent but do not survive a reload.
    }
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

function pendingNode({ toName, text }) {
  const node = element("li", `message own${toName === null ? "" : " private"}`);
  const head = element("div", "message-head", element("span", "from", "You"));
  if (toName !== null) {
    head.append(" ", element("span", "privacy", icon("lock"), element("span", "", "to ", nameNode(toName))));
  }
  node.append(head, bubble(text), element("p", { className: "delivery", attributes: { role: "status" } }));

  return node;
}

function stored(storageKey) {
  try {
    const items = JSON.parse(sessionStorage.getItem(storageKey) ?? "[]");

    return items.filter(({ key, to, text }) => [key, to, text].every((value) => typeof value === "string")).slice(0, WAITING_MAX);
  } catch {
    return [];
  }
}

/** Uses getRandomValues() because randomUUID() exists only on https and localhost. */
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
