// A panel with figures of the server: the worker that holds this page's stream, the number of held clients, their memory, and the
// latency of the last message. In demo mode a button kills the worker.

import * as api from "./api.js";
import { byId } from "./dom.js";

/** Delay before the figures are requested, so that many joins and leaves cause one request. */
const ASK_AFTER_MS = 500;
/** Maximum number of messages whose latency is measured at a time. */
const SENT_MAX = 100;

/** Minimum number of clients for the memory per client; with fewer, an idle server's own memory dominates. */
const SHARED_BY_MIN = 100;

/** Formats the memory of the server's processes, and per client if this server holds all clients. */
function memory(bytes, clients, isAlone) {
  const all = `${(bytes / 1e6).toFixed(1)} MB`;

  return !isAlone || clients < SHARED_BY_MIN ? all : `${all}, ${(bytes / clients / 1000).toFixed(1)} kB each`;
}

export class Inside {
  #worker = null;
  #isAlone = true;
  #askTimer = 0;
  #held = 0;
  /** Send times of this tab's messages, by message key. */
  #sent = new Map();

  constructor() {
    byId("inside-kill").addEventListener("click", () => this.#kill());
  }

  /** @param {{id: string, worker: number, pid: number, isDemo: boolean, isAlone: boolean}} server holds this connection */
  connected({ id, worker, pid, isDemo, isAlone }) {
    this.#worker = id;
    this.#isAlone = isAlone;
    byId("inside").hidden = false;
    byId("inside-worker").textContent = `${worker} (pid ${pid})`;
    byId("inside-kill").hidden = !isDemo;
    this.changed();
  }

  /** Called when clients may have joined or left. Without such changes the page sends no requests. */
  changed() {
    this.#askTimer ||= setTimeout(() => {
      this.#askTimer = 0;
      this.#ask();
    }, ASK_AFTER_MS);
  }

  sent(key) {
    this.#sent.set(key, performance.now());
    if (this.#sent.size > SENT_MAX) {
      this.#sent.delete(this.#sent.keys().next().value);
    }
  }

  /** Called when a message of this tab was received over the connection. */
  arrived(key) {
    this.changed();
    const sentMs = this.#sent.get(key);
    if (this.#sent.delete(key)) {
      byId("inside-way").textContent = `${(performance.now() - sentMs).toFixed(1)} ms`;
    }
  }

  async #ask() {
    try {
      const { held, memoryBytes } = await api.get("/inside");
      byId("inside-held").textContent = held.toLocaleString();
      byId("inside-memory").textContent = memoryBytes === null ? "–" : memory(memoryBytes, held, this.#isAlone);
      if (held !== this.#held) {
        // Repeat until the number is stable, because only a user's first client causes a join event.
        this.#held = held;
        this.changed();
      }
    } catch {
      // Status shows the state of the connection.
    }
  }

  async #kill() {
    try {
      await api.post("/worker/kill", { worker: this.#worker });
    } catch {
      // The killed worker may be the one that handled this request.
    }
  }
}
