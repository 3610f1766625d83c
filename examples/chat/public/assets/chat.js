// The chat page. It connects the other modules and handles every event of the connection.

import * as api from "./api.js";
import { Composer } from "./composer.js";
import { Door } from "./door.js";
import { avatar, byId, nameNode } from "./dom.js";
import { Drawer } from "./drawer.js";
import { Inside } from "./inside.js";
import { Line } from "./line.js";
import { Outbox } from "./outbox.js";
import { People } from "./people.js";
import { SharedTransport } from "./shared.js";
import { SocketTransport } from "./socket.js";
import { Status } from "./status.js";
import { StreamTransport } from "./stream.js";
import { SessionChannel, sharesStream } from "./tabs.js";
import { conversationOf, ROOM, Timeline } from "./timeline.js";
import { Typing } from "./typing.js";
import { Unread } from "./unread.js";

const REASON_KEY = "fermata.reason";
const RETRY_MS = 2_000;
/** Time to wait for a missing earlier message before it is fetched. */
const HOLE_PATIENCE_MS = 700;
const SEEN_AFTER_MS = 1_000;

class Room {
  #session;
  #self;
  #timeline;
  #outbox;
  #people;
  #composer;
  #status;
  #transport;
  #line;
  #unread;
  #typing = new Typing();
  #inside = new Inside();
  /** Conversations with a divider above the messages that arrived while the tab was hidden. */
  #marked = new Set();
  #clearedKey;
  #isLoaded = false;
  #isLoading = null;
  #isCatchingUp = null;
  #isWelcomed = false;
  #seenId = 0;
  #seenTimer = 0;

