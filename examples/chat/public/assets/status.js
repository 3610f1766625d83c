// Shows the state of the connection: an icon, a text, and a banner after a longer loss.

import { byId } from "./dom.js";

/** Delay before the banner appears. The restart of one worker takes less time and needs no alarm. */
const ALARM_AFTER_MS = 1_500;

export class Status {
  /** Last state of the line, or "refused". */
  #state = "connecting";
  #text = "";
  #retryAtMs = 0;
  #wasLive = false;
  /** True from the loss of the connection until it is live again, across all attempts. */
  #isLost = false;
  #isAlarmed = false;
  #alarmTimer = 0;
  #ticker = 0;

  constructor(onRetry) {
    byId("banner-retry").addEventListener("click", onRetry);
    this.set("connecting");
  }

  /** @param {"connecting" | "live" | "lost" | "refused"} state */
  set(state, { retryAtMs = 0, text = "" } = {}) {
    this.#state = state;
    this.#text = text;
    this.#retryAtMs = retryAtMs;
    clearInterval(this.#ticker);
    if (state === "live") {
      clearTimeout(this.#alarmTimer);
      this.#alarmTimer = 0;
      this.#wasLive = true;
      this.#isLost = false;
      this.#isAlarmed = false;
    } else {
      this.#isLost ||= state === "lost";
      this.#isAlarmed ||= state === "refused";
      this.#alarmTimer ||= setTimeout(() => {
        this.#isAlarmed = true;
        this.#draw();
      }, ALARM_AFTER_MS);
    }
    if (state === "lost") {
      this.#ticker = setInterval(() => this.#draw(), 1000);
    }
    this.#draw();
  }

  get #shown() {
    if (this.#state === "refused" || (this.#isLost && this.#isAlarmed)) {
      return "lost";
    }

    return this.#state === "lost" ? "connecting" : this.#state;
  }

  #draw() {
    const shown = this.#shown;
    byId("status").dataset.state = shown;
    setText("status-text", {
      live: "Live",
      connecting: this.#wasLive ? "Reconnecting…" : "Connecting…",
      lost: this.#state === "refused" ? "Refused" : navigator.onLine ? "Connection lost" : "You are offline",
    }[shown]);
    byId("banner").hidden = shown === "live" || !this.#isAlarmed;
    byId("banner-retry").hidden = shown !== "lost";
    setText("banner-text", this.#text || (shown === "lost" ? this.#lostText() : "Connecting to the server…"));
  }

  #lostText() {
    const seconds = Math.ceil((this.#retryAtMs - Date.now()) / 1000);

    return `${this.#wasLive ? "The connection was lost." : "The server cannot be reached."} `
      + `${seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again…"} What you write is kept and sent later.`;
  }
}

/** Writes a text only if it changed, because screen readers announce every write. */
function setText(id, text) {
  if (byId(id).textContent !== text) {
    byId(id).textContent = text;
  }
}
