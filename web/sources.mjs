// SPDX-License-Identifier: Apache-2.0
// Prints the SHA-256 of all that dist/ is made of, so that a test can tell when dist/ is stale.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";

const files = ["index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.js",
  ...readdirSync("src").map((name) => `src/${name}`)].sort();
const hash = createHash("sha256");
for (const file of files)
  hash.update(`${file}\0`).update(readFileSync(file)).update("\0");
console.log(hash.digest("hex"));
