// The state of the connection, as a sign, in words, and as a banner when it matters.

import { byId } from "./dom.js";

/** A restart of one worker is over sooner; a banner that flashes up would only alarm. */
const BANNER_AFTER_MS = 1_500;

export class Status {
  #retryAtMs = 0;
  #ticker = 0;
  #bannerTimer = 0;
  #state = "";

  constructor(onRetry) {
    byId("banner-retry").addEventListener("click", onRetry);
  }

  /** @param {"connecting" | "live" | "lost" | "waiting" | "refused"} state */
  set(state, { retryAtMs = 0, text = "" } = {}) {
    const isBroken = state !== "live";
    this.#retryAtMs = retryAtMs;
    this.#state = state;
    byId("status").dataset.state = state === "refused" ? "lost" : state;
    clearInterval(this.#ticker);
    if (!isBroken) {
      clearTimeout(this.#bannerTimer);
      this.#bannerTimer = 0;
      byId("banner").hidden = true;
    } else {
      this.#bannerTimer ||= setTimeout(() => { byId("banner").hidden = this.#state === "live"; }, BANNER_AFTER_MS);
    }
    const words = {
      live: "Live",
      connecting: "Connecting…",
      lost: navigator.onLine ? "Connection lost" : "You are offline",
      waiting: "Paused",
      refused: "Refused",
    }[state];
    if (byId("status-text").textContent !== words) {
      byId("status-text").textContent = words;
    }
    this.#describe(text);
    if (state === "lost") {
      this.#ticker = setInterval(() => this.#describe(text), 1000);
    }
  }

  #describe(text) {
    const seconds = Math.ceil((this.#retryAtMs - Date.now()) / 1000);
    byId("banner-retry").hidden = this.#state !== "lost" && this.#state !== "refused";
    byId("banner-text").textContent = text || {
      connecting: "Connecting to the server…",
      lost: `The connection was lost. ${seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again…"} Nothing you write gets lost.`,
      live: "",
    }[this.#state];
  }
}
