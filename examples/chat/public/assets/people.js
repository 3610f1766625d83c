// The list of people, online and away, and the choice of the recipient.

import * as api from "./api.js";
import { avatar, byId, element, nameNode } from "./dom.js";

const EVERYONE = "all";
const AWAY_SHOWN_MAX = 100;
const SEARCH_AFTER_MS = 250;
/** Sorts Ada before álvaro before Bob, and Bob 2 before Bob 10. */
const order = new Intl.Collator(undefined, { sensitivity: "base", numeric: true });
/** Delay before the list is redrawn, so that many joins and leaves cause one redraw. */
const DRAW_AFTER_MS = 60;

/** Events: "recipient" (detail: {to, toName, isAway}), "count" (detail: number). */
export class People extends EventTarget {
  #self;
  /** @type {Map<number, {id: number, name: string}>} */
  #online = new Map();
  /** Number of online users whose names the server did not send. */
  #unlisted = 0;
  #known = new Map();
  #found = null;
  #recipient = null;
  /** Numbers of unread messages of hidden conversations, by the other user's id; 0 is everyone. */
  #unread = new Map();
  #nodes = new Map();
  #drawTimer = 0;
  #searchTimer = 0;
  #optionsDrawn = "";
  #select = byId("composer-recipient");
  #words = byId("people-words");

