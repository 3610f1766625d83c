// The output of `fermata new` from the perspective of a new user.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, PATIENCE_MS } from "./support/chat.js";
import { Server } from "./support/server.js";

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

for (const kind of ["chat", "live"]) {
  describe(`fermata new ${kind}`, () => {
    let folder, server, browser, faults = [];

    const open = async () => {
      const page = await (await browser.newContext()).newPage();
      page.setDefaultTimeout(PATIENCE_MS);
      page.on("pageerror", (error) => faults.push(String(error)));
      page.on("response", (response) => response.status() >= 400 && faults.push(`${response.url()}: ${response.status()}`));
      await page.goto(server.url);
      await page.locator("#state.live").waitFor();
      return page;
    };

    before(async () => {
      folder = mkdtempSync(join(tmpdir(), "fermata-new-"));
      execFileSync(join(ROOT, "build/fermata"), ["new", kind, join(folder, kind)]);
      server = new Server({ FERMATA_LISTEN: "http://127.0.0.1:0" }, [join(folder, kind, "server.php")]);
      await server.start();
      browser = await launch();
    });
    after(async () => {
      await browser.close();
      assert.equal(await server.stop(), 0, server.log);
      await server.remove();
      rmSync(folder, { recursive: true });
      assert.deepEqual(faults, []);
    });

    if (kind === "chat") {
      it("talks, and shows who is new what was said", async () => {
        const first = await open();
        await first.getByText("Nothing was said yet").waitFor();
        const say = async (text) => {
          await first.getByLabel("Message").fill(text);
          await first.getByRole("button", { name: "Send" }).click();
          await first.locator("li.own", { hasText: text }).waitFor();
        };
        await say("<b>Hello</b>");
        const second = await open();
        await second.locator("li:not(.own)", { hasText: "<b>Hello</b>" }).waitFor();
        await first.locator("#state", { hasText: /here: Guest \d+, Guest \d+/ }).waitFor();
        await say("a second one");
        await second.locator("li", { hasText: "a second one" }).waitFor();
        assert.equal(await second.locator("li").count(), 2);
      });

      it("keeps a text that was not sent, and says so", async () => {
        const page = await open();
        await page.route("**/messages", (route) => route.abort());
        await page.getByLabel("Message").fill("not lost");
        await page.getByRole("button", { name: "Send" }).click();
        await page.getByRole("alert").filter({ hasText: "Not sent" }).waitFor();
        assert.equal(await page.getByLabel("Message").inputValue(), "not lost");
      });
    } else {
      it("begins with what was measured before the page was opened", async () => {
        const count = (page) => page.evaluate(() => document.querySelector("polyline").points.numberOfItems);
        const first = await open();
        await first.waitForFunction(() => document.querySelector("polyline").points.numberOfItems >= 3);
        const second = await open();
        await second.waitForFunction(() => document.querySelector("output").textContent !== "–");
        assert.ok((await count(second)) >= 3);
        assert.match(await second.locator("#most").textContent(), /^highest \d+\.\d\d$/);
      });
    }
  });
}
