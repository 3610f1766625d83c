// MediaWiki with SQLite under `fermata serve FOLDER`, unmodified: sign-in, edit, search and upload.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Application, PICTURE } from "./support/application.js";
import { until } from "./support/chat.js";

const PASSWORD = "a secret-123 of herons";

const wiki = new Application("mediawiki", [], "FERMATA_TEST_MEDIAWIKI");

describe("MediaWiki", { skip: wiki.skip }, () => {
  let page, url;

  const open = (path) => wiki.open(path);

  before(async () => {
    // The pages of its installer set nothing else.
    const data = join(wiki.place, "data");
    mkdirSync(data);
    const installed = spawnSync("php", ["maintenance/install.php", "--dbtype=sqlite", `--dbpath=${data}`, "--scriptpath=", "--server=http://127.0.0.1",
      `--pass=${PASSWORD}`, "Notes", "ada"], { cwd: wiki.folder, encoding: "utf8" });
    assert.equal(installed.status, 0, installed.stdout + installed.stderr);
    // The host is known at run time. Addresses without index.php need the rewrites of its manual.
    appendFileSync(join(wiki.folder, "LocalSettings.php"), `
      $wgServer = 'http://' . ($_SERVER['HTTP_HOST'] ?? '127.0.0.1');
      $wgArticlePath = '/wiki/$1';
      $wgEnableUploads = true;
    `);
    await wiki.start();
    ({ page, url } = wiki);
  });
  after(() => wiki.stop());

  it("signs in", async () => {
    await open("/index.php?title=Special:UserLogin");
    await page.locator("#wpName1").fill("Ada");
    await page.locator("#wpPassword1").fill(PASSWORD);
    await page.locator("#wpLoginAttempt").click();
    await page.waitForURL("**/wiki/Main_Page");
    assert.ok((await page.context().cookies()).some(({ name, value }) => name.endsWith("UserName") && value === "Ada"));
  });

  it("keeps what is edited, at addresses that the front controller answers", async () => {
    await open("/index.php?title=Herons&action=edit");
    await page.locator("#wpTextbox1").fill("They wait in '''shallow''' water.");
    await page.locator("#wpSave").click();
    await page.waitForURL("**/wiki/Herons");
    await page.locator(".mw-parser-output b", { hasText: "shallow" }).waitFor();
    assert.equal((await fetch(`${url}/wiki/Herons`)).status, 200);
    assert.equal((await fetch(`${url}/index.php/Herons`)).status, 200);
    assert.equal((await fetch(`${url}/wiki/No_such_page`)).status, 404);
  });

  it("finds it", async () => {
    // The page is indexed after the response to its edit.
    await until("the page is found", async () => {
      await open("/index.php?title=Special:Search&fulltext=1&search=shallow");
      return await page.locator(".mw-search-result-heading a", { hasText: "Herons" }).count() > 0;
    });
  });

  it("takes uploads", async () => {
    await open("/wiki/Special:Upload");
    await page.locator("#wpUploadFile").setInputFiles({ name: "Heron.png", mimeType: "image/png", buffer: PICTURE });
    await page.locator("#wpDestFile").fill("Heron.png");
    await page.locator("input[name=wpUpload]").click();
    await page.waitForURL("**/wiki/File:Heron.png");
    const address = await page.locator(".fullMedia a, .fullImageLink a").first().getAttribute("href");
    const response = await page.request.get(new URL(address, url).href);
    assert.ok((await response.body()).equals(PICTURE));
    assert.equal(response.headers()["content-type"], "image/png");
  });

  it("answers programs, and keeps its own to itself", async () => {
    const found = await (await fetch(`${url}/api.php?action=query&titles=Herons&format=json`)).json();
    assert.equal(Object.values(found.query.pages)[0].title, "Herons");
    for (const path of ["/maintenance/install.php", "/includes/WebStart.php", "/vendor/autoload.php"]) {
      assert.equal((await fetch(url + path)).status, 404, path);
    }
    writeFileSync(join(wiki.folder, "LocalSettings.php~"), "$wgSecretKey = 'shown';");
    assert.doesNotMatch(await (await fetch(`${url}/LocalSettings.php~`)).text(), /wgSecretKey/);
    const style = await fetch(`${url}/resources/assets/licenses/cc-0.png`);
    assert.equal(style.headers.get("content-type"), "image/png");
  });
});
