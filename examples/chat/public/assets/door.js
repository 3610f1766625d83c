// The form for signing in and creating an account.

import * as api from "./api.js";
import { byId } from "./dom.js";

const MODES = {
  signIn: { path: "/session", title: "Sign in", question: "New here?", other: "Create an account", autocomplete: "current-password" },
  signUp: { path: "/users", title: "Create an account", question: "Been here before?", other: "Sign in", autocomplete: "new-password" },
};

export class Door {
  #form = byId("door-form");
  #name = byId("door-name");
  #password = byId("door-password");
  #submit = byId("door-submit");
  #problem = byId("door-problem");
  #mode = MODES.signIn;
  #limits;
  #isBusy = false;
  #onEnter;

  /** @param {(session: object) => void} onEnter */
  constructor(onEnter) {
    this.#onEnter = onEnter;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    byId("door-mode").addEventListener("click", () => {
      this.#setMode(this.#mode === MODES.signIn ? MODES.signUp : MODES.signIn);
      this.#name.focus();
    });
    byId("door-reveal").addEventListener("click", ({ currentTarget }) => {
      const isShown = this.#password.type === "password";
      this.#password.type = isShown ? "text" : "password";
      currentTarget.textContent = isShown ? "Hide" : "Show";
      currentTarget.setAttribute("aria-pressed", String(isShown));
    });
  }

  show(limits, problem = "") {
    this.#limits = limits;
    this.#name.maxLength = limits.nameLength;
    document.title = "Sign in · Fermata chat";
    byId("door").hidden = false;
    this.#setMode(this.#mode);
    this.#problem.textContent = problem;
    this.#name.focus();
  }

  #setMode(mode) {
    this.#mode = mode;
    byId("door-title").textContent = mode.title;
    byId("door-question").textContent = mode.question;
    byId("door-mode").textContent = mode.other;
    byId("door-hint").textContent = mode === MODES.signUp ? `At least ${this.#limits.passwordLengthMin} characters.` : "";
    this.#submit.textContent = mode.title;
    this.#password.autocomplete = mode.autocomplete;
    this.#refuse("");
  }

  async #send() {
    if (this.#isBusy) {
      return;
    }
    if (this.#name.value.trim() === "" || this.#password.value === "") {
      this.#refuse("Please give your name and password.", this.#name.value.trim() === "" ? "name" : "password");
      return;
    }
    this.#setBusy(true);
    this.#refuse("");
    try {
      const session = await api.post(this.#mode.path, { name: this.#name.value, password: this.#password.value });
      this.#password.value = "";
      byId("door").hidden = true;
      this.#onEnter(session);
    } catch (error) {
      this.#refuse(error.message, error.field);
    } finally {
      this.#setBusy(false);
    }
  }

  #setBusy(isBusy) {
    this.#isBusy = isBusy;
    // Not `disabled`, which would remove the keyboard focus.
    this.#submit.setAttribute("aria-disabled", String(isBusy));
  }

  #refuse(message, field = null) {
    this.#problem.textContent = message;
    for (const [name, input] of [["name", this.#name], ["password", this.#password]]) {
      input.setAttribute("aria-invalid", String(field === name));
      if (field === name) {
        input.focus();
        input.select();
      }
    }
  }
}
