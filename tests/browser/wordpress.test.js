// WordPress and MariaDB under `fermata serve FOLDER`, unmodified: installation, sign-in, edit,
// search and upload.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Application, PICTURE } from "./support/application.js";
import { until } from "./support/chat.js";

const site = new Application("wordpress", ["mariadbd"], "FERMATA_TEST_WORDPRESS");

/** Starts a separate database. */
async function startDatabase(place) {
  const options = [
    "--no-defaults", `--datadir=${join(place, "data")}`, `--tmpdir=${place}`, "--innodb-use-native-aio=0", ...(process.getuid() === 0 ? ["--user=root"] : []),
  ];
  const install = spawnSync("mariadb-install-db", [...options, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"], { encoding: "utf8" });
  assert.equal(install.status, 0, install.stderr);
  const socket = join(place, "mysql");
  const child = spawn("mariadbd", [...options, `--socket=${socket}`, `--pid-file=${join(place, "pid")}`, "--skip-networking", "--skip-log-bin"], { stdio: "ignore" });
  await until("the database listens", () => existsSync(socket));
  const made = spawnSync("mariadb", ["--no-defaults", `--socket=${socket}`, "--user=root", "--execute=CREATE DATABASE wordpress"], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  return { child, socket };
}

describe("WordPress", { skip: site.skip }, () => {
  let database, page, url;

  const open = (path) => site.open(path);

  before(async () => {
    database = await startDatabase(site.place);
    writeFileSync(join(site.folder, "wp-config.php"), `<?php
      define('DB_NAME', 'wordpress');
      define('DB_USER', 'root');
      define('DB_PASSWORD', '');
      define('DB_HOST', 'localhost:${database.socket}');
      define('DB_CHARSET', 'utf8mb4');
      define('DB_COLLATE', '');
      // Nothing is asked of other machines.
      define('WP_HTTP_BLOCK_EXTERNAL', true);
      define('AUTOMATIC_UPDATER_DISABLED', true);
      define('DISABLE_WP_CRON', true);
      $table_prefix = 'wp_';
      defined('ABSPATH') || define('ABSPATH', __DIR__ . '/');
      require_once ABSPATH . 'wp-settings.php';
    `);
    // WordPress detects URL rewriting only with Apache and nginx.
    mkdirSync(join(site.folder, "wp-content/mu-plugins"));
    writeFileSync(join(site.folder, "wp-content/mu-plugins/rewrite.php"), "<?php\nadd_filter('got_url_rewrite', '__return_true');\n");
    await site.start();
    ({ page, url } = site);
  });
  after(async () => {
    await site.stop(async () => {
      const child = database?.child;
      if (child && child.exitCode === null && child.signalCode === null) {
        const ended = once(child, "exit");
        child.kill();
        await ended;
      }
    });
  });

  it("is installed", async () => {
    // Every page redirects there.
    await open("/");
    await page.waitForURL("**/wp-admin/install.php");
    // The page moves the focus to this field shortly after loading, even while the user types
    // elsewhere.
    await page.waitForFunction(() => document.activeElement?.id === "pass1");
    await page.locator("#weblog_title").fill("Notes");
    await page.locator("#user_login").fill("ada");
    await page.locator("#pass1").fill("a secret-123 of herons");
    await page.locator("#admin_email").fill("ada@example.com");
    await page.locator("#submit").click();
    await page.getByText("WordPress has been installed").waitFor();
  });

  it("signs in", async () => {
    await open("/wp-login.php");
    // The page moves the focus to this field shortly after loading, even while the user types
    // elsewhere.
    await page.waitForFunction(() => document.activeElement?.id === "user_login");
    await page.locator("#user_login").fill("ada");
    await page.locator("#user_pass").fill("a secret-123 of herons");
    await page.locator("#wp-submit").click();
    await page.locator("#wpadminbar").waitFor();
  });

  it("has addresses of its own, which the front controller answers", async () => {
    await open("/wp-admin/options-permalink.php");
    await page.getByRole("radio", { name: "Post name" }).check();
    await page.getByRole("button", { name: "Save Changes" }).click();
    await page.getByText("Permalink structure updated").first().waitFor();
    const response = await page.request.get(`${url}/hello-world/`);
    assert.equal(response.status(), 200);
    assert.match(await response.text(), /Hello world!/);
    assert.equal((await page.request.get(`${url}/no-such-page/`)).status(), 404);
  });

  it("keeps what is edited, and finds it", async () => {
    // Like its editor, over the REST API with the session and the nonce of the page.
    await open("/wp-admin/post-new.php");
    await page.waitForFunction(() => window.wp?.apiFetch !== undefined);
    const made = await page.evaluate(() => window.wp.apiFetch({
      path: "/wp/v2/posts", method: "POST", data: { title: "Herons", content: "They wait in shallow water.", status: "publish" },
    }));
    await page.evaluate((id) => window.wp.apiFetch({
      path: `/wp/v2/posts/${id}`, method: "PUT", data: { content: "They wait in <strong>shallow</strong> water." },
    }), made.id);
    await open("/herons/");
    await page.locator("strong", { hasText: "shallow" }).waitFor();
    await open("/?s=shallow");
    await page.getByRole("link", { name: "Herons" }).first().waitFor();
  });

  it("takes uploads", async () => {
    await open("/wp-admin/media-new.php?browser-uploader=1");
    await page.locator("#async-upload").setInputFiles({ name: "heron.png", mimeType: "image/png", buffer: PICTURE });
    await page.locator("#html-upload").click();
    await page.waitForURL("**/wp-admin/upload.php**");
    const listed = await page.request.get(`${url}/wp-json/wp/v2/media`);
    const address = (await listed.json())[0].source_url;
    const response = await page.request.get(address);
    assert.ok((await response.body()).equals(PICTURE));
    assert.equal(response.headers()["content-type"], "image/png");
  });

  it("keeps strangers out, and its files are sent", async () => {
    const stranger = await fetch(`${url}/wp-admin/`, { redirect: "manual" });
    assert.equal(stranger.status, 302);
    assert.match(stranger.headers.get("location"), /wp-login\.php/);
    const style = await fetch(`${url}/wp-includes/css/dashicons.min.css`);
    assert.equal(style.headers.get("content-type").split(";")[0], "text/css");
    assert.ok(style.headers.get("etag"));
  });
});
