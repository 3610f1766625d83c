// The list of messages in order of ids, which is the same in every tab regardless of the order of arrival.

import { avatar, button, element, icon, nameNode } from "./dom.js";
import { textNodes } from "./text.js";
import { dayKey, dayName, timeNode } from "./time.js";

/** Maximum number of messages in the page, which keeps it fast. The oldest are dropped; "Show earlier messages" loads them. */
const SHOWN_MAX = 3_000;
/** Maximum number of notices such as "Mary joined"; the oldest are dropped. */
const NOTICES_MAX = 500;
/** Maximum number of ids stored for the detection of duplicates, including dropped messages. */
const REMEMBERED_MAX = 20_000;
/** Maximum time between two messages of one sender that share a heading. */
const FOLLOWS_WITHIN_MS = 5 * 60_000;
/** Maximum time between a message and a later-published one with a smaller id. Workers may publish out of order. */
const DISORDER_MAX_MS = 10_000;
const FOLD_LENGTH = 1_500;
const FOLD_LINES = 14;
const AT_END_PX = 48;
/** Time after user input during which scroll events count as the user's, because scrolling continues after the input. */
const TOUCH_MS = 1_000;
/** Time within which joins, or leaves, share a line. */
const PRESENCE_WITHIN_MS = 60_000;
const PRESENCE_NAMES_MAX = 3;

/** Id of the conversation with everyone. A private conversation has the other user's id. */
export const ROOM = 0;

/**
 * Contains the messages of all conversations and shows those of one.
 *
 * Event "newbelow": the number of messages below the visible part changed (detail: their number; 0 at the end).
 */
export class Timeline extends EventTarget {
  #list;
  #log;
  #scroller;
  #self;
  #conversation = ROOM;
  /** Last line of joins or leaves: {node, what, names, sinceMs}. */
  #presence = null;
  /** Sorted by id: {id, timeMs, conversation, message, node, dayNode}. */
  #items = [];
  #shown = new Map();
  #remembered = new Set();
  /** Smallest id that was fetched; earlier messages are not loaded. */
  #windowStart = 0;
  #isAtEnd = true;
  /** Time of the user's last input that can scroll: wheel, touch, key or scroll bar. */
  #touchedMs = -Infinity;
  #below = 0;

