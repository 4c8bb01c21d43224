# SPDX-License-Identifier: Apache-2.0
"""What the page reads, in TypeScript, from schema/api/openapi.yaml: `python3 tests/lib/page_types.py` prints
web/src/schema.ts. So the compiler refuses a member, or a parameter, that the interface does not have."""
import json
import os

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FROM = os.path.join(ROOT, "schema", "api", "openapi.yaml")
ASKED = ["/v1", "/v1/host", "/v1/host/cpus", "/v1/host/history", "/v1/vms", "/v1/vms/{id}", "/v1/vms/{id}/samples", "/v1/vms/{id}/gpu",
         "/v1/gpus", "/v1/gpus/{id}/requests", "/v1/preemptions", "/v1/alerts", "/v1/hosts", "/v1/plans", "/v1/plans/{id}",
         "/v1/migrations", "/v1/migrations/{id}", "/v1/policy"]
POSTED = ["/v1/plans", "/v1/migrations"]
HEAD = """// SPDX-License-Identifier: Apache-2.0
// What the interface has. Made of schema/api/openapi.yaml by tests/lib/page_types.py: do not edit.
"""


class Types:
    def __init__(self, document):
        self.document, self.named, self.open = document, {}, []

    def deref(self, node):
        while "$ref" in node:
            target = self.document
            for key in node["$ref"].lstrip("#/").split("/"):
                target = target[key]
            node = target
        return node

    def of(self, node):
        """The TypeScript of a schema."""
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[1]
            if name not in self.named:
                self.named[name] = ""
                self.named[name] = self.of(self.deref(node))
            return name
        both = [self.of(part) for part in node.get("allOf", [])]
        if "properties" in node or node.get("type") == "object":
            both.append(self.object_of(node))
        if both:
            return " & ".join(both)
        for key in ("oneOf", "anyOf"):
            if key in node:
                return " | ".join(self.of(part) for part in node[key])
        if "enum" in node or "const" in node:
            return " | ".join(json.dumps(value) for value in node.get("enum", [node.get("const")]))
        kinds = node.get("type", "unknown")
        return " | ".join(self.plain(kind, node) for kind in ([kinds] if isinstance(kinds, str) else kinds))

    def plain(self, kind, node):
        if kind == "array":
            inner = self.of(node["items"])
            return f"({inner})[]" if " " in inner and not inner.startswith("{") else f"{inner}[]"
        if kind == "object":
            return self.object_of(node)
        return {"integer": "number"}.get(kind, kind)

    def object_of(self, node):
        needed, more = node.get("required", []), node.get("additionalProperties")
        members = [f"{json.dumps(name) if not name.isidentifier() else name}{'' if name in needed else '?'}: {self.of(inner)}"
                   for name, inner in node.get("properties", {}).items()]
        if isinstance(more, dict):
            members.append(f"[more: string]: {self.of(more)}")
        return f"{{ {'; '.join(members)} }}" if members else "object"

    def answer(self, operation):
        found = [self.of(self.deref(answer)["content"]["application/json"]["schema"])
                 for status, answer in operation["responses"].items() if status.startswith("20")]
        return " | ".join(dict.fromkeys(found))

    def queries(self, operation):
        every = [self.deref(one) for one in operation.get("parameters", [])]
        mine = [(one["name"], self.of(self.deref(one["schema"]))) for one in every if one["in"] == "query"]
        return "{ " + "; ".join(f"{name}?: {kind if kind != 'string' else 'string | number'}" for name, kind in mine) + " }" \
            if mine else "Record<string, never>"


def text():
    with open(FROM, encoding="utf-8") as file:
        types = Types(yaml.safe_load(file))
    paths = types.document["paths"]
    answers = [f'  "{path}": {types.answer(paths[path]["get"])};' for path in ASKED]
    queries = [f'  "{path}": {types.queries(paths[path]["get"])};' for path in ASKED]
    posts = [f'  "{path}": {{ body: {types.of(paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"])}; '
             f'answer: {types.answer(paths[path]["post"])} }};' for path in POSTED]
    named = [f"export type {name} = {kind};" for name, kind in sorted(types.named.items())]
    return "\n".join([HEAD, *named, "", "/** What GET answers. */", "export interface Answers {", *answers, "}", "",
                      "/** What GET may be asked with, after \"?\". */", "export interface Queries {", *queries, "}", "",
                      "export interface Posts {", *posts, "}", ""])


if __name__ == "__main__":
    print(text(), end="")
