// The list of messages, in the order of their ids: the same in every tab, whatever order they arrive in.

import { avatar, button, element, icon, nameNode } from "./dom.js";
import { textNodes } from "./text.js";
import { dayKey, dayName, timeNode } from "./time.js";

/** More would make the page slow; the oldest leave it and come back by "Show earlier messages". */
const SHOWN_MAX = 3_000;
/** People may come and go for days without a word; then the oldest of these lines leave the page. */
const NOTICES_MAX = 500;
/** Ids remembered against doubles, also after they have left the page. */
const REMEMBERED_MAX = 20_000;
/** A sender's next message so soon needs no second headline. */
const FOLLOWS_WITHIN_MS = 5 * 60_000;
/** Two workers may publish in another order than they stored; they are never this far apart. */
const DISORDER_MAX_MS = 10_000;
const FOLD_LENGTH = 1_500;
const FOLD_LINES = 14;
const AT_END_PX = 48;
/** Scrolling goes on for a while after the wheel or the finger has stopped. */
const TOUCH_MS = 1_000;
/** Joins, or leaves, within this time share a line. */
const PRESENCE_WITHIN_MS = 60_000;
const PRESENCE_NAMES_MAX = 3;

/** The conversation of all; one of two people has the id of the other one. */
export const ROOM = 0;

/** All messages are here, and those of one conversation are shown. Events: "newbelow" when messages arrived out of sight or the end is in sight again (detail: their number). */
export class Timeline extends EventTarget {
  #list;
  #log;
  #scroller;
  #self;
  #conversation = ROOM;
  /** The last line of people who came or went: {node, what, names, sinceMs}. */
  #presence = null;
  /** Sorted by id: {id, timeMs, conversation, message, node, dayNode}. */
  #items = [];
  #shown = new Map();
  #remembered = new Set();
  /** Messages with smaller ids have not been asked for. */
  #windowStart = 0;
  #isAtEnd = true;
  /** When somebody last scrolled by wheel, finger, key or scroll bar. */
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

  /** Whether the conversation that is shown has no messages. */
  get isEmpty() {
    return !this.#items.some(({ conversation }) => conversation === this.#conversation);
  }

  get conversation() {
    return this.#conversation;
  }

  /** @param {number} conversation ROOM, or the id of the other person */
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

  /** Whether the message is here, or before everything this page asked for. */
  knows(id) {
    return id < this.#windowStart || id === 0 || this.#remembered.has(id);
  }

  /** The id after which messages have to be asked for when some may be missing. */
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

  /** Shows a message that has just arrived, unless it is here already. */
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
    // More than one is due after somebody has read above for a long time.
    while (this.#items.length > SHOWN_MAX && this.#isAtEnd) {
      this.#dropOldest();
    }

    return true;
  }

  /** Shows older messages without moving what is in sight and without having them read aloud. */
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

  /** A line of its own, such as "Mary joined". */
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

  /** "Mary joined"; those who do the same soon after share the line. */
  addPresence(name, what) {
    const now = Date.now();
    if (this.#presence?.what !== what || this.#presence.node !== this.#list.lastElementChild
        || now - this.#presence.sinceMs > PRESENCE_WITHIN_MS) {
      this.#presence = { what, names: [name], sinceMs: now, node: this.addNotice([nameNode(name), ` ${what}`], now) };
      return;
    }
    const { node, names } = this.#presence;
    // The last to come stands last, and once.
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

  /** Marks where the messages of a conversation begin that nobody has seen yet. */
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

  /** Says which conversation a row belongs to, and shows it if that is shown. */
  #place(node, conversation) {
    node.dataset.conversation = String(conversation);
    node.hidden = conversation !== this.#conversation;
  }

  /** Decides, from its neighbour before it, whether a message opens a day and whether it needs a headline. */
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
    // Screen readers look at the value when the change reaches them, which is after this turn.
    setTimeout(() => this.#log.setAttribute("aria-live", "polite"), 500);
  }

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    // A scroll event may report what the browser did because the list grew or shrank. Only people leave the end.
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

/** Whose conversation with the user a message belongs to. */
export function conversationOf({ from, to }, self) {
  return to === null ? ROOM : from.id === self.id ? to.id : from.id;
}

/** The row before a message's in its conversation. */
function rowBefore({ node, conversation }) {
  let row = node.previousElementSibling;
  while (row !== null && Number(row.dataset.conversation) !== conversation) {
    row = row.previousElementSibling;
  }

  return row;
}

/** The message's row, or the first of the notices of the same day right before it. */
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

/** The audience, in words as well as by colour. */
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
