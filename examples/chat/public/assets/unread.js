// Shows the number of unread messages in the title of a hidden tab.

export class Unread {
  #name;
  #count = 0;
  #onActive;
  #onLeave;
  #wasActive = true;

  constructor(name, onActive, onLeave) {
    this.#name = name;
    this.#onActive = onActive;
    this.#onLeave = onLeave;
    for (const [target, type] of [[window, "focus"], [window, "blur"], [document, "visibilitychange"]]) {
      target.addEventListener(type, () => this.#update());
    }
    this.#update();
  }

  get isActive() {
    return !document.hidden && document.hasFocus();
  }

  add() {
    if (!this.isActive) {
      this.#count += 1;
      this.#update();
    }
  }

  #update() {
    if (this.isActive) {
      this.#count = 0;
      this.#onActive();
    } else if (this.#wasActive) {
      this.#onLeave();
    }
    this.#wasActive = this.isActive;
    document.title = `${this.#count > 0 ? `(${this.#count}) ` : ""}${this.#name} · Fermata chat`;
  }
}
