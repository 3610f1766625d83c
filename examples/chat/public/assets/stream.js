// The line by server-sent events: one long answer of `/events`. Messages go by `POST /messages`.
//
// It does by hand what EventSource does, because EventSource hides three things a chat must know: that the line is
// silent (it does not show keep-alive comments, so a dead Wi-Fi looks like a quiet room), why an answer was refused
// (signed out, or server starting?), and when it will try again (to be able to show it and to try at once).

import * as api from "./api.js";
import { SILENT_INTERVALS } from "./line.js";
import { EventParser } from "./sse.js";

const REFUSALS_TEMPORARY = [408, 429];

export class StreamTransport {
  #silentMaxMs;
  #link = null;
  #parser = new EventParser(
    (event) => this.#link.event(event),
    (milliseconds) => this.#link.retryHint(milliseconds),
  );

  constructor({ keepAliveSeconds }) {
    this.#silentMaxMs = keepAliveSeconds * 1000 * SILENT_INTERVALS;
  }

  /** The event after which the next attempt goes on. */
  get lastEventId() {
    return this.#parser.lastEventId;
  }

  set lastEventId(id) {
    this.#parser.lastEventId = id;
  }

  /** See Line. */
  async attempt(link) {
    this.#link = link;
    this.#parser.reset();
    const headers = { Accept: "text/event-stream" };
    if (this.#parser.lastEventId !== "") {
      headers["Last-Event-ID"] = this.#parser.lastEventId;
    }
    const response = await fetch("/events", { headers, cache: "no-store", signal: link.signal });
    if (response.status >= 400 && response.status < 500 && !REFUSALS_TEMPORARY.includes(response.status)) {
      return response.status;
    }
    if (!response.ok || !(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
      throw new Error(`answered ${response.status}`);
    }
    link.live();
    await this.#read(response.body.pipeThrough(new TextDecoderStream()).getReader(), link);

    return null;
  }

  /** Resolves to `{message}`, as it was stored. */
  deliver(message) {
    return api.post("/messages", message);
  }

  async #read(reader, link) {
    while (!link.signal.aborted) {
      link.watch(this.#silentMaxMs);
      const { value, done } = await reader.read();
      if (done || link.signal.aborted) {
        return;
      }
      this.#parser.feed(value);
    }
  }
}