  constructor(session, onSession) {
    this.#session = session;
    this.#self = session.user;
    this.#clearedKey = `fermata.cleared.${this.#self.id}`;
    this.#timeline = new Timeline({ list: byId("messages"), log: byId("log"), scroller: byId("scroller"), self: this.#self });
    this.#transport = transportOf(session, () => this.#line.retryNow());
    this.#outbox = new Outbox({
      list: byId("pending"),
      self: this.#self,
      deliver: (message) => {
        this.#inside.sent(message.key);

        return this.#transport.deliver(message);
      },
    });
    this.#people = new People(this.#self);
    this.#composer = new Composer(this.#outbox, session.limits.textBytes, (to) => this.#typing.tell(to));
    this.#status = new Status(() => this.#retryNow({ isImpatient: true }));
    this.#line = new Line((link) => this.#transport.attempt(link));
    this.#unread = new Unread(this.#self.name, () => this.#seeSoon(), () => this.#leave());
    const drawer = new Drawer();

    avatar(this.#self, byId("account-avatar"));
    byId("account-name").textContent = this.#self.name;
    this.#timeline.addEventListener("newbelow", ({ detail }) => this.#showBelow(detail));
    this.#outbox.addEventListener("sent", ({ detail }) => this.#receive(detail));
    this.#outbox.addEventListener("failed", ({ detail }) => this.#refused(detail.status));
    this.#outbox.addEventListener("change", () => this.#showEmpty());
    this.#outbox.addEventListener("taken", () => this.#timeline.scrollToEnd());
    this.#people.addEventListener("recipient", ({ detail }) => {
      this.#composer.setRecipient(detail);
      this.#show(detail);
    });
    byId("conversation-back").addEventListener("click", () => {
      this.#people.choose(null);
      this.#composer.focus();
    });
    this.#people.addEventListener("chosen", () => {
      drawer.close();
      this.#composer.focus();
    });
    this.#line.addEventListener("state", ({ detail }) => this.#connectionChanged(detail));
    this.#line.addEventListener("refused", ({ detail }) => {
      this.#status.set("refused", { text: `The server refused the connection (${detail.status}).` });
      this.#refused(detail.status);
    });
    this.#line.addEventListener("event", ({ detail }) => this.#handle(detail));

    byId("clear").addEventListener("click", () => this.#clear());
    byId("earlier").addEventListener("click", () => this.#loadEarlier());
    byId("to-end").addEventListener("click", () => {
      this.#timeline.scrollToEnd();
      this.#composer.focus();
    });
    byId("sign-out").addEventListener("click", () => this.#signOut(onSession));
    addEventListener("online", () => this.#retryNow());
    addEventListener("offline", () => this.#line.suspect());
    addEventListener("pagehide", () => this.#see(true));
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#see(true) : this.#line.retryNow()));
  }

  open() {
    byId("chat").hidden = false;
    if (matchMedia("(pointer: coarse)").matches) {
      // Do not focus the field: that would open the touch keyboard, which covers half of the page.
      byId("room-title").focus();
    } else {
      this.#composer.focus();
    }
    this.#people.choose(null);
    this.#people.search();
    this.#outbox.restore();
    this.#line.open();
  }

  #connectionChanged({ state, retryAtMs }) {
    this.#status.set(state, { retryAtMs });
    if (state === "live") {
      this.#outbox.retryNow();
    }
  }

  #handle({ name, data }) {
    const detail = parsed(data);
    if (detail === null) {
      return;
    }
    if (name === "message") {
      this.#inside.arrived(detail.key);
      this.#receive(detail);
    } else if (name === "typing") {
      if (detail.from.id !== this.#self.id) {
        this.#typing.heard(detail.from, conversationOf(detail, this.#self));
      }
    } else if (name === "hello") {
      if (detail.server) {
        this.#inside.connected(detail.server);
      }
      this.#people.reset(detail.online, detail.onlineCount);
      this.#load();
    } else if (name === "join" || name === "leave") {
      this.#presenceChanged(name, { id: Number(detail.user), name: detail.info?.name ?? "" });
    } else if (name === "gap") {
      // The channel's log no longer contains the missed messages; fetch them from the database.
      this.#catchUp();
    } else if (name === "signout" && detail.session === this.#session.session) {
      leave("You signed out in another tab.");
    }
  }

  #receive(message) {
    if (message.from.id === this.#self.id) {
      this.#outbox.confirm(message.key);
    }
    if (!this.#timeline.add(message)) {
      return;
    }
    this.#people.meet(message.from);
    this.#people.meet(message.to);
    this.#showEmpty();
    if (this.#isLoaded && this.#timeline.windowStart > 1) {
      // The timeline may have dropped its oldest messages.
      this.#showEarlier(true);
    }
    const conversation = conversationOf(message, this.#self);
    this.#typing.ended(message.from, conversation);
    if (message.from.id !== this.#self.id) {
      this.#unread.add();
      if (conversation !== this.#timeline.conversation) {
        this.#people.addUnread(conversation);
      }
      if (this.#isLoaded && !this.#unread.isActive && !this.#marked.has(conversation)) {
        this.#marked.add(conversation);
        this.#timeline.addDivider("New since you left", message.id, conversation);
      }
    }
    if (message.to?.id === this.#self.id) {
      this.#seeSoon();
    }
    if (this.#isLoaded && message.previous !== undefined && !this.#timeline.knows(message.previous)) {
      setTimeout(() => {
        if (!this.#timeline.knows(message.previous)) {
          this.#catchUp(message.previous - 1);
        }
      }, HOLE_PATIENCE_MS);
    }
  }

  /** Shows only the conversation of the selected recipient. */
  #show({ id, toName, isSelf }) {
    byId("conversation-back").hidden = id === ROOM;
    byId("conversation-name").textContent = toName === null ? "Everyone" : isSelf ? "Notes to yourself" : toName;
    byId("conversation").classList.toggle("is-private", id !== ROOM);
    if (id !== this.#timeline.conversation) {
      this.#timeline.show(id);
      this.#typing.show(id);
      this.#showEmpty();
      this.#seeSoon();
    }
  }

  /** Called when this tab is hidden. */
  #leave() {
    this.#marked.clear();
    this.#timeline.removeDividers();
  }

  #presenceChanged(name, person) {
    if (person.id === this.#self.id) {
      return;
    }
    this.#inside.changed();
    if (name === "join") {
      this.#people.joined(person);
    } else {
      this.#people.left(person);
    }
    if (this.#isLoaded) {
      this.#timeline.addPresence(person.name, name === "join" ? "joined" : "left");
      this.#showEmpty();
    }
  }

  /** Loads the first messages, after the stream is connected, so that no message is missed in between. */
  #load() {
    if (this.#isLoaded) {
      return;
    }
    this.#isLoading ??= this.#loadFirst().catch(() => setTimeout(() => {
      this.#isLoading = null;
      this.#load();
    }, RETRY_MS));
  }

  async #loadFirst() {
    const { messages, missed, more, seenId } = await api.get("/messages");
    const clearedId = Number(sessionStorage.getItem(this.#clearedKey) ?? 0);
    const start = more ? messages[0].id : 0;
    const history = [...missed, ...messages].filter(({ id }) => id > clearedId);
    this.#timeline.addHistory(history, Math.max(start, clearedId > 0 ? clearedId + 1 : 0));
    history.forEach((message) => {
      this.#people.meet(message.from);
      this.#people.meet(message.to);
      this.#outbox.confirm(message.from.id === this.#self.id ? message.key : "");
    });
    const unseen = history.filter(({ id, from }) => id > seenId && from.id !== this.#self.id);
    for (const message of unseen) {
      const conversation = conversationOf(message, this.#self);
      // For a new user, older messages to everyone do not count as unread.
      if ((seenId > 0 || conversation !== ROOM) && !this.#marked.has(conversation)) {
        this.#marked.add(conversation);
        this.#timeline.addDivider("While you were away", message.id, conversation);
      }
      if (conversation !== this.#timeline.conversation) {
        this.#people.addUnread(conversation);
      }
    }
    this.#seenId = seenId;
    this.#isLoaded = true;
    this.#showEarlier(more || this.#timeline.windowStart > 0);
    this.#welcome();
    this.#showEmpty();
    this.#timeline.scrollToEnd();
    this.#seeSoon();
  }

  #welcome() {
    if (this.#isWelcomed) {
      return;
    }
    this.#isWelcomed = true;
    const names = this.#people.onlineNames;
    this.#timeline.addNotice(["Welcome, ", nameNode(this.#self.name), "."]);
    if (names.length > 0) {
      const listed = names.slice(0, 20).flatMap((name, index) => [index > 0 ? ", " : "", nameNode(name)]);
      this.#timeline.addNotice(["Now online: ", ...listed, names.length > 20 ? ` and ${names.length - 20} more` : ""]);
    }
  }

  /** Fetches all messages after the id. The timeline ignores duplicates. */
  #catchUp(afterId = Infinity) {
    if (this.#isLoaded) {
      this.#isCatchingUp ??= this.#catchUpFrom(Math.min(afterId, this.#timeline.resumeId))
        .catch(() => { setTimeout(() => this.#catchUp(afterId), RETRY_MS); })
        .finally(() => { this.#isCatchingUp = null; });
    }
  }

  async #catchUpFrom(afterId) {
    for (let id = afterId, more = true; more;) {
      const page = await api.get(`/messages?after=${id}`);
      page.messages.forEach((message) => this.#receive(message));
      id = page.messages.at(-1)?.id ?? id;
      more = page.more;
    }
  }

  async #loadEarlier() {
    const button = byId("earlier");
    button.disabled = true;
    try {
      const { messages, more } = await api.get(`/messages?before=${Math.max(1, this.#timeline.windowStart)}`);
      sessionStorage.removeItem(this.#clearedKey);
      this.#timeline.addHistory(messages, more ? messages[0].id : 0);
      this.#showEarlier(more);
      this.#showEmpty();
      byId("scroller").focus();
    } catch (error) {
      this.#refused(error.status);
    } finally {
      button.disabled = false;
    }
  }

  #clear() {
    sessionStorage.setItem(this.#clearedKey, String(this.#timeline.newestId));
    this.#timeline.clear();
    this.#showEarlier(this.#timeline.windowStart > 1);
    this.#showEmpty();
    say("Messages cleared in this tab.");
    this.#composer.focus();
  }

  async #signOut(onSession) {
    try {
      await api.remove("/session");
    } catch (error) {
      if (error.isTemporary) {
        say(error.message);
        this.#status.set("lost", { text: "Signing out needs the server. Please try again when the connection is back." });
        return;
      }
    }
    onSession.announce(null);
    leave("");
  }

  #retryNow({ isImpatient = false } = {}) {
    this.#line.retryNow({ isImpatient });
    this.#outbox.retryNow();
  }

  #refused(status) {
    if (status === 401 || status === 403) {
      leave(status === 401 ? "You were signed out. Please sign in again." : "");
    }
  }

  /** Reports the newest shown message to the server, after a delay and only while the tab is visible. */
  #seeSoon() {
    this.#seenTimer ||= setTimeout(() => {
      this.#seenTimer = 0;
      this.#see(false);
    }, SEEN_AFTER_MS);
  }

  #see(isLeaving) {
    const id = this.#timeline.newestId;
    if (!this.#isLoaded || id <= this.#seenId || !(isLeaving || this.#unread.isActive)) {
      return;
    }
    const before = this.#seenId;
    this.#seenId = id;
    api.post("/seen", { id }, { keepalive: isLeaving }).catch(() => { this.#seenId = before; });
  }

  #showBelow(count) {
    byId("to-end").hidden = count === 0;
    byId("to-end-text").textContent = count === 1 ? "1 new message" : `${count} new messages`;
  }

  #showEarlier(isShown) {
    byId("earlier").hidden = !isShown;
  }

  #showEmpty() {
    byId("empty").hidden = !this.#isLoaded || !this.#timeline.isEmpty || !this.#outbox.isEmpty;
  }
}

