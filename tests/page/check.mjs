// Opens report pages in a headless Chromium, without a network, at two widths, light and dark: no error on the console,
// no request, no serious fault that axe-core finds, no overflow, rows looked up by keyboard within 50 ms.
//   node check.mjs SCREENSHOTS PAGE.html …      (CHROMIUM: the browser)
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.PAGE_MODULES + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [folder, ...pages] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
let faults = 0;

function expect(page, what, found) {
  if (found === true) return;
  faults++;
  console.error(`${page}: ${what}: ${JSON.stringify(found)}`);
}

async function open(path, options) {
  const context = await browser.newContext({ offline: true, ...options });
  const page = await context.newPage();
  const messages = [];
  const requests = [];
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && messages.push(m.text()));
  page.on("pageerror", (error) => messages.push(String(error)));
  page.on("dialog", (dialog) => (messages.push(`dialog ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(pathToFileURL(resolve(path)).href);
  return { context, page, messages, requests };
}

async function lookUp(page, name) {
  const input = page.locator("#row");
  const rows = await page.evaluate(() => {
    const raw = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0)).buffer;
    const first = 4 + new DataView(raw).getUint32(0, true);
    return JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 4, first - 4))).text.rows;
  });
  let slowest = 0;
  for (const row of [rows[0], rows.at(-1), rows[rows.length >> 1]]) {
    await input.focus();
    await input.fill(row);
    await page.keyboard.press("Enter");
    expect(name, `look-up of ${row}`, (await page.locator("#status bdi").textContent()) === row);
    expect(name, "predictions", (await page.locator(".results li").count()) > 0);
    slowest = Math.max(slowest, Number(await page.evaluate(() => document.body.dataset.lookup)));
  }
  await page.locator("#next").focus();
  await page.keyboard.press("Enter");
  expect(name, "look-up under 50 ms", slowest < 50 || slowest);
  await input.fill("no such row at all");
  await page.keyboard.press("Enter");
  expect(name, "unknown row", (await page.locator("#status").textContent()) === "No such row.");
  await input.fill(rows[0]);
  await page.keyboard.press("Enter");
  return slowest;
}

for (const path of pages) {
  const name = basename(path, ".html");
  let slowest = 0;
  const serious = new Set();
  for (const [width, height] of [[1280, 900], [390, 844]]) {
    for (const colorScheme of ["light", "dark"]) {
      const { context, page, messages, requests } = await open(path, { viewport: { width, height }, colorScheme });
      slowest = Math.max(slowest, await lookUp(page, name));
      await page.evaluate(axe); // by the debugger: the page's own policy allows no other script
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      for (const v of found.violations) {
        const where = v.nodes.map((node) => node.target.join(" ")).slice(0, 3);
        if (["serious", "critical"].includes(v.impact)) serious.add(`${v.id}: ${where}`);
        else console.log(`${name}: axe, ${v.impact}: ${v.id} ${where}`);
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect(name, `no sideways scrolling at ${width}`, wide <= 0 || wide);
      await page.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png`, fullPage: true });
      expect(name, "console", messages.length === 0 || messages);
      expect(name, "requests", requests.length === 1 || requests);
      await context.close();
    }
  }
  expect(name, "axe-core", serious.size === 0 || [...serious]);
  const { context, page } = await open(path, { javaScriptEnabled: false });
  expect(name, "rows without scripts", await page.locator("noscript table").isVisible());
  await context.close();
  console.log(`${name}: slowest look-up ${slowest} ms`);
}
await browser.close();
if (faults) process.exit(1);
console.log("pages: ok");
