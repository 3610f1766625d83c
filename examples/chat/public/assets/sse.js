// Server-sent events, read from bytes.
//
// The parser of the HTML standard ("Interpreting an event stream"): feed() takes text in any split and calls back for
// every complete event. It also tells about `retry:` and about comments, which EventSource keeps to itself.

export class EventParser {
  #onEvent;
  #onRetry;
  #rest = "";
  #name = "";
  #data = [];
  #id = null;
  #isFirst = true;

  /** The id of the last complete event; what goes into `Last-Event-ID`. */
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
    // A CR at the very end may be the first half of a CRLF, so it waits with the unfinished line.
    this.#rest = lines.pop();
    for (const line of lines) {
      this.#line(line);
    }
  }

  /** A new connection starts: what was not finished is void, the last event id stays. */
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
