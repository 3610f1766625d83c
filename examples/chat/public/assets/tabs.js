// State shared by the tabs of one browser: the stream and the session.

/** Returns true if tabs share one stream. HTTP/2 does not need that, and Web Locks exist only on https and localhost. */
export function sharesStream() {
  return navigator.locks !== undefined && !["h2", "h3"].includes(performance.getEntriesByType("navigation")[0]?.nextHopProtocol);
}

/** Notifies the other tabs of a sign-in or sign-out. */
export class SessionChannel {
  #channel = new BroadcastChannel("fermata-chat-session");

  /** @param {(sessionId: ?string) => void} onChange */
  constructor(onChange) {
    this.#channel.addEventListener("message", ({ data }) => onChange(data));
  }

  announce(sessionId) {
    this.#channel.postMessage(sessionId);
  }
}