  constructor(self) {
    super();
    this.#self = self;
    this.#select.addEventListener("change", () => {
      this.choose(this.#select.value === EVERYONE ? null : this.#person(Number(this.#select.value)));
    });
    byId("people-everyone").addEventListener("click", () => {
      this.choose(null);
      this.dispatchEvent(new CustomEvent("chosen"));
    });
    this.#words.addEventListener("input", () => {
      clearTimeout(this.#searchTimer);
      this.#searchTimer = setTimeout(() => this.search(), SEARCH_AFTER_MS);
    });
  }

  get recipient() {
    return this.#recipient;
  }

  get onlineNames() {
    return sorted(this.#online.values()).filter(({ id }) => id !== this.#self.id).map(({ name }) => name);
  }

  /** Replaces the online users with those that the server sends at the start of every connection. */
  reset(online, count) {
    this.#online = new Map(online.map((person) => [person.id, person]));
    this.#online.set(this.#self.id, this.#self);
    this.#unlisted = Math.max(0, count - online.length);
    this.#drawSoon();
  }

  joined(person) {
    this.#online.set(person.id, person);
    this.#drawSoon();
  }

  left(person) {
    if (this.#online.delete(person.id)) {
      this.meet(person);
    } else {
      this.#unlisted = Math.max(0, this.#unlisted - 1);
    }
    this.#drawSoon();
  }

  /** Adds the sender or recipient of a message to the possible recipients. */
  meet(person) {
    if (person !== null && person.id !== this.#self.id && !this.#known.has(person.id)) {
      this.#known.set(person.id, person);
      if (this.#known.size > AWAY_SHOWN_MAX) {
        this.#known.delete(this.#known.keys().next().value);
      }
      this.#drawSoon();
    }
  }

  addUnread(id, count = 1) {
    this.#unread.set(id, (this.#unread.get(id) ?? 0) + count);
    this.#drawSoon();
  }

  async search() {
    const words = this.#words.value.trim();
    try {
      const { users } = await api.get(`/users?search=${encodeURIComponent(words)}`);
      if (words === this.#words.value.trim()) {
        this.#found = words === "" ? null : users;
        if (words === "") {
          users.filter(({ isOnline }) => !isOnline).forEach((person) => this.meet(person));
        }
        this.#drawSoon();
      }
    } catch {
      // Keep the list. Status shows the state of the connection.
    }
  }

  /** @param {?{id: number, name: string}} person null = everyone */
  choose(person) {
    this.#recipient = person;
    this.#unread.delete(person?.id ?? 0);
    if (person !== null && !this.#online.has(person.id)) {
      this.meet(person);
    }
    this.#draw();
  }

  #person(id) {
    return this.#online.get(id) ?? this.#known.get(id) ?? this.#found?.find((person) => person.id === id) ?? this.#recipient;
  }

  #drawSoon() {
    this.#drawTimer ||= setTimeout(() => this.#draw(), DRAW_AFTER_MS);
  }

  #draw() {
    clearTimeout(this.#drawTimer);
    this.#drawTimer = 0;
    const found = this.#found;
    const online = sorted(this.#online.values(), this.#self.id);
    // In a busy chat the server sends only some names; a search finds the others.
    const here = found === null ? online : sorted(found.filter(({ id, isOnline }) => isOnline || this.#online.has(id)), this.#self.id);
    const away = sorted((found ?? [...this.#known.values()]).filter(({ id, isOnline }) => !isOnline && !this.#online.has(id)));
    this.#drawList(byId("people-online"), here, false);
    this.#drawList(byId("people-away"), away, true);
    byId("people-everyone").setAttribute("aria-pressed", String(this.#recipient === null));
    this.#drawUnread(byId("people-everyone"), 0);
    this.#drawOptions(found === null ? online : here, away);
    const count = online.length + this.#unlisted;
    byId("people-count").textContent = String(count);
    byId("people-open-count").textContent = String(count);
    byId("people-rest").hidden = this.#unlisted === 0 || found !== null;
    byId("people-rest").textContent = `and ${this.#unlisted} more`;
    byId("people-none").textContent = found === null
      ? (away.length > 0 ? "" : "Nobody yet.")
      : (away.length + here.length > 0 ? "" : "Nobody found.");
    this.dispatchEvent(new CustomEvent("recipient", { detail: this.#recipientDetail() }));
  }

  #recipientDetail() {
    const person = this.#recipient;

    return person === null
      ? { id: 0, to: EVERYONE, toName: null, isAway: false, isSelf: false }
      : { id: person.id, to: person.name, toName: person.name, isAway: !this.#online.has(person.id) && this.#unlisted === 0, isSelf: person.id === this.#self.id };
  }

  #drawList(list, people, isAway) {
    const nodes = people.map((person) => this.#personNode(person, isAway));
    nodes.forEach((node, index) => {
      // Move only nodes at a wrong position: a button that is not moved keeps the focus.
      if (list.children[index] !== node) {
        list.insertBefore(node, list.children[index] ?? null);
      }
    });
    while (list.children.length > nodes.length) {
      list.lastElementChild.remove();
    }
  }

  #personNode(person, isAway) {
    const key = `${person.id}${isAway ? " away" : ""}`;
    let node = this.#nodes.get(key);
    if (node === undefined) {
      const face = element("button", {
        className: `person${isAway ? " away" : ""}`,
        attributes: { type: "button", "data-user": String(person.id) },
      });
      face.append(avatar(person), nameNode(person.name, "person-name"));
      if (person.id === this.#self.id) {
        face.append(element("span", { className: "person-you", text: "you" }));
      }
      face.append(unreadNode(), element("span", { className: "visually-hidden", text: ", write privately" }));
      face.addEventListener("click", () => {
        this.choose(this.#recipient?.id === person.id ? null : person);
        this.dispatchEvent(new CustomEvent("chosen"));
      });
      node = element("li", "", face);
      this.#nodes.set(key, node);
    }
    node.firstElementChild.setAttribute("aria-pressed", String(this.#recipient?.id === person.id));
    this.#drawUnread(node.firstElementChild, person.id);

    return node;
  }

  #drawUnread(face, id) {
    const count = this.#unread.get(id) ?? 0;
    const badge = face.querySelector(".unread");
    badge.hidden = count === 0;
    badge.firstChild.textContent = String(count);
  }

  #drawOptions(online, away) {
    const all = [...online, ...away];
    if (this.#recipient !== null && !all.some(({ id }) => id === this.#recipient.id)) {
      away = [this.#recipient, ...away];
    }
    // Redraw only after a change, because redrawing closes an open list on some systems.
    const drawn = JSON.stringify([online.map(({ id }) => id), away.map(({ id }) => id)]);
    if (drawn !== this.#optionsDrawn) {
      this.#optionsDrawn = drawn;
      this.#select.replaceChildren(option(EVERYONE, "Everyone"));
      for (const [label, people] of [["Online", online], ["Away", away]]) {
        if (people.length > 0) {
          this.#select.append(element("optgroup", { attributes: { label } }, ...people.map(({ id, name }) => option(String(id), name))));
        }
      }
    }
    this.#select.value = this.#recipient === null ? EVERYONE : String(this.#recipient.id);
  }
}

function unreadNode() {
  const node = element("span", "unread", element("span"), element("span", { className: "visually-hidden", text: " unread" }));
  node.hidden = true;

  return node;
}

const option = (value, text) => element("option", { text, attributes: { value } });

function sorted(people, firstId = null) {
  return [...people].sort((left, right) => (right.id === firstId) - (left.id === firstId) || order.compare(left.name, right.name) || left.id - right.id);
}
