// A TCP relay between browser and server. Its port stays open while servers restart, and it can
// simulate network faults, such as an open but silent connection.

import { connect, createServer } from "node:net";

/**
 * A closed sending side still receives, as over a direct connection. Otherwise the first close cuts
 * off bytes in the other direction, and their sender sees a reset instead of the response.
 */
const HALF_OPEN = { allowHalfOpen: true };

export class Proxy {
  #server;
  #pairs = new Set();
  #isStalled = false;
  #isDown = false;

  /** @param {() => number} target returns the server's current port */
  constructor(target) {
    this.#server = createServer(HALF_OPEN, (client) => this.#relay(client, target()));
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  start() {
    return new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  /** Closes every connection, and refuses new ones until `restore`. */
  down() {
    this.#isDown = true;
    this.#cut();
  }

  /** Forwards no more bytes, and closes nothing: a lost Wi-Fi connection. */
  stall() {
    this.#isStalled = true;
    this.#pairs.forEach(([client, server]) => {
      client.pause();
      server.pause();
    });
  }

  restore() {
    this.#isDown = false;
    if (this.#isStalled) {
      this.#isStalled = false;
      // After such a loss the old connections stay closed.
      this.#cut();
    }
  }

  stop() {
    this.#cut();

    return new Promise((resolve) => this.#server.close(resolve));
  }

  #relay(client, port) {
    if (this.#isDown) {
      client.destroy();
      return;
    }
    const server = connect({ port, host: "127.0.0.1", ...HALF_OPEN });
    const pair = [client, server];
    this.#pairs.add(pair);
    for (const [from, to] of [[client, server], [server, client]]) {
      from.setNoDelay(true);
      from.on("data", (bytes) => {
        if (!to.write(bytes)) {
          from.pause();
          to.once("drain", () => this.#isStalled || from.resume());
        }
      });
      from.on("end", () => to.end());
      from.on("error", () => to.destroy());
      from.on("close", (hasFailed) => {
        if (hasFailed || !from.readableEnded) {
          to.destroy();
        }
        if (pair.every((socket) => socket.destroyed)) {
          this.#pairs.delete(pair);
        }
      });
    }
    if (this.#isStalled) {
      client.pause();
      server.pause();
    }
  }

  #cut() {
    this.#pairs.forEach((pair) => pair.forEach((socket) => socket.destroy()));
    this.#pairs.clear();
  }
}
