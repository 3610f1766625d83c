// Parser of server-sent events.
//
// Implements the HTML standard, "Interpreting an event stream". feed() accepts text split anywhere and calls back for every
// complete event. It also reports `retry:` and comments, which EventSource hides.

export class EventParser {
  #onEvent;
  #onRetry;
  #rest = "";
  #name = "";
  #data = [];
  #id = null;
  #isFirst = true;

  /** Id of the last complete event, to be sent as `Last-Event-ID`. */
  lastEventId = "";

  /**
   * @param {(event: {name: string, data: string, id: string}) => void} onEvent
   * @param {(milliseconds: number) => void} onRetry
   */
  constructor(onEvent, onRetry = () => {}) {
    this.#onEvent = onEvent;
    this.#onRetry = onRetry;
  }

  feed(text) {
    if (this.#isFirst && text !== "") {
      this.#isFirst = false;
      text = text.replace(/^\uFEFF/, "");
    }
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    // A trailing CR may be the first half of a CRLF, so it stays with the incomplete line.
    this.#rest = lines.pop();
    for (const line of lines) {
      this.#line(line);
    }
  }

  /** Discards the incomplete event for a new connection and keeps the last event id. */
  reset() {
    this.#rest = "";
    this.#name = "";
    this.#data = [];
    this.#id = null;
    this.#isFirst = true;
  }

  #line(line) {
    if (line === "") {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") {
      this.#name = value;
    } else if (field === "data") {
      this.#data.push(value);
    } else if (field === "id" && !value.includes("\0")) {
      this.#id = value;
    } else if (field === "retry" && /^\d+$/.test(value)) {
      this.#onRetry(Number(value));
    }
  }

  #dispatch() {
    if (this.#id !== null) {
      this.lastEventId = this.#id;
    }
    if (this.#data.length > 0) {
      this.#onEvent({ name: this.#name || "message", data: this.#data.join("\n"), id: this.lastEventId });
    }
    this.#name = "";
    this.#data = [];
    this.#id = null;
  }
}
