// SPDX-License-Identifier: Apache-2.0
// A browser that does what it is told: browser.mjs CHROMIUM. Each line of standard input is a command as JSON, each
// line of standard output its answer. What drives Chromium is in the folder VG_WEB_MODULES.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const require = createRequire(`${process.env.VG_WEB_MODULES}/package.json`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox"] });
let page = null, session = null, found = null;

/** Until an expression is true. (Playwright's own way evaluates text in the page, which its policy refuses.) */
async function until(expression, limit_ms) {
  for (const end = Date.now() + limit_ms; !await page.evaluate(expression);) {
    if (Date.now() > end)
      throw new Error(`it does not come to: ${expression}; there is: ${(await page.innerText("body")).slice(0, 2000)}`);
    await page.waitForTimeout(50);
  }
}

const commands = {
  async open({ link, scheme, width, height }) {
    await page?.close();
    page = await browser.newPage({ colorScheme: scheme, viewport: { width, height }, ignoreHTTPSErrors: true });
    const origin = new URL(link).origin;
    found = { trouble: [], foreign: [], requests: 0, bytes: 0 };
    page.on("console", (message) => { if (message.type() === "error") found.trouble.push(`${message.text()} ${message.location().url}`); });
    page.on("pageerror", (error) => found.trouble.push(error.message));
    page.on("request", (request) => { if (!request.url().startsWith(origin)) found.foreign.push(request.url()); });
    session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    session.on("Network.loadingFinished", (event) => { found.requests++; found.bytes += event.encodedDataLength; });
    await page.goto(link);
  },
  until: ({ expression, limit_ms }) => until(expression, limit_ms),
  evaluate: ({ expression }) => page.evaluate(expression),
  text: ({ selector }) => page.innerText(selector),
  click: ({ selector }) => page.click(selector),
  fill: ({ selector, text }) => page.fill(selector, text),
  press: ({ key }) => page.keyboard.press(key),
  async drag({ selector, from, to }) {
    await page.locator(selector).first().scrollIntoViewIfNeeded();
    const box = await page.locator(selector).first().boundingBox();
    await page.mouse.move(box.x + from * box.width, box.y + 30);
    await page.mouse.down();
    await page.mouse.move(box.x + to * box.width, box.y + 30, { steps: 5 });
    await page.mouse.up();
  },
  shot: ({ path }) => page.screenshot({ path, fullPage: true }),
  /** Faults that axe calls serious or critical. */
  async axe() {
    await page.evaluate(axe);
    const { violations } = await page.evaluate("axe.run({ resultTypes: ['violations'] })");
    return violations.filter((one) => one.impact === "serious" || one.impact === "critical")
      .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 200)).slice(0, 3).join(" ")}`);
  },
  found: () => found,
  /** What was complained of until now; it does not count any more. */
  forgive: () => found.trouble.splice(0),
  /** CPU time of the page's thread, and more. */
  async costs() {
    const { metrics } = await session.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map((one) => [one.name, one.value]));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { does, ...how } = JSON.parse(line);
    answer = { answer: await commands[does](how) ?? null };
  } catch (error) {
    answer = { error: String(error.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
