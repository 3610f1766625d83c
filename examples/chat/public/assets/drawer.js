// The list of people: a panel that slides in on a narrow screen, always visible on a wide one.

import { byId } from "./dom.js";

export class Drawer {
  #panel = byId("people");
  #opener = byId("people-open");

  constructor() {
    this.#opener.addEventListener("click", () => this.#set(true));
    byId("people-close").addEventListener("click", () => this.close());
    byId("people-shade").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        this.close();
      }
    });
    matchMedia("(max-width: 46rem)").addEventListener("change", () => this.#set(false));
  }

  close() {
    if (this.#panel.classList.contains("open")) {
      this.#set(false);
      this.#opener.focus();
    }
  }

  #set(isOpen) {
    this.#panel.classList.toggle("open", isOpen);
    this.#opener.setAttribute("aria-expanded", String(isOpen));
    byId("people-shade").hidden = !isOpen;
    // Keyboard and screen reader cannot reach the content behind the open panel.
    byId("room").inert = isOpen;
    if (isOpen) {
      byId("people-close").focus();
    }
  }
}
