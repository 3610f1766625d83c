// One line by server-sent events for all tabs of a browser.
//
// Over HTTP/1.1 a browser opens at most six connections to a server, and a stream takes one for good. So of the tabs of a
// session one leads: it holds a lock of the browser, keeps the stream and passes on every event. When it closes, the browser
// gives the lock to another tab, which goes on after the last event it has heard of.

import * as api from "./api.js";
import { SILENT_INTERVALS } from "./line.js";
import { StreamTransport } from "./stream.js";

export class SharedTransport {
  #stream;
  #channel;
  #silentMaxMs;
  #onReturn;
  #isLeader = false;
  /** Whether the stream is open, as far as the leading tab knows. */
  #isLive = false;
  #wasLive = false;
  /** What holds the stream, as the server's greeting names it. */
  #server = null;
  /** Resolves the wait of a tab that follows, when it is to lead. */
  #lead = null;
  /** What a tab that follows does with what the leading one says; null between two attempts. */
  #hear = null;

  /** @param {() => void} onReturn the leading tab has the stream again */
  constructor(session, onReturn) {
    const name = `fermata-chat-stream-${session.session}`;
    this.#stream = new StreamTransport(session);
    this.#silentMaxMs = session.keepAliveSeconds * 1000 * SILENT_INTERVALS;
    this.#onReturn = onReturn;
    this.#channel = new BroadcastChannel(name);
    this.#channel.addEventListener("message", ({ data }) => this.#heard(data));
    // Kept until the tab closes, over all attempts to connect.
    navigator.locks.request(name, () => {
      this.#isLeader = true;
      this.#isLive = false;
      this.#lead?.();

      return new Promise(() => {});
    });
  }

  /** See Line. */
  async attempt(link) {
    if (!this.#isLeader) {
      await this.#follow(link).finally(() => {
        this.#lead = null;
        this.#hear = null;
      });
    }

    return this.#keep(link);
  }

  /** Resolves to `{message}`, as it was stored. */
  deliver(message) {
    return this.#stream.deliver(message);
  }

  async #keep(link) {
    try {
      return await this.#stream.attempt({
        signal: link.signal,
        retryHint: link.retryHint,
        live: () => {
          this.#isLive = true;
          this.#say("live");
          link.live();
          if (this.#wasLive && this.#stream.lastEventId === "") {
            // Nothing to resume from: what came meanwhile is only in the database.
            link.event({ name: "gap", data: "{}" });
          }
          this.#wasLive = true;
        },
        event: (event) => {
          if (event.name === "hello") {
            this.#server = JSON.parse(event.data).server;
          }
          this.#say("event", { event });
          link.event(event);
        },
        watch: (milliseconds) => {
          this.#say("alive");
          link.watch(milliseconds);
        },
      });
    } finally {
      this.#isLive = false;
      this.#say("lost");
    }
  }

  /** Resolves when this tab is to lead. */
  #follow(link) {
    return new Promise((resolve, reject) => {
      let isLive = false;
      /** Events that come before this tab knows who is here. */
      let early = null;
      const take = (event) => {
        if (event.id) {
          this.#stream.lastEventId = event.id;
        }
        link.event(event);
      };
      const begin = async (lastEventId, server) => {
        early = [];
        const data = JSON.stringify({ ...await api.get("/online"), server });
        isLive = true;
        this.#stream.lastEventId ||= lastEventId;
        link.live();
        link.watch(this.#silentMaxMs);
        link.event({ name: "hello", data });
        if (this.#wasLive) {
          // What the leading tab passed on between two attempts was not heard here.
          link.event({ name: "gap", data: "{}" });
        }
        this.#wasLive = true;
        early.forEach(take);
      };
      this.#lead = resolve;
      this.#hear = ({ kind, event, live, id, server }) => {
        if (kind === "lost" && isLive) {
          reject(new Error("the leading tab has lost the line"));
        } else if ((kind === "live" || (kind === "state" && live)) && early === null) {
          begin(id ?? "", server ?? null).catch(reject);
        } else if (kind === "event" && early !== null) {
          isLive ? take(event) : early.push(event);
        }
        if (isLive && kind !== "ask") {
          link.watch(this.#silentMaxMs);
        }
      };
      link.signal.addEventListener("abort", () => reject(link.signal.reason), { once: true });
      this.#say("ask");
    });
  }

  #heard(message) {
    if (message.kind === "ask") {
      if (this.#isLeader) {
        this.#say("state", { live: this.#isLive, id: this.#stream.lastEventId, server: this.#server });
      }
    } else if (this.#hear !== null) {
      this.#hear(message);
    } else if (message.kind === "live") {
      this.#onReturn();
    }
  }

  #say(kind, more = {}) {
    this.#channel.postMessage({ kind, ...more });
  }
}
