// Transport with server-sent events: one long response of `/events`. Messages are sent with `POST /messages`.
//
// It replaces EventSource, which hides three facts from the page:
// - keep-alive comments, without which a broken network cannot be told from an idle chat
// - the status of an error response: signed out, or the server is starting
// - the time of the next attempt, which the page shows and can skip

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

  /** Id of the event after which the next attempt resumes. */
  get lastEventId() {
    return this.#parser.lastEventId;
  }

  set lastEventId(id) {
    this.#parser.lastEventId = id;
  }

  /** Implements the `attempt` of Line. */
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

  /** Sends a message. Resolves to `{message}`, the stored message. */
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
