// `fermata edge` in front of a server, over https with its own certificate.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./port.js";
import { COMMAND, Server } from "./server.js";

export class Edge {
  #folder = mkdtempSync(join(tmpdir(), "fermata-edge-"));
  #server;
  #prometheus;

  /** Starts the edge before the server of that port. */
  async start(port) {
    const certificate = ["-keyout", join(this.#folder, "default.key"), "-out", join(this.#folder, "default.crt")];
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"];
    execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", ...certificate, ...subject], {
      stdio: "ignore",
    });
    this.#prometheus = await freePort();
    this.#server = new Server({}, [
      COMMAND, "edge", "--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0", "--tls-certificates", this.#folder,
      "--control", "", "--prometheus", `127.0.0.1:${this.#prometheus}`, "--route", `* 127.0.0.1:${port}`,
    ]);
    await this.#server.start();
  }

  /** The port of its https listener. */
  get port() {
    return Number(/https:\/\/127\.0\.0\.1:(\d+)/.exec(this.#server.log)[1]);
  }

  get log() {
    return this.#server.log;
  }

  /** Returns the sum of a metric over all labels. */
  async counted(name) {
    const text = await (await fetch(`http://127.0.0.1:${this.#prometheus}/metrics`)).text();
    const found = [...text.matchAll(new RegExp(`^${name}(?:\\{.*?\\})? (\\d+)$`, "gm"))];
    if (found.length === 0) {
      throw new Error(`the edge counts no ${name}:\n${text}`);
    }

    return found.reduce((sum, [, value]) => sum + Number(value), 0);
  }

  /** Stops it; resolves to the exit code. */
  async stop() {
    const code = await this.#server.stop();
    await this.#server.remove();
    rmSync(this.#folder, { recursive: true });

    return code;
  }
}
