# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium with the page in it, by tests/web/browser.mjs; and `vgpuctl ui`, which makes the link."""
import json
import os
import re
import shutil
import subprocess

import vgpuctl
from settings import HANG_S
from unixhttp import ROOT, build_dir

CHROMIUM = shutil.which("chromium")
MODULES = os.environ.get("VG_WEB_MODULES", os.path.join(build_dir(), "web-test"))
SHOTS = os.environ.get("VG_TEST_SHOTS")
SHOWN = "document.getElementById('main').childElementCount > 0 && !document.getElementById('main').hasAttribute('aria-busy')"


def why_not():
    if not CHROMIUM or not shutil.which("node"):
        return "chromium or node is not installed"
    if not os.path.exists(os.path.join(MODULES, "node_modules")):
        return "there is nothing to drive a browser with: `tools/check --web` gets it"
    return ""


class Ui:
    """vgpuctl ui before a socket."""

    def __init__(self, socket):
        self.process = subprocess.Popen([vgpuctl.program(), "ui", "--socket", socket], stdout=subprocess.PIPE, text=True)
        self.link = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait(HANG_S)
        self.process.stdout.close()


class Browser:
    def __init__(self):
        self.process = subprocess.Popen(["node", os.path.join(ROOT, "tests", "web", "browser.mjs"), CHROMIUM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, "VG_WEB_MODULES": MODULES})

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        """Without the pipe it ends, and Chromium with it."""
        self.process.stdin.close()
        try:
            self.process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def do(self, what, **how):
        self.process.stdin.write(json.dumps({"does": what, **how}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the browser has ended"}')
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def until(self, expression, limit_s=HANG_S):
        self.do("until", expression=expression, limit_ms=1000 * limit_s)

    def evaluate(self, expression):
        return self.do("evaluate", expression=expression)

    def text(self, selector="main"):
        return self.do("text", selector=selector)

    def click(self, selector):
        self.do("click", selector=selector)

    def open(self, link, scheme="light", width=1280, height=900, shown=True):
        self.do("open", link=link, scheme=scheme, width=width, height=height)
        if shown:
            self.until(SHOWN)

    def go(self, address):
        """What was there before is not taken for what is asked for; the same address is asked for once more."""
        self.evaluate(f"document.getElementById('main').replaceChildren(), location.hash === {json.dumps(address)} "
                      f"? (dispatchEvent(new Event('hashchange')), 0) : (location.hash = {json.dumps(address)}, 0)")
        self.until(SHOWN)

    def address(self):
        return self.evaluate("location.hash")

    def table(self, caption, n=0):
        """Rows of the n-th table of this name, by headings."""
        return self.evaluate("""((caption, n) => {
            const table = document.querySelectorAll(`[aria-label="${caption}"] table`)[n];
            if (!table) return null;
            const heads = [...table.querySelectorAll("thead th")].map((head) => head.innerText);
            return [...table.querySelectorAll("tbody tr")].map((row) =>
                Object.fromEntries([...row.children].map((cell, i) => [heads[i], cell.innerText])));
        })(%s, %d)""" % (json.dumps(caption), n))

    def figures(self, title):
        """What a chart draws, as the page tells in a table."""
        self.evaluate("""(() => { for (const one of document.querySelectorAll("details")) one.open = true; })()""")
        self.until(f"""document.querySelector('details [aria-label="{title}"]') !== null""")
        return self.table(title)

    def shot(self, name):
        if SHOTS:
            self.do("shot", path=os.path.join(SHOTS, f"{name}.png"))

    def check(self, what):
        """Nothing is wrong with what is shown, for anybody."""
        found = self.do("found")
        assert found["trouble"] == [] and found["foreign"] == [], (what, found)
        assert self.do("axe") == [], what
        assert self.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{what} is wider than the window"
        assert not re.search(r"undefined|\[object|NaN|Invalid Date|\b1970\b", self.text("body")), (what, self.text("body"))
