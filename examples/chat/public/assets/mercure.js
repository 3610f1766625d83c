// The chat over Mercure: private updates of the topics "all" and "user.ID", which map to the server's channels chat.private-….

import { post } from "./api.js";
import { add, catchUp, show, signedOut, start } from "./small.js";

const RETRY_MS = 2_000;
const visit = await start();

/** Requests a cookie for the hub and subscribes. EventSource reconnects automatically, but not when the cookie's token expires. */
async function listen() {
  let topics;
  try {
    ({ topics } = await post("/mercure", {}));
  } catch (problem) {
    if (problem.status === 401) {
      signedOut();
    } else {
      setTimeout(listen, RETRY_MS);
    }
    return;
  }
  const url = new URL("/.well-known/mercure", location.href);
  topics.forEach((topic) => url.searchParams.append("topic", topic));
  const source = new EventSource(url);
  source.addEventListener("message", ({ data }) => add(JSON.parse(data)));
  source.addEventListener("signout", ({ data }) => {
    if (JSON.parse(data).session === visit.session) {
      source.close();
      signedOut();
    }
  });
  source.addEventListener("open", async () => {
    await catchUp();
    show("live", "Live by Mercure.");
  });
  source.addEventListener("error", () => {
    show("waiting", "Connecting again …");
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(listen, RETRY_MS);
    }
  });
}

if (visit !== null) {
  await listen();
}
