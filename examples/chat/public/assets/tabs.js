// What the tabs of one browser share: the line, and who is signed in.

/** Whether tabs have to share one stream, and can: locks exist only on https and localhost, and HTTP/2 has no need of it. */
export function sharesStream() {
  return navigator.locks !== undefined && !["h2", "h3"].includes(performance.getEntriesByType("navigation")[0]?.nextHopProtocol);
}

/** Signing in or out in one tab concerns all of them. */
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