  constructor({ list, log, scroller, self }) {
    super();
    this.#list = list;
    this.#log = log;
    this.#scroller = scroller;
    this.#self = self;
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    for (const type of ["wheel", "touchmove", "keydown", "pointerdown", "pointermove", "pointerup"]) {
      scroller.addEventListener(type, () => { this.#touchedMs = performance.now(); }, { passive: true });
    }
    const keepAtEnd = new ResizeObserver(() => this.#isAtEnd && this.scrollToEnd());
    keepAtEnd.observe(scroller);
    keepAtEnd.observe(scroller.firstElementChild);
  }

  /** True if the shown conversation has no messages. */
  get isEmpty() {
    return !this.#items.some(({ conversation }) => conversation === this.#conversation);
  }

  get conversation() {
    return this.#conversation;
  }

  /** @param {number} conversation ROOM, or the id of the other user */
  show(conversation) {
    this.#conversation = conversation;
    for (const node of this.#list.children) {
      this.#place(node, Number(node.dataset.conversation));
    }
    this.scrollToEnd();
  }

  get newestId() {
    return this.#items.at(-1)?.id ?? this.#windowStart - 1;
  }

  get windowStart() {
    return this.#windowStart;
  }

  get isAtEnd() {
    return this.#isAtEnd;
  }

  /** Returns true if the message is present, or older than all fetched messages. */
  knows(id) {
    return id < this.#windowStart || id === 0 || this.#remembered.has(id);
  }

  /** Id after which to fetch messages when some may be missing. */
  get resumeId() {
    const newest = this.#items.at(-1);
    if (newest === undefined) {
      return Math.max(0, this.#windowStart - 1);
    }
    for (let index = this.#items.length - 1; index >= 0; index -= 1) {
      if (this.#items[index].timeMs < newest.timeMs - DISORDER_MAX_MS) {
        return this.#items[index].id;
      }
    }

    return Math.max(0, Math.min(this.#windowStart, this.#items[0].id) - 1);
  }

  /** Adds a new message. Returns false for a duplicate. */
  add(message) {
    if (this.#remembered.has(message.id)) {
      return false;
    }
    this.#insert(message);
    const isShown = conversationOf(message, this.#self) === this.#conversation;
    if (!this.#isAtEnd && isShown && message.from.id !== this.#self.id) {
      this.#below += 1;
      this.#emitBelow();
    }
    // Several may be over the limit after the user has read earlier messages for a long time.
    while (this.#items.length > SHOWN_MAX && this.#isAtEnd) {
      this.#dropOldest();
    }

    return true;
  }

  /** Adds older messages without moving the visible ones and without announcing them to screen readers. */
  addHistory(messages, windowStart) {
    this.#windowStart = windowStart;
    const fromEndPx = this.#scroller.scrollHeight - this.#scroller.scrollTop;
    this.#quietly(() => {
      for (const message of messages) {
        if (!this.#shown.has(message.id)) {
          this.#insert(message);
        }
      }
    });
    if (this.#isAtEnd) {
      this.scrollToEnd();
    } else {
      this.#scroller.scrollTop = this.#scroller.scrollHeight - fromEndPx;
    }
  }

  /** Adds a notice line. */
  addNotice(nodes, timeMs = Date.now()) {
    const attributes = { "data-day": dayKey(timeMs) };
    const node = element("li", { className: "notice", attributes }, ...nodes, timeNode(timeMs));
    this.#place(node, ROOM);
    this.#list.append(node);
    const notices = this.#list.getElementsByClassName("notice");
    if (notices.length > NOTICES_MAX) {
      notices[0].remove();
    }

    return node;
  }

  /** Adds a line such as "Mary joined", or adds the name to a recent line of the same kind. */
  addPresence(name, what) {
    const now = Date.now();
    if (this.#presence?.what !== what || this.#presence.node !== this.#list.lastElementChild
        || now - this.#presence.sinceMs > PRESENCE_WITHIN_MS) {
      this.#presence = { what, names: [name], sinceMs: now, node: this.addNotice([nameNode(name), ` ${what}`], now) };
      return;
    }
    const { node, names } = this.#presence;
    // Put the latest name at the end, without a duplicate.
    const all = [...names.filter((other) => other !== name), name];
    this.#presence.names = all;
    this.#presence.sinceMs = now;
    const shown = all.slice(-PRESENCE_NAMES_MAX);
    const others = all.length - shown.length;
    const listed = shown.flatMap((shownName, index) => [
      index === 0 ? "" : index === shown.length - 1 ? " and " : ", ", nameNode(shownName),
    ]);
    node.replaceChildren(others > 0 ? `${others} ${others === 1 ? "other" : "others"}, ` : "", ...listed, ` ${what}`, timeNode(now));
  }

  /** Adds a divider above the first unseen message of a conversation. */
  addDivider(text, beforeId, conversation) {
    const item = this.#items.find((candidate) => candidate.id >= beforeId && candidate.conversation === conversation);
    if (item !== undefined) {
      item.node.classList.remove("follows");
      const node = element("li", { className: "divider", text });
      this.#place(node, conversation);
      item.node.before(node);
    }
  }

  removeDividers() {
    const dividers = this.#list.querySelectorAll(".divider");
    dividers.forEach((node) => node.remove());
    if (dividers.length > 0) {
      this.#items.forEach((_, index) => this.#arrange(index));
    }
  }

  clear() {
    this.#windowStart = this.newestId + 1;
    this.#items = [];
    this.#shown.clear();
    this.#list.replaceChildren();
    this.#below = 0;
    this.#isAtEnd = true;
    this.#emitBelow();
  }

  scrollToEnd() {
    this.#isAtEnd = true;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    if (this.#below > 0) {
      this.#below = 0;
      this.#emitBelow();
    }
  }

  #insert(message) {
    let index = this.#items.length;
    while (index > 0 && this.#items[index - 1].id > message.id) {
      index -= 1;
    }
    const next = this.#items[index];
    const conversation = conversationOf(message, this.#self);
    const item = { id: message.id, timeMs: message.timeMs, conversation, message, node: messageNode(message, this.#self), dayNode: null };
    this.#place(item.node, conversation);
    this.#items.splice(index, 0, item);
    this.#shown.set(message.id, item);
    this.#remember(message.id);
    this.#list.insertBefore(item.node, next === undefined ? null : next.dayNode ?? next.node);
    this.#arrange(index);
    this.#arrange(this.#items.findIndex((later, place) => place > index && later.conversation === conversation));
  }

  /** Assigns a row to a conversation and hides it unless that conversation is shown. */
  #place(node, conversation) {
    node.dataset.conversation = String(conversation);
    node.hidden = conversation !== this.#conversation;
  }

  /** Sets the date line and the heading of a message, depending on the message before it. */
  #arrange(index) {
    const item = this.#items[index];
    if (item === undefined) {
      return;
    }
    const before = this.#items.findLast((earlier, place) => place < index && earlier.conversation === item.conversation);
    const opensDay = before === undefined || dayKey(before.timeMs) !== dayKey(item.timeMs);
    if (opensDay && item.dayNode === null) {
      item.dayNode = element("li", { className: "day", text: dayName(item.timeMs) });
      this.#place(item.dayNode, item.conversation);
      firstOfDay(item).before(item.dayNode);
    } else if (!opensDay && item.dayNode !== null) {
      item.dayNode.remove();
      item.dayNode = null;
    }
    const follows = rowBefore(item) === before?.node
      && before.message.from.id === item.message.from.id
      && before.message.to?.id === item.message.to?.id
      && before.message.offline === item.message.offline
      && item.timeMs - before.timeMs < FOLLOWS_WITHIN_MS;
    item.node.classList.toggle("follows", follows);
  }

  #dropOldest() {
    const { id, node, conversation } = this.#items.shift();
    this.#shown.delete(id);
    while (this.#list.firstElementChild !== node) {
      this.#list.firstElementChild.remove();
    }
    node.remove();
    this.#windowStart = this.#items[0].id;
    this.#arrange(this.#items.findIndex((later) => later.conversation === conversation));
  }

  #remember(id) {
    this.#remembered.add(id);
    if (this.#remembered.size > REMEMBERED_MAX) {
      this.#remembered.delete(this.#remembered.values().next().value);
    }
  }

  #quietly(work) {
    this.#log.setAttribute("aria-live", "off");
    work();
    // Restore the value later: screen readers read it when they process the change, after this task.
    setTimeout(() => this.#log.setAttribute("aria-live", "polite"), 500);
  }

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    // The browser also scrolls when the list grows or shrinks. Leave the end only after user input.
    if (!this.#isAtEnd || performance.now() - this.#touchedMs < TOUCH_MS) {
      this.#isAtEnd = scrollHeight - scrollTop - clientHeight < AT_END_PX;
    }
    if (this.#isAtEnd && this.#below > 0) {
      this.#below = 0;
      this.#emitBelow();
    }
  }

  #emitBelow() {
    this.dispatchEvent(new CustomEvent("newbelow", { detail: this.#below }));
  }
}

/** Returns the conversation of a message: ROOM, or the id of the other user. */
export function conversationOf({ from, to }, self) {
  return to === null ? ROOM : from.id === self.id ? to.id : from.id;
}

/** Returns the row before a message in the same conversation. */
function rowBefore({ node, conversation }) {
  let row = node.previousElementSibling;
  while (row !== null && Number(row.dataset.conversation) !== conversation) {
    row = row.previousElementSibling;
  }

  return row;
}

/** Returns the row of a message, or the first of the same day's notices directly before it. */
function firstOfDay({ node, timeMs, conversation }) {
  let first = node;
  while (conversation === ROOM && first.previousElementSibling?.dataset.day === dayKey(timeMs)) {
    first = first.previousElementSibling;
  }

  return first;
}

function messageNode(message, self) {
  const isOwn = message.from.id === self.id;
  const node = element("li", {
    className: `message${isOwn ? " own" : ""}${message.to === null ? "" : " private"}`,
    attributes: { "data-id": String(message.id) },
  });
  const head = element("div", "message-head", element("span", "from", isOwn ? "You" : nameNode(message.from.name)));
  head.append(...audience(message, self), " ", timeNode(message.timeMs));
  node.append(avatar(message.from), head, bubble(message.text));

  return node;
}

/** Returns nodes that describe the recipient in text, not only by colour. */
function audience(message, self) {
  if (message.to === null) {
    return [element("span", { className: "visually-hidden", text: " to everyone" })];
  }
  const privacy = element("span", "privacy", icon("lock"));
  if (message.to.id === self.id && message.from.id === self.id) {
    privacy.append("note to yourself");
  } else if (message.to.id === self.id) {
    privacy.append("to you only");
  } else {
    privacy.append(element("span", "", "to ", nameNode(message.to.name), message.offline ? " (offline)" : " only"));
  }

  return [" ", privacy];
}

export function bubble(text) {
  const paragraph = element("p", { className: "text", attributes: { dir: "auto" } }, ...textNodes(text));
  const node = element("div", "bubble", paragraph);
  if (text.length > FOLD_LENGTH || text.split("\n", FOLD_LINES + 1).length > FOLD_LINES) {
    paragraph.classList.add("folded");
    const toggle = button("Show all", "link fold", () => {
      const isFolded = paragraph.classList.toggle("folded");
      toggle.textContent = isFolded ? "Show all" : "Show less";
      toggle.setAttribute("aria-expanded", String(!isFolded));
    });
    toggle.setAttribute("aria-expanded", "false");
    node.append(toggle);
  }

  return node;
}
