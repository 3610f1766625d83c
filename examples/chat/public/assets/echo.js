// The chat over Laravel Echo: subscribes to the server's channels chat.private-all and chat.private-user.ID.

import { add, catchUp, show, signedOut, start } from "./small.js";

const { default: Echo } = globalThis.Echo;
const visit = await start();
if (visit !== null) {
  const isSecure = location.protocol === "https:";
  const port = Number(location.port) || (isSecure ? 443 : 80);
  const echo = new Echo({
    broadcaster: "reverb",
    key: "chat",
    wsHost: location.hostname,
    wsPort: port,
    wssPort: port,
    forceTLS: isSecure,
    enabledTransports: ["ws", "wss"],
    authEndpoint: "/broadcasting/auth",
  });
  let subscribed = 0;
  const names = ["all", `user.${visit.user.id}`];
  for (const name of names) {
    echo.private(name)
      .listen(".message", add)
      .listen(".signout", ({ session }) => {
        if (session === visit.session) {
          echo.disconnect();
          signedOut();
        }
      })
      .subscribed(async () => {
        subscribed += 1;
        if (subscribed === names.length) {
          await catchUp();
          show("live", "Live by Laravel Echo.");
        }
      })
      .error(() => show("problem", "The server has refused this page."));
  }
  echo.connector.pusher.connection.bind("state_change", ({ previous }) => {
    if (previous === "connected") {
      subscribed = 0;
      show("waiting", "Connecting again …");
    }
  });
}
