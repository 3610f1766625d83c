// The example applications of frameworks: notes written in one window appear in the other.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { launch, PATIENCE_MS } from "./support/chat.js";
import { Server } from "./support/server.js";

const EXAMPLES = {
  Symfony: ["examples/symfony/public/index.php"],
  Slim: ["examples/slim/server.php"],
  Laravel: ["examples/laravel/artisan", "fermata:start"],
};

for (const [name, program] of Object.entries(EXAMPLES)) {
  describe(`notes with ${name}`, () => {
    let server, browser;

    before(async () => {
      server = new Server({ APP_ENV: "prod", APP_DEBUG: "0" }, program);
      await server.start();
      browser = await launch();
    });
    after(async () => {
      await browser.close();
      assert.equal(await server.stop(), 0, server.log);
      await server.remove();
    });

    it("come to every window, and stay", async () => {
      const pages = await Promise.all([0, 1].map(async () => (await browser.newContext()).newPage()));
      for (const page of pages) {
        page.setDefaultTimeout(PATIENCE_MS);
        const held = page.waitForResponse((response) => response.url().endsWith("/events"));
        await page.goto(server.url);
        assert.equal((await held).status(), 200);
      }
      const text = "<i>Hello</i> from the first";
      const names = pages[0].getByPlaceholder("Your name");
      if (await names.count()) {
        await names.fill("Ada");
      }
      await pages[0].getByPlaceholder("A note").fill(text);
      await pages[0].getByRole("button", { name: "Pin it" }).click();
      for (const page of pages) {
        await page.locator("#notes li", { hasText: text }).first().waitFor();
      }
      await pages[1].reload();
      assert.equal(await pages[1].locator("#notes li", { hasText: text }).count(), 1);
      if (await names.count()) {
        assert.deepEqual([await names.inputValue(), await pages[1].getByPlaceholder("Your name").inputValue()], ["Ada", ""]);
      }
    });
  });
}
