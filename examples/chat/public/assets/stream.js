// The connection that stays: one long answer of `/events`, opened again whenever it breaks.
//
// It does by hand what EventSource does, because EventSource hides three things a chat must know: that the line is
// silent (it does not show keep-alive comments, so a dead Wi-Fi looks like a quiet room), why an answer was refused
// (signed out, or server starting?), and when it will try again (to be able to show it and to try at once).

import { EventParser } from "./sse.js";

const RETRY_FIRST_MS = 400;
const RETRY_MAX_MS = 15_000;
/** A connection that held so long starts the back-off anew. */
const STABLE_AFTER_MS = 5_000;
/** For the head of the answer; afterwards the keep-alive comments decide. */
const CONNECT_TIMEOUT_MS = 15_000;
/** A silent stream is given up after so many of the server's keep-alive intervals. */
const SILENT_INTERVALS = 2.5;

/**
 * Events: "state" (detail {state: "connecting" | "live" | "lost", retryAtMs?}), "event" (detail {name, data, id}),
 * "refused" (detail {status}): an answer that trying again does not change.
 */
export class Stream extends EventTarget {
  #url;
  #silentMaxMs;
  #parser;
  #abort = null;
  #timer = 0;
  #watchdog = 0;
  #failures = 0;
  #retryHintMs = 0;
  #isOpen = false;
  #isLive = false;

  constructor(url, keepAliveSeconds) {
    super();
    this.#url = url;
    this.#silentMaxMs = keepAliveSeconds * 1000 * SILENT_INTERVALS;
    this.#parser = new EventParser(
      (event) => this.#emit("event", event),
      (milliseconds) => { this.#retryHintMs = Math.min(milliseconds, RETRY_MAX_MS); },
    );
  }

  open() {
    this.#isOpen = true;
    this.#connect();
  }

  /** For good: nothing is emitted any more. */
  close() {
    this.#isOpen = false;
    this.#stop();
  }

  /**
   * The network may be back: do not wait for the timer. An attempt under way goes on, unless the user is impatient,
   * for it may hang in a network that is no more.
   */
  retryNow({ isImpatient = false } = {}) {
    if (this.#isOpen && (this.#abort === null || (isImpatient && !this.#isLive))) {
      this.#connect();
    }
  }

  /** The network is known to be gone: do not wait for the silence to be long enough. */
  suspect() {
    this.#abort?.abort(new Error("the network is gone"));
  }

  async #connect() {
    this.#stop();
    this.#parser.reset();
    this.#retryHintMs = 0;
    const abort = this.#abort = new AbortController();
    this.#emit("state", { state: "connecting" });
    let liveSinceMs = 0;
    try {
      this.#watch(CONNECT_TIMEOUT_MS);
      const headers = { Accept: "text/event-stream" };
      if (this.#parser.lastEventId !== "") {
        headers["Last-Event-ID"] = this.#parser.lastEventId;
      }
      const response = await fetch(this.#url, { headers, cache: "no-store", signal: abort.signal });
      if (response.status >= 400 && response.status < 500 && response.status !== 408 && response.status !== 429) {
        this.#stop();
        this.#emit("refused", { status: response.status });
        return;
      }
      if (!response.ok || !(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
        throw new Error(`answered ${response.status}`);
      }
      liveSinceMs = performance.now();
      this.#isLive = true;
      this.#emit("state", { state: "live" });
      await this.#read(response.body.pipeThrough(new TextDecoderStream()).getReader(), abort);
    } catch {
      // Whatever it was, the answer is the same: try again.
    }
    if (this.#abort !== abort) {
      return;
    }
    abort.abort();
    if (liveSinceMs > 0 && performance.now() - liveSinceMs > STABLE_AFTER_MS) {
      this.#failures = 0;
    }
    this.#retryLater(liveSinceMs > 0);
  }

  async #read(reader, abort) {
    while (!abort.signal.aborted) {
      this.#watch(this.#silentMaxMs);
      const { value, done } = await reader.read();
      if (done || abort.signal.aborted) {
        return;
      }
      this.#parser.feed(value);
    }
  }

  #retryLater(wasLive) {
    this.#stop();
    const backoffMs = Math.min(RETRY_FIRST_MS * 2 ** this.#failures, RETRY_MAX_MS);
    this.#failures += 1;
    // Thousands of pages lose the same server in the same moment; the random part keeps them from returning together.
    const delayMs = Math.max(wasLive ? this.#retryHintMs : 0, backoffMs) * (0.5 + Math.random() / 2);
    this.#emit("state", { state: "lost", retryAtMs: Date.now() + delayMs });
    this.#timer = setTimeout(() => this.#connect(), delayMs);
  }

  #watch(milliseconds) {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#abort?.abort(new Error("silent for too long")), milliseconds);
  }

  #stop() {
    clearTimeout(this.#timer);
    clearTimeout(this.#watchdog);
    const abort = this.#abort;
    this.#abort = null;
    this.#isLive = false;
    abort?.abort();
  }

  #emit(type, detail) {
    if (this.#isOpen) {
      this.dispatchEvent(new CustomEvent(type, { detail }));
    }
  }
}
