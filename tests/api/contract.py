# SPDX-License-Identifier: Apache-2.0
"""schema/api/openapi.yaml as the daemon serves it: looks up operations, checks answers."""
import re

import jsonschema

# Ubuntu 22.04 has jsonschema 3, whose latest draft knows all keywords of the contract but unevaluatedProperties.
Validator = getattr(jsonschema, "Draft202012Validator", None) or jsonschema.Draft7Validator


class Contract:
    def __init__(self, document):
        self.document = document

    def deref(self, node):
        while "$ref" in node:
            target = self.document
            for key in node["$ref"].lstrip("#/").split("/"):
                target = target[key]
            node = target
        return node

    def operations(self):
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                yield path, method.upper(), operation

    def operation(self, method, url):
        path = url.split("?")[0]
        path = "/v1" if path == "/v1/" else path
        for pattern, known, operation in self.operations():
            regex = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(pattern))
            if known == method and re.fullmatch(regex, path):
                return operation
        return None

    def parameters(self, operation, where):
        every = map(self.deref, operation.get("parameters", []))
        return [p for p in every if p["in"] == where]

    def errors(self, schema, value):
        whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema,
                 "components": self.document["components"]}
        checker = Validator(whole)
        return [f"{list(e.absolute_path)}: {e.message}"[:300] for e in checker.iter_errors(value)]

    def check(self, method, url, answer):
        """The answer is one that the contract has."""
        operation = self.operation(method, url)
        assert operation, f"{method} {url} is not in the contract"
        response = operation["responses"].get(str(answer.status))
        assert response, f"{method} {url} may not answer {answer.status}: {answer.body[:300]}"
        response = self.deref(response)
        for name in response.get("headers", {}):
            assert answer.headers.get(name), f"{method} {url}: no header {name}"
        content = response.get("content")
        if not content:
            assert answer.body == b""
            return
        assert answer.type in content, f"{method} {url}: {answer.type}"
        if answer.type.endswith("json"):
            found = self.errors(content[answer.type]["schema"], answer.json())
            assert not found, f"{method} {url}: {found}"
