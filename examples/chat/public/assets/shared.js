// Shares one connection with server-sent events among all tabs of a browser.
//
// With HTTP/1.1 a browser opens at most six connections to a server, and a stream occupies one permanently. So one tab of a
// session leads: it holds a Web Lock, keeps the stream open and broadcasts every event. When the leading tab closes, the browser
// grants the lock to another tab, which resumes after the last event that it received.

import * as api from "./api.js";
import { SILENT_INTERVALS } from "./line.js";
import { StreamTransport } from "./stream.js";

export class SharedTransport {
  #stream;
  #channel;
  #silentMaxMs;
  #onReturn;
  #isLeader = false;
  /** In the leading tab: true while the stream is open. */
  #isLive = false;
  #wasLive = false;
  /** Server and worker that hold the stream, from the server's hello event. */
  #server = null;
  /** Resolves #follow() when this tab becomes the leading one. */
  #lead = null;
  /** Handles the leading tab's messages in a following tab; null between two attempts. */
  #hear = null;

  /** @param {() => void} onReturn called when the leading tab has reconnected */
  constructor(session, onReturn) {
    const name = `fermata-chat-stream-${session.session}`;
    this.#stream = new StreamTransport(session);
    this.#silentMaxMs = session.keepAliveSeconds * 1000 * SILENT_INTERVALS;
    this.#onReturn = onReturn;
    this.#channel = new BroadcastChannel(name);
    this.#channel.addEventListener("message", ({ data }) => this.#heard(data));
    // The promise never resolves: the tab holds the lock until it closes, across reconnects.
    navigator.locks.request(name, () => {
      this.#isLeader = true;
      this.#isLive = false;
      this.#lead?.();

      return new Promise(() => {});
    });
  }

  /** Implements the `attempt` of Line. */
  async attempt(link) {
    if (!this.#isLeader) {
      await this.#follow(link).finally(() => {
        this.#lead = null;
        this.#hear = null;
      });
    }

    return this.#keep(link);
  }

  /** Sends a message. Resolves to `{message}`, the stored message. */
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
            // Without a last event id the stream cannot resume; the missed messages are only in the database.
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

  /** Follows the leading tab. Resolves when this tab becomes the leading one. */
  #follow(link) {
    return new Promise((resolve, reject) => {
      let isLive = false;
      /** Events received before the list of online users; null: not connected. */
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
          // Events broadcast between two attempts were missed.
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
