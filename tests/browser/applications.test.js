// DokuWiki under `fermata serve FOLDER`, unchanged: installed, signed in, edited, searched, with an upload.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, PATIENCE_MS, until } from "./support/chat.js";

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const NOT_TO_BE_HAD = 3;

/** A picture of one pixel. */
const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

const folder = mkdtempSync(join(tmpdir(), "fermata-application-"));
const made = spawnSync(join(ROOT, "scripts/applications.sh"), ["dokuwiki", join(folder, "wiki")], { encoding: "utf8" });
const hasFpm = ["/usr/sbin", "/usr/local/sbin"].some((path) => existsSync(path)
  && readdirSync(path).some((name) => name.startsWith("php-fpm")));
const skip = made.status === NOT_TO_BE_HAD ? made.stderr : !hasFpm && "php-fpm is not installed";
if (skip) {
  console.log(`not run: ${skip}`);
  rmSync(folder, { recursive: true });
}

describe("DokuWiki", { skip }, () => {
  let child, browser, page, url, log = "";

  const open = (path) => page.goto(url + path);

  before(async () => {
    assert.equal(made.status, 0, made.stderr);
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const user = process.getuid() === 0 ? ["--user", "root"] : [];
    child = spawn(join(ROOT, "build/fermata"), ["serve", "--listen", url, ...user, join(folder, "wiki")], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data) => { log += data; });
    }
    await until("the server answers", () => fetch(url).then(() => true, () => false));
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

  it("is installed", async () => {
    await open("/install.php");
    const values = { title: "Notes", superuser: "ada", fullname: "Ada", email: "ada@example.com", password: "secret-123", confirm: "secret-123" };
    for (const [name, value] of Object.entries(values)) {
      await page.locator(`#${name}`).fill(value);
    }
    await page.locator("#pop").uncheck();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("The configuration was finished successfully").waitFor();
  });

  it("signs in", async () => {
    await open("/doku.php?do=login");
    await page.locator("input[name=u]").fill("ada");
    await page.locator("input[name=p]").fill("secret-123");
    await page.getByRole("button", { name: "Log In" }).click();
    await page.getByText("Logged in as").waitFor();
  });

  it("keeps what is edited, and finds it", async () => {
    await open("/doku.php?id=herons&do=edit");
    await page.locator("#wiki__text").fill("====== Herons ======\n\nThey wait in **shallow** water.");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator("strong", { hasText: "shallow" }).waitFor();
    // What follows the program's name is the page, too.
    await open("/doku.php/herons");
    await until("the page is found", async () => {
      // A page is indexed by a request of its own, which the page makes.
      await open("/doku.php?id=start&do=search&q=shallow");
      return await page.locator(".search_fullpage_result", { hasText: "shallow" }).count() > 0;
    });
  });

  it("takes uploads", async () => {
    await open("/lib/exe/mediamanager.php?ns=");
    await page.locator("input[type=file]").setInputFiles({ name: "heron.png", mimeType: "image/png", buffer: PICTURE });
    await page.getByRole("button", { name: "Upload" }).click();
    await until("the picture is there", async () => {
      const response = await page.request.get(`${url}/lib/exe/fetch.php?media=heron.png`);
      return response.status() === 200 && (await response.body()).equals(PICTURE);
    });
  });

  it("keeps its data to itself, and its files are sent", async () => {
    for (const path of ["/data/pages/herons.txt", "/%64ata/pages/herons.txt", "/conf/users.auth.php", "/inc/init.php"]) {
      assert.equal((await fetch(url + path)).status, 404, path);
    }
    const icon = await fetch(`${url}/lib/images/interwiki.svg`);
    assert.equal(icon.headers.get("content-type"), "image/svg+xml");
    assert.ok(icon.headers.get("etag"));
  });
});
