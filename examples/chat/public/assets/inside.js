// A corner that shows what is behind the page: the worker that holds its stream, how many clients are held and what they cost,
// how long the last message took, and in demo mode a button that kills this worker.

import * as api from "./api.js";
import { byId } from "./dom.js";

/** Many may come and go at once; the server is asked once for all of them. */
const ASK_AFTER_MS = 500;
/** Messages whose way is measured at the same time. */
const SENT_MAX = 100;

/** Clients from which on the part of each says something: with fewer it is that of an empty server. */
const SHARED_BY_MIN = 100;

/** All that the server's processes have, and each client's part of it where this server has them all. */
function memory(bytes, clients, isAlone) {
  const all = `${(bytes / 1e6).toFixed(1)} MB`;

  return !isAlone || clients < SHARED_BY_MIN ? all : `${all}, ${(bytes / clients / 1000).toFixed(1)} kB each`;
}

export class Inside {
  #worker = null;
  #isAlone = true;
  #askTimer = 0;
  #held = 0;
  /** When messages of this tab were sent, by their keys. */
  #sent = new Map();

  constructor() {
    byId("inside-kill").addEventListener("click", () => this.#kill());
  }

  /** @param {{id: string, worker: number, pid: number, isDemo: boolean, isAlone: boolean}} server what holds this browser's line */
  connected({ id, worker, pid, isDemo, isAlone }) {
    this.#worker = id;
    this.#isAlone = isAlone;
    byId("inside").hidden = false;
    byId("inside-worker").textContent = `${worker} (pid ${pid})`;
    byId("inside-kill").hidden = !isDemo;
    this.changed();
  }

  /** Clients may have come or gone. A quiet page asks nothing. */
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

  /** A message of this tab came back over the line. */
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
        // Of many clients of one user only the first is told to all.
        this.#held = held;
        this.changed();
      }
    } catch {
      // The state of the connection is shown elsewhere.
    }
  }

  async #kill() {
    try {
      await api.post("/worker/kill", { worker: this.#worker });
    } catch {
      // The worker that was to answer may be the one that was killed.
    }
  }
}
