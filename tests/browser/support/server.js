// The chat's own server, or an example's, in a child process: free port, temporary folder, and its
// log for the report.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
/** The command, which needs no PHP. */
export const COMMAND = "build/fermata";
const START_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 60_000;
const LOG_LINES_MAX = 400;

/** Servers that a failed test left running; killed when the process exits. */
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

export class Server {
  #child;
  #directory;
  #environment;
  #exited;
  #program;
  #stdin;
  #lines = [];
  #waiting = new Set();

  /**
   * @param {string[] | null} program runs instead of the chat: a PHP script or COMMAND, as an absolute path or a path in the
   *   repository, and its arguments
   * @param {"ignore" | "pipe"} stdin "pipe" if the test types lines
   */
  constructor(environment = {}, program = null, stdin = "ignore") {
    this.#program = program;
    this.#stdin = stdin;
    this.#directory = mkdtempSync(join(tmpdir(), "fermata-chat-"));
    this.#environment = environment;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  get database() {
    return join(this.#directory, "chat.sqlite");
  }

  get log() {
    return this.#lines.join("\n");
  }

  /** Sets an environment variable, before it starts. */
  set(name, value) {
    this.#environment = { ...this.#environment, [name]: value };
  }

  /** Process ids of the running workers, the oldest first. */
  get workers() {
    return this.#lines
      .map((line) => /worker (\d+) started.*?pid=(\d+)/.exec(line))
      .filter((match) => match !== null)
      .map(([, , pid]) => Number(pid))
      .filter(isAlive);
  }

  async start() {
    const extension = process.env.FERMATA_EXTENSION ?? join(ROOT, "build/fermata.so");
    // FERMATA_CHAT_COMMAND tests the page against another server: a command line without quotes.
    const [script, ...rest] = this.#program ?? ["examples/chat/server.php"];
    const chat = this.#program === null ? process.env.FERMATA_CHAT_COMMAND?.split(" ") : undefined;
    // Everything else is a PHP script, whatever its name: artisan has no extension.
    const php = script === COMMAND ? [] : ["php", "-d", `extension=${extension}`];
    const [command, ...args] = chat ?? [...php, resolve(ROOT, script), ...rest];
    const from = this.#lines.length;
    this.#child = spawn(command, args, {
      env: { ...process.env, PORT: "0", FERMATA_WORKERS: "2", CHAT_DB: this.database, APP_VAR: this.#directory, ...this.#environment },
      stdio: [this.#stdin, "ignore", "pipe"],
    });
    running.add(this.#child);
    this.#exited = new Promise((resolve) => {
      this.#child.once("exit", (code, signal) => {
        running.delete(this.#child);
        this.#line(`(server ended: ${signal ?? code})`);
        resolve(code);
      });
    });
    let unfinished = "";
    this.#child.stderr.setEncoding("utf8").on("data", (text) => {
      const lines = (unfinished + text).split("\n");
      unfinished = lines.pop();
      lines.forEach((line) => this.#line(line));
    });
    const match = await this.waitForLine(/listening on https?:\/\/127\.0\.0\.1:(\d+)|server ended/, START_TIMEOUT_MS, from);
    if (match[1] === undefined) {
      throw new Error(`the server did not start:\n${this.log}`);
    }
    this.port = Number(match[1]);
  }

  /** Stops it with a signal; resolves to the exit code. */
  async stop() {
    if (!running.has(this.#child)) {
      return this.#exited;
    }
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    const code = await this.#exited;
    clearTimeout(timer);

    return code;
  }

  async remove() {
    await this.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Resolves to the match of the first matching line, from line number `from` on. */
  waitForLine(pattern, timeoutMs, from = 0) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`no log line matches ${pattern} after ${timeoutMs} ms:\n${this.log}`));
      }, timeoutMs);
      const look = () => {
        const match = this.#lines.slice(from).map((line) => pattern.exec(line)).find((found) => found !== null);
        if (match !== undefined) {
          clearTimeout(timer);
          this.#waiting.delete(look);
          resolve(match);
        }
      };
      this.#waiting.add(look);
      look();
    });
  }

  /** Types a line; returns the number of the next log line. */
  enter(text) {
    this.#child.stdin.write(`${text}\n`);

    return this.lineCount;
  }

  get lines() {
    return this.#lines;
  }

  get lineCount() {
    return this.#lines.length;
  }

  #line(line) {
    if (this.#lines.length < LOG_LINES_MAX) {
      this.#lines.push(line);
    }
    this.#waiting.forEach((look) => look());
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);

    return true;
  } catch {
    return false;
  }
}
