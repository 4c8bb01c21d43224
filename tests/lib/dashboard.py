# SPDX-License-Identifier: Apache-2.0
"""What the sample dashboard for Grafana wants of /metrics."""
import json
import os
import re

from vgpuctl import ROOT

DASHBOARD = os.path.join(ROOT, "data", "grafana", "vgpud.json")
# What Prometheus adds when it asks.
ADDED = {"instance", "job"}


def expressions():
    with open(DASHBOARD, encoding="utf-8") as file:
        document = json.load(file)
    yield from (t["expr"] for p in document["panels"] for t in p["targets"])
    yield from (a["expr"] for a in document["annotations"]["list"])
    yield from (v["query"]["query"] for v in document["templating"]["list"] if v["type"] == "query")


def wanted():
    """Each name, with the labels that samples must have (None: any text) for a query to find and name them."""
    with open(DASHBOARD, encoding="utf-8") as file:
        document = json.load(file)
    for target in (t for p in document["panels"] for t in p["targets"]):
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - ADDED
        for by in re.findall(r"\bby \(([^)]*)\)", target["expr"]):
            shown |= set(re.split(r",\s*", by)) - ADDED
        for name, selector in re.findall(r"\b((?:vgpud|process)_\w+)(?:{([^}]*)})?", target["expr"]):
            labels = dict.fromkeys(shown) | dict(re.findall(r'(\w+)="([^"]*)"', selector))
            yield name, {label: text for label, text in labels.items() if label not in ADDED}


def samples(text):
    """(name, labels) of each sample of the text that /metrics answers."""
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels or "")))
            for name, labels in re.findall(r"^([a-z]\w+)(?:{(.*)})? \S+$", text, re.M)]


def missing(text, names=""):
    """The wishes, of these names (a regular expression), that no sample of the text fulfils."""
    there = samples(text)
    return [(name, labels) for name, labels in wanted() if re.search(names, name) and not any(
        name == one and all(label in has and text in (None, has[label]) for label, text in labels.items())
        for one, has in there)]
