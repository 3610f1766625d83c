// Records the animation of the README: `npm run recording` writes docs/images/chat.gif. Requires
// ffmpeg; review the result.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Chat, hears, isLive, say } from "./support/chat.js";

const PICTURE = resolve(fileURLToPath(import.meta.url), "../../../docs/images/chat.gif");
const WIDE = { viewport: { width: 860, height: 600 } };
const NARROW = { viewport: { width: 400, height: 600 } };
/** How long an image with new text is shown, and one between two keystrokes, in seconds. */
const READ_S = 1.4;
const KEY_S = 0.09;
/** Number of letters between two images while a user types. */
const LETTERS = 3;

const folder = mkdtempSync(join(tmpdir(), "fermata-recording-"));
const chat = await Chat.start("sse", { CHAT_DEMO: "1" });
const frames = [];

try {
  const ada = await chat.user("Ada", { ...WIDE, colorScheme: "light" });
  const ben = await chat.user("Ben", { ...NARROW, colorScheme: "dark" });
  const tabs = [ada.page, ben.page];

  /** Captures both tabs. */
  async function keep(seconds) {
    const number = frames.length;
    const names = ["left", "right"].map((side) => join(folder, `${number}-${side}.png`));
    await Promise.all(tabs.map((page, at) => page.screenshot({ path: names[at], animations: "disabled", caret: "initial" })));
    const both = join(folder, `${number}.png`);
    execFileSync("ffmpeg", ["-loglevel", "error", "-i", names[0], "-i", names[1], "-filter_complex", "hstack", both]);
    frames.push({ both, seconds });
  }

  async function talk(speaker, text) {
    const field = speaker.page.getByLabel("Message", { exact: true });
    for (let at = LETTERS; at < text.length + LETTERS; at += LETTERS) {
      await field.fill(text.slice(0, at));
      await keep(KEY_S);
    }
    await say(speaker.page, text);
    for (const page of tabs) {
      await hears(page, text);
    }
    await keep(READ_S);
  }

  await keep(READ_S);
  await talk(ada, "PHP answered and went home.");
  await talk(ben, "And who holds us?");
  await talk(ada, "The core. Watch: I kill my worker.");
  chat.expectsProblems = true;
  await ada.page.locator("#inside-kill").scrollIntoViewIfNeeded();
  await ada.page.locator("#inside-kill").hover();
  await keep(READ_S);
  await ada.page.locator("#inside-kill").click();
  await keep(READ_S);
  await isLive(ada.page);
  await isLive(ben.page);
  await talk(ben, "Still here, nothing lost.");
  await keep(2 * READ_S);
} finally {
  await chat.stop();
}

// The last image is listed twice, because ffmpeg applies a duration only up to the next image.
const list = frames.map(({ both, seconds }) => `file '${both}'\nduration ${seconds}\n`).join("") + `file '${frames.at(-1).both}'\n`;
writeFileSync(join(folder, "frames.txt"), list);
execFileSync("ffmpeg", [
  "-loglevel", "error", "-y", "-f", "concat", "-safe", "0", "-i", join(folder, "frames.txt"), "-vsync", "vfr", "-filter_complex",
  "split[a][b];[a]palettegen=max_colors=64:stats_mode=diff[p];[b][p]paletteuse=dither=none:diff_mode=rectangle", PICTURE,
]);
rmSync(folder, { recursive: true });
