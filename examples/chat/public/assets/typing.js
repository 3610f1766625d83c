// Typing notices: sent to the others while the user types, and shown for some seconds.

import * as api from "./api.js";
import { byId, nameNode } from "./dom.js";

/** Minimum time between two notices, so that the server's limit is not exceeded. */
const TELL_EVERY_MS = 3_000;
/** Time that a notice is shown. It exceeds TELL_EVERY_MS, so the notice stays while a user keeps typing. */
const SHOWN_MS = 5_000;
const NAMES_MAX = 3;

export class Typing {
  #toldMs = -Infinity;
  #told = "";
  #conversation = 0;
  /** Shown notices by user and conversation: {id, name, conversation, timer}. */
  #typing = new Map();

  /** @param {string} to "all" or a user name */
  tell(to) {
    const now = performance.now();
    if (to !== this.#told || now - this.#toldMs > TELL_EVERY_MS) {
      this.#told = to;
      this.#toldMs = now;
      // A lost notice has no consequences.
      api.post("/typing", { to }).catch(() => {});
    }
  }

  heard({ id, name }, conversation) {
    const key = `${conversation} ${id}`;
    clearTimeout(this.#typing.get(key)?.timer);
    this.#typing.set(key, { id, name, conversation, timer: setTimeout(() => this.#remove(key), SHOWN_MS) });
    this.#draw();
  }

  /** Removes a user's notice when the message arrives. */
  ended({ id }, conversation) {
    this.#remove(`${conversation} ${id}`);
  }

  show(conversation) {
    this.#conversation = conversation;
    this.#draw();
  }

  #remove(key) {
    clearTimeout(this.#typing.get(key)?.timer);
    if (this.#typing.delete(key)) {
      this.#draw();
    }
  }

  #draw() {
    const names = [...this.#typing.values()].filter(({ conversation }) => conversation === this.#conversation).map(({ name }) => name);
    const shown = names.slice(0, NAMES_MAX).flatMap((name, index) => [index > 0 ? ", " : "", nameNode(name)]);
    byId("typing").replaceChildren(...(names.length === 0 ? [] : names.length > NAMES_MAX
      ? ["Several people are typing…"]
      : [...shown, names.length === 1 ? " is typing…" : " are typing…"]));
  }
}
