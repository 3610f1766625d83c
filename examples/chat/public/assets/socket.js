// WebSocket transport: receives events and sends messages over one connection.
//
// The server sends `{event, data, id?}`, where data is a JSON text: the channels' events, and the responses `hello`, `pong` (to
// ping) and `reply` (to send). The page sends `{do: "hello" | "ping" | "send", …}`.

import * as api from "./api.js";
import { SILENT_INTERVALS } from "./line.js";

/** Maps the server's close codes to HTTP statuses. */
const REFUSALS = new Map([[4401, 401], [4403, 403]]);
const REPLY_TIMEOUT_MS = 20_000;

export class SocketTransport {
  #session;
  #quietMs;
  #answerMs;
  #socket = null;
  #lastEventId = "";
  #wasLive = false;
  #quiet = 0;
  #references = 0;
  /** Sent messages without a reply, by reference: {resolve, reject, timer}. */
  #replies = new Map();

  constructor(session) {
    this.#session = session;
    this.#quietMs = session.keepAliveSeconds * 1000;
    this.#answerMs = this.#quietMs * (SILENT_INTERVALS - 1);
  }

  /** Implements the `attempt` of Line. */
  async attempt(link) {
    if (!navigator.onLine) {
      throw new Error("the browser is offline");
    }
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/socket`);
    try {
      if (!await opened(socket, link.signal)) {
        return await this.#refusal();
      }
      socket.send(JSON.stringify({ do: "hello", token: this.#session.csrfToken, since: this.#lastEventId }));

      return REFUSALS.get(await this.#read(socket, link)) ?? null;
    } finally {
      if (this.#socket === socket) {
        clearTimeout(this.#quiet);
        this.#socket = null;
        this.#replies.forEach(({ reject }) => reject(unreachable()));
      }
      socket.close();
    }
  }

  /** Sends a message. Resolves to `{message}`, the stored message. */
  deliver(message) {
    const socket = this.#socket;
    if (socket === null) {
      return Promise.reject(unreachable());
    }
    const reference = this.#references += 1;
    let timer = 0;

    return new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(unreachable()), REPLY_TIMEOUT_MS);
      this.#replies.set(reference, { resolve, reject });
      socket.send(JSON.stringify({ ...message, do: "send", reference }));
    }).finally(() => {
      clearTimeout(timer);
      this.#replies.delete(reference);
    });
  }

  /** Resolves to the close code; rejects if the line aborts the attempt. */
  #read(socket, link) {
    return new Promise((resolve, reject) => {
      link.signal.addEventListener("abort", () => reject(link.signal.reason), { once: true });
      socket.addEventListener("close", ({ code }) => resolve(code));
      socket.addEventListener("message", ({ data }) => {
        if (!link.signal.aborted) {
          this.#handle(socket, link, JSON.parse(data));
        }
      });
    });
  }

  #handle(socket, link, { event, data, id }) {
    this.#heard(socket, link);
    if (id) {
      this.#lastEventId = id;
    }
    if (event === "reply") {
      this.#reply(JSON.parse(data));
    } else if (event === "hello") {
      this.#socket = socket;
      link.live();
      link.event({ name: event, data });
      if (this.#wasLive && this.#lastEventId === "") {
        // Without a last event id the socket cannot resume; the missed messages are only in the database.
        link.event({ name: "gap", data: "{}" });
      }
      this.#wasLive = true;
    } else if (event !== "pong") {
      link.event({ name: event, data, id });
    }
  }

  /** Sends a ping message on a silent connection, because scripts cannot see the pings of the protocol. */
  #heard(socket, link) {
    clearTimeout(this.#quiet);
    link.watch(this.#quietMs + this.#answerMs);
    this.#quiet = setTimeout(() => {
      // Timers of a background tab fire late, so restart the time limit for the pong now.
      link.watch(this.#answerMs);
      socket.send(JSON.stringify({ do: "ping" }));
    }, this.#quietMs);
  }

  #reply({ reference, status, error, message, retryAfterSeconds }) {
    const reply = this.#replies.get(reference);
    if (status < 400) {
      reply?.resolve({ message });
    } else {
      reply?.reject(new api.ApiError(status, error.code, error.message, error.field ?? null, (retryAfterSeconds ?? 0) * 1000));
    }
  }

  /** Determines why the server refused the WebSocket from the session, because browsers hide the response from scripts. */
  async #refusal() {
    const { session, user } = await api.get("/session");
    if (session !== this.#session.session) {
      return user === null ? 401 : 403;
    }
    throw new Error("not opened");
  }
}

/** Resolves to true if the connection opened, false if it failed. */
function opened(socket, signal) {
  return new Promise((resolve, reject) => {
    socket.addEventListener("open", () => resolve(true), { once: true });
    socket.addEventListener("error", () => resolve(false), { once: true });
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function unreachable() {
  return new api.ApiError(0, "unreachable", "The server cannot be reached. Please check your connection.");
}
