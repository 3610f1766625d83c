// An unmodified application from Debian's packages under `fermata serve FOLDER`, with a browser page.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, PATIENCE_MS, until } from "./chat.js";
import { freePort } from "./port.js";

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const NOT_TO_BE_HAD = 3;
const FOLDERS = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];

/** An image of one pixel. */
export const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

function isInstalled(program) {
  return FOLDERS.some((path) => existsSync(path) && readdirSync(path).some((name) => name.startsWith(program)));
}

export class Application {
  #made;
  #child;
  #browser;
  #log = "";

  /**
   * @param {string[]} programs names of required programs besides PHP-FPM
   * @param {string} [switchedBy] environment variable that must be 1; otherwise the test is skipped
   */
  constructor(name, programs = [], switchedBy) {
    if (switchedBy !== undefined && process.env[switchedBy] !== "1") {
      this.skip = `${name} is tested where ${switchedBy}=1 is set`;
      console.log(`not run: ${this.skip}`);
      return;
    }
    this.place = mkdtempSync(join(tmpdir(), "fermata-application-"));
    this.folder = join(this.place, "site");
    this.#made = spawnSync(join(ROOT, "scripts/applications.sh"), [name, this.folder], { encoding: "utf8" });
    const missing = ["php-fpm", ...programs].find((program) => !isInstalled(program));
    /** Reason why it cannot run here, if any. */
    this.skip = this.#made.status === NOT_TO_BE_HAD ? this.#made.stderr : missing !== undefined && `${missing} is not installed`;
    if (this.skip) {
      console.log(`not run: ${this.skip}`);
      rmSync(this.place, { recursive: true });
    }
  }

  async start() {
    assert.equal(this.#made.status, 0, this.#made.stderr);
    const port = await freePort();
    this.url = `http://127.0.0.1:${port}`;
    const user = process.getuid() === 0 ? ["--user", "root"] : [];
    this.#child = spawn(join(ROOT, "build/fermata"), ["serve", "--listen", this.url, ...user, this.folder], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.on("data", (data) => { this.#log += data; });
    }
    await until("the server answers", () => fetch(this.url, { redirect: "manual" }).then(() => true, () => false));
    this.#browser = await launch();
    const context = await this.#browser.newContext();
    // An installation takes as long as many pages.
    context.setDefaultTimeout(4 * PATIENCE_MS);
    this.page = await context.newPage();
  }

  /** @param {() => Promise<void>} [endOthers] stops other processes that write to the folder `place` */
  async stop(endOthers) {
    try {
      await this.#browser?.close();
      if (this.#child) {
        if (this.#child.exitCode === null && this.#child.signalCode === null) {
          const ended = once(this.#child, "exit");
          this.#child.kill();
          await ended;
        }
        assert.deepEqual([this.#child.exitCode, this.#child.signalCode], [0, null], this.#log);
      }
    } finally {
      await endOthers?.();
      rmSync(this.place, { recursive: true, maxRetries: 5 });
    }
  }

  open(path) {
    return this.page.goto(this.url + path);
  }
}
