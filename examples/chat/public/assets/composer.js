// The form in which messages are written.

import { byId } from "./dom.js";

export class Composer {
  #form = byId("composer");
  #text = byId("composer-text");
  #note = byId("composer-note");
  #problem = byId("composer-problem");
  #recipient = { to: "all", toName: null, isAway: false, isSelf: false };
  #textBytesMax;
  #outbox;
  #onTyping;

  /** @param {(to: string) => void} onTyping called while the user types; `to` is "all" or a user name */
  constructor(outbox, textBytesMax, onTyping) {
    this.#onTyping = onTyping;
    this.#outbox = outbox;
    this.#textBytesMax = textBytesMax;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.#text.addEventListener("keydown", (event) => {
      // On a touch keyboard Enter inserts a line break, because there is no Shift+Enter.
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !matchMedia("(pointer: coarse)").matches) {
        event.preventDefault();
        this.#send();
      }
    });
    this.#text.addEventListener("input", () => {
      this.#problem.textContent = this.#tooLong();
      if (this.#text.value.trim() !== "") {
        this.#onTyping(this.#recipient.to);
      }
      this.#fit();
    });
  }

  focus() {
    this.#text.focus();
  }

  setRecipient(recipient) {
    this.#recipient = recipient;
    const { toName, isAway, isSelf } = recipient;
    const note = toName === null ? "" : isSelf ? "A note to yourself" : isAway ? "Away: it will wait" : "Private";
    this.#form.classList.toggle("is-private", toName !== null);
    if (this.#note.textContent !== note) {
      this.#note.textContent = note;
    }
  }

  #send() {
    const text = this.#text.value;
    if (text.trim() === "") {
      this.#text.focus();
      return;
    }
    const problem = this.#tooLong() || (this.#outbox.isFull ? "Too many messages are waiting to be sent." : "");
    this.#problem.textContent = problem;
    if (problem === "") {
      this.#outbox.send({ to: this.#recipient.to, toName: this.#recipient.toName, text });
      this.#text.value = "";
      this.#fit();
    }
    this.#text.focus();
  }

  #tooLong() {
    const bytes = new TextEncoder().encode(this.#text.value).length;

    return bytes > this.#textBytesMax
      ? `This message is too long: ${bytes.toLocaleString()} of at most ${this.#textBytesMax.toLocaleString()} bytes.`
      : "";
  }

  #fit() {
    this.#text.style.height = "auto";
    this.#text.style.height = `${this.#text.scrollHeight}px`;
  }
}
