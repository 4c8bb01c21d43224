# SPDX-License-Identifier: Apache-2.0
"""The page as vgpud serves it: to anybody, without a figure in it, and under a strict policy; and dist/ is
that of the sources."""
import gzip
import hashlib
import os
import re

import page_types
import pytest
from certs import Authority
from tlsserver import TlsServer
from unixhttp import Server
from vgpud import ROOT

WEB = os.path.join(ROOT, "web")
FILES = {"/ui": "text/html", "/ui/app.js": "text/javascript", "/ui/app.css": "text/css"}


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("page"))
    yield server
    server.stop()


def dist(name):
    with open(os.path.join(WEB, "dist", name), "rb") as file:
        return file.read()


@pytest.mark.smoke
def test_the_files(server):
    names = {"/ui": "index.html", "/ui/app.js": "app.js", "/ui/app.css": "app.css"}
    for path, of_type in FILES.items():
        answer = server.get(path)
        assert (answer.status, answer.type, answer.headers["Content-Encoding"]) == (200, of_type, "gzip")
        assert gzip.decompress(answer.body) == dist(names[path])
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert server.get(path, {"If-None-Match": answer.headers["ETag"]}).status == 304
    assert sum(len(server.get(path).body) for path in FILES) <= 60 * 1024


def test_browsers_get_it_at_the_root(server):
    html = server.get("/", {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert html.type == FILES["/ui"] and gzip.decompress(html.body) == dist("index.html")
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        assert server.get("/", headers).json()["name"] == "vgpud"


def test_nobody_may_have_it_and_no_figures(tmp_path):
    server = TlsServer(tmp_path, Authority(tmp_path))
    assert [server.over_tls("GET", path).status for path in FILES] == [200] * 3
    assert server.over_tls("GET", "/", {"Accept": "text/html"}).status == 200
    assert [server.over_tls("GET", path).status for path in ("/", "/v1", "/v1/host", "/ui/", "/ui/../v1/host")] == [401] * 5
    client = server.over_tls("GET", "/v1", {"Authorization": "Bearer reader-token"}).json()["client"]
    assert client == {"identity": "token:reader", "role": "reader"}
    server.stop()


def test_nothing_is_inline_or_elsewhere():
    html = dist("index.html").decode()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", html)
    assert {link for pair in re.findall(r'(?:src|href)="([^"]*)"|url\(([^)]*)\)', html + dist("app.css").decode())
            for link in pair if link and not link.startswith("data:")} == {"/ui/app.js", "/ui/app.css"}
    assert not re.search(rb"innerHTML|insertAdjacentHTML|document\.write|eval\(|localStorage|sessionStorage|\.cookie",
                         b"".join(source(name) for name in sources() if name.endswith(".ts")))


def sources():
    return sorted(["index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.js",
                   *("src/" + name for name in os.listdir(os.path.join(WEB, "src")))])


def source(name):
    with open(os.path.join(WEB, name), "rb") as file:
        return file.read()


def test_dist_is_not_stale():
    digest = hashlib.sha256()
    for name in sources():
        digest.update(name.encode() + b"\0" + source(name) + b"\0")
    assert dist("SOURCES").decode().strip() == digest.hexdigest(), "run `make -C build web`"


def test_what_it_reads_is_what_there_is():
    """Its build fails for what is not in these types, and the contract's tests for answers that are not."""
    assert source("src/schema.ts").decode() == page_types.text(), "run `python3 tests/lib/page_types.py > web/src/schema.ts`, then make -C build web"
    asked = set(re.findall(rb'"(/v1[^"?]*)"', b"".join(source(name) for name in sources() if name.endswith(".ts") and "schema" not in name)))
    assert asked and {path.decode() for path in asked} <= {*page_types.ASKED, *page_types.POSTED}


def test_it_reads_the_interface_by_its_types_only():
    """Who asks in another way could read what there is not."""
    text = b"".join(source(name) for name in sources() if name.endswith(".ts"))
    assert len(re.findall(rb"\bfetch\(", text)) == 2 and not re.search(rb"\bany\b|@ts-|as unknown as (?!uPlot)", text)
