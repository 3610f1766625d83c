// `fermata dev`: pages reload when the application changes, and show its errors.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, PATIENCE_MS } from "./support/chat.js";
import { freePort } from "./support/port.js";

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

const program = (heading) => `<?php
use Fermata\\{Response, Server};
$server = new Server('http://127.0.0.1:1');
$server->get('/', fn () => Response::html('<!doctype html><title>Page</title><body><h1>${heading}</h1></body>'));
$server->get('/throws', function () { dump(['a' => 1]); throw new RuntimeException('it went wrong'); });
$server->run();
`;

describe("development", () => {
  let folder, child, browser, page, url, log = "";

  const write = (text) => writeFileSync(join(folder, "server.php"), text);
  const heading = (text) => page.locator("h1", { hasText: text }).waitFor();

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "fermata-dev-"));
    write("<?php\nthis is no program");
    url = `http://127.0.0.1:${await freePort()}`;
    const extension = process.env.FERMATA_EXTENSION ?? join(ROOT, "build/fermata.so");
    child = spawn(join(ROOT, "build/fermata"), ["dev", "--listen", url, join(folder, "server.php")], {
      env: { ...process.env, FERMATA_EXTENSION: extension },
      stdio: ["ignore", "ignore", "pipe"],
    });
    child.stderr.on("data", (data) => { log += data; });
    while (!log.includes("nothing is served")) {
      await once(child.stderr, "data");
    }
    browser = await launch();
    page = await (await browser.newContext()).newPage();
    page.setDefaultTimeout(PATIENCE_MS);
  });
  after(async () => {
    await browser?.close();
    const ended = once(child, "exit");
    child.kill();
    assert.deepEqual(await ended, [0, null], log);
    rmSync(folder, { recursive: true });
  });

  it("explains a program that never started, and shows the page once it has", async () => {
    await page.goto(url);
    await page.locator("h1", { hasText: "syntax error" }).waitFor();
    await page.locator("pre b", { hasText: "this is no program" }).waitFor();
    write(program("First"));
    await heading("First");
  });

  it("reloads the page when the program has changed", async () => {
    write(program("Second"));
    await heading("Second");
  });

  it("shows a mistake over the page of the old program, until it is mended", async () => {
    write(program("Third").replace("$server->run();", "$server->run(]);"));
    const failure = page.locator("#fermata-failure");
    await failure.locator("b", { hasText: "Parse error" }).waitFor();
    await failure.locator("div", { hasText: "$server->run(]" }).waitFor();
    await heading("Second");
    // A page opened now shows the error, too.
    await page.reload();
    await failure.waitFor();
    write(program("Fourth"));
    await heading("Fourth");
    await failure.waitFor({ state: "detached" });
  });

  it("has a page for errors, which follows the program as well", async () => {
    await page.goto(`${url}/throws`);
    await page.locator("#fermata-error h1", { hasText: "it went wrong" }).waitFor();
    await page.locator("h2 + pre", { hasText: "'a' => 1" }).waitFor();
    write(program("Fifth").replace("throw new RuntimeException('it went wrong');", "return Response::html('<h1>Mended</h1>');"));
    await heading("Mended");
  });
});
