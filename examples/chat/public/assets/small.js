// Code shared by the Echo and Mercure pages: session, list of messages, and the form for new messages.

import { get, post, setCsrfToken } from "./api.js";

const MESSAGES_MAX = 200;
const messages = document.getElementById("messages");
const status = document.getElementById("status");
const composer = document.getElementById("composer");
/** Id up to which all messages were fetched; null: none were fetched yet. */
let completeId = null;

/** Loads the session. Resolves to the signed-in user; null: not signed in, which the page shows. */
export async function start() {
  const { user, session, csrfToken } = await get("/session");
  if (user === null) {
    signedOut();
    return null;
  }
  setCsrfToken(csrfToken);
  composer.hidden = false;
  composer.addEventListener("submit", send);

  return { user, session };
}

/** @param {"live" | "waiting" | "problem"} state */
export function show(state, text) {
  status.dataset.state = state;
  status.textContent = text;
}

export function signedOut() {
  composer.hidden = true;
  show("signed-out", "You are signed out. ");
  const link = document.createElement("a");
  link.href = "/";
  link.textContent = "Sign in at the chat";
  status.append(link);
}

/** Inserts a message in order of ids. Duplicates are ignored. */
export function add({ id, from, to, text }) {
  const shown = [...messages.children];
  const next = shown.find((item) => Number(item.dataset.id) >= id);
  if (next !== undefined && Number(next.dataset.id) === id) {
    return;
  }
  const item = document.createElement("li");
  item.dataset.id = id;
  item.className = to === null ? "public" : "private";
  item.append(part("from", to === null ? from.name : `${from.name} to ${to.name}`), part("text", text));
  messages.insertBefore(item, next ?? null);
  if (messages.children.length > MESSAGES_MAX) {
    messages.firstElementChild.remove();
  }
}

/** Fetches missed messages. Call it whenever a subscription starts. */
export async function catchUp() {
  // Start at completeId, not at the last shown message: messages of the new subscription are newer than the missed ones.
  let page;
  do {
    page = await get(completeId === null ? "/messages" : `/messages?after=${completeId}`);
    page.messages.forEach(add);
    const isFirst = completeId === null;
    completeId = page.messages.at(-1)?.id ?? completeId ?? 0;
    page.more &&= !isFirst;
  } while (page.more);
}

async function send(event) {
  event.preventDefault();
  const field = document.getElementById("text");
  const text = field.value;
  field.value = "";
  try {
    const { message } = await post("/messages", { to: "all", text, key: crypto.randomUUID() });
    add(message);
  } catch (problem) {
    field.value ||= text;
    show("problem", problem.message);
  }
}

function part(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;

  return element;
}
