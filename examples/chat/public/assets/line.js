// The connection that stays: opened again whenever it breaks, with growing pauses, and watched for silence.
//
// How it is opened and read is the transport's (stream.js, socket.js); when, and what the user is told, is decided here.

const RETRY_FIRST_MS = 400;
const RETRY_MAX_MS = 15_000;
/** A connection that held so long starts the back-off anew. */
const STABLE_AFTER_MS = 5_000;

/** A silent connection is given up after so many of the server's keep-alive intervals. */
export const SILENT_INTERVALS = 2.5;
/** For the opening; afterwards the silence decides. */
export const CONNECT_TIMEOUT_MS = 15_000;

/**
 * Events: "state" (detail {state: "connecting" | "live" | "lost", retryAtMs?}), "event" (detail {name, data, id}),
 * "refused" (detail {status}): an answer that trying again does not change.
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
   * @param {(link: Link) => Promise<?number>} attempt opens one connection and reads it to its end. It resolves to the
   *   HTTP status of a refusal; whatever else ends it, also by throwing, is followed by another attempt.
   *
   * A Link has `signal` (stop now), `live()`, `event({name, data, id})`, `watch(milliseconds)` (give up unless called again
   * within that time) and `retryHint(milliseconds)` (what the server asks for).
   */
  constructor(attempt) {
    super();
    this.#attempt = attempt;
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
    this.#retryHintMs = 0;
    const abort = this.#abort = new AbortController();
    this.#emit("state", { state: "connecting" });
    let liveSinceMs = 0;
    try {
      this.#watch(CONNECT_TIMEOUT_MS);
      // An attempt that was given up may still hear something, which is nobody's business any more.
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
