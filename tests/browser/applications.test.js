// DokuWiki under `fermata serve FOLDER`, unmodified: installation, sign-in, edit, search and
// upload.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Application, PICTURE } from "./support/application.js";
import { until } from "./support/chat.js";

const wiki = new Application("dokuwiki");

describe("DokuWiki", { skip: wiki.skip }, () => {
  let page, url;

  const open = (path) => wiki.open(path);

  before(async () => {
    await wiki.start();
    ({ page, url } = wiki);
  });
  after(() => wiki.stop());

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
    // The path after the script's name selects the page, too.
    await open("/doku.php/herons");
    await until("the page is found", async () => {
      // The page itself sends the request that indexes it.
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