/** Selects the transport: server-sent events, or WebSocket with `?transport=websocket` in the page's URL. */
function transportOf(session, onReturn) {
  const isSocket = new URLSearchParams(location.search).get("transport") === "websocket";
  byId("status").title = isSocket ? "Connected by WebSocket" : "Connected by server-sent events";

  if (isSocket) {
    return new SocketTransport(session);
  }

  return sharesStream() ? new SharedTransport(session, onReturn) : new StreamTransport(session);
}

/** Reloads the page, so that no data of the previous user remains. */
function leave(reason) {
  if (reason !== "") {
    sessionStorage.setItem(REASON_KEY, reason);
  }
  location.reload();
}

function say(text) {
  byId("announcer").textContent = text;
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}

async function start() {
  let current;
  const sessions = new SessionChannel((sessionId) => {
    if (sessionId !== current) {
      location.reload();
    }
  });
  const enter = (session) => {
    current = session.session;
    api.setCsrfToken(session.csrfToken);
    new Room(session, sessions).open();
  };
  let session;
  while (session === undefined) {
    try {
      session = await api.get("/session");
    } catch {
      say("The server cannot be reached. Trying again.");
      await new Promise((resolve) => { setTimeout(resolve, RETRY_MS); });
    }
  }
  current = session.session;
  if (session.user !== null) {
    enter(session);
    return;
  }
  const reason = sessionStorage.getItem(REASON_KEY) ?? "";
  sessionStorage.removeItem(REASON_KEY);
  new Door((entered) => {
    enter(entered);
    sessions.announce(entered.session);
  }).show(session.limits, reason);
}

start();
