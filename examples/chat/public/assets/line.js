// The persistent connection: reconnects with exponential backoff and detects silence.
//
// Transports (stream.js, socket.js) open and read the connection. This module decides when, and reports the state to the page.

const RETRY_FIRST_MS = 400;
const RETRY_MAX_MS = 15_000;
/** Duration of a connection after which the backoff is reset. */
const STABLE_AFTER_MS = 5_000;

/** Silence, in keep-alive intervals of the server, after which a connection is closed. */
export const SILENT_INTERVALS = 2.5;
/** Time limit for opening a connection; afterwards only silence counts. */
export const CONNECT_TIMEOUT_MS = 15_000;

/**
 * Events: "state" (detail {state: "connecting" | "live" | "lost", retryAtMs?}), "event" (detail {name, data, id}),
 * "refused" (detail {status}): an error that a retry does not change.
 */
export class Line extends EventTarget {
  #attempt;
  #abort = null;
  #timer = 0;
  #watchdog = 0;
  #failures = 0;
  #retryHintMs = 0;
  #isOpen = false;
  #isLive = false;

  /**
   * @param {(link: Link) => Promise<?number>} attempt opens one connection and reads it until it closes. It resolves to the
   *   HTTP status if the server refuses. After any other result or exception the line reconnects.
   *
   * A Link has `signal` (abort), `live()` (connected), `event({name, data, id})`, `watch(milliseconds)` (abort unless called
   * again within that time) and `retryHint(milliseconds)` (the server's requested reconnection time).
   */
  constructor(attempt) {
    super();
    this.#attempt = attempt;
  }

  open() {
    this.#isOpen = true;
    this.#connect();
  }

  /** Closes the line permanently. No more events are emitted. */
  close() {
    this.#isOpen = false;
    this.#stop();
  }

  /**
   * Reconnects immediately, for example when the network is back. A running attempt continues unless `isImpatient` is set,
   * because it may hang in a network that no longer exists.
   */
  retryNow({ isImpatient = false } = {}) {
    if (this.#isOpen && (this.#abort === null || (isImpatient && !this.#isLive))) {
      this.#connect();
    }
  }

  /** Aborts the connection because the browser is offline, without waiting for the silence limit. */
  suspect() {
    this.#abort?.abort(new Error("the network is gone"));
  }

  async #connect() {
    this.#stop();
    this.#retryHintMs = 0;
    const abort = this.#abort = new AbortController();
    this.#emit("state", { state: "connecting" });
    let liveSinceMs = 0;
    try {
      this.#watch(CONNECT_TIMEOUT_MS);
      // Ignore callbacks of an aborted attempt.
      const isCurrent = () => this.#abort === abort;
      const status = await this.#attempt({
        signal: abort.signal,
        live: () => {
          if (isCurrent()) {
            liveSinceMs = performance.now();
            this.#isLive = true;
            this.#emit("state", { state: "live" });
          }
        },
        event: (event) => isCurrent() && this.#emit("event", event),
        watch: (milliseconds) => isCurrent() && this.#watch(milliseconds),
        retryHint: (milliseconds) => { this.#retryHintMs = Math.min(milliseconds, RETRY_MAX_MS); },
      });
      if (status && this.#abort === abort) {
        this.#stop();
        this.#emit("refused", { status });
        return;
      }
    } catch {
      // Retry after any error.
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

  #retryLater(wasLive) {
    this.#stop();
    const backoffMs = Math.min(RETRY_FIRST_MS * 2 ** this.#failures, RETRY_MAX_MS);
    this.#failures += 1;
    // Thousands of pages may lose the same server at the same time. The random part spreads their reconnects.
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
