// The chat on three servers with a log between them and nginx in front: `fermata cluster up`.

import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./port.js";
import { COMMAND, Server } from "./server.js";

const CHAT = resolve(dirname(fileURLToPath(import.meta.url)), "../../../examples/chat/server.php");
const START_TIMEOUT_MS = 20_000;
const NODES = [1, 2, 3];
const FOLDERS = ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"];
const PROGRAMS = { nats: "nats-server", redis: "redis-server" };

/** Returns the missing program, if any. */
export function missing(log) {
  return ["nginx", PROGRAMS[log]].find((program) => !FOLDERS.some((folder) => existsSync(`${folder}/${program}`)));
}

export class Cluster extends Server {
  /** @param {"nats" | "redis"} log */
  static async of(log, environment = {}) {
    const proxy = await freePort();
    const ports = await Promise.all(NODES.map(freePort));
    const options = ["--log", log, "--workers", "2", "--proxy", proxy, "--ports", ports.join(",")].map(String);
    const cluster = new Cluster(
      { FERMATA_CLUSTER_LEASE_MS: "3000", ...environment },
      [COMMAND, "cluster", "up", ...options, CHAT],
      "pipe",
    );
    cluster.proxyPort = proxy;
    cluster.nodePorts = ports;

    return cluster;
  }

  async start() {
    await super.start();
    await Promise.all(NODES.map((node) => this.connected(node)));
    this.port = this.proxyPort;
  }

  /** Waits until a server and the log are connected. */
  connected(node, from = 0) {
    return this.waitForLine(new RegExp(`^${node} \\| .*connected to the log`), START_TIMEOUT_MS, from);
  }

  /** Returns the server that a process belongs to. */
  nodeOf(pid) {
    const line = this.lines.find((text) => text.includes(` started pid=${pid}`));

    return Number(/^(\d) \| /.exec(line)?.[1]);
  }
}
