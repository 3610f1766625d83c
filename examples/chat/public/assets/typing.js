// Who is writing something: told to the others while somebody types, and shown for a moment.

import * as api from "./api.js";
import { byId, nameNode } from "./dom.js";

/** The server takes no more from one person. */
const TELL_EVERY_MS = 3_000;
/** A user who goes on typing is announced again sooner. */
const SHOWN_MS = 5_000;
const NAMES_MAX = 3;

export class Typing {
  #toldMs = -Infinity;
  #told = "";
  #conversation = 0;
  /** By person and conversation: {id, name, conversation, timer}. */
  #typing = new Map();

  /** @param {string} to "all" or a name */
  tell(to) {
    const now = performance.now();
    if (to !== this.#told || now - this.#toldMs > TELL_EVERY_MS) {
      this.#told = to;
      this.#toldMs = now;
      // A lost notice does no harm.
      api.post("/typing", { to }).catch(() => {});
    }
  }

  heard({ id, name }, conversation) {
    const key = `${conversation} ${id}`;
    clearTimeout(this.#typing.get(key)?.timer);
    this.#typing.set(key, { id, name, conversation, timer: setTimeout(() => this.#remove(key), SHOWN_MS) });
    this.#draw();
  }

  /** What somebody was typing has come. */
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
