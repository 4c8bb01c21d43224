# SPDX-License-Identifier: Apache-2.0
"""The elements of a domain that libvirt's schema has, one path a line. Usage: domainschema.py [DIRECTORY]"""
import os
import sys
import xml.etree.ElementTree as tree

RNG = "{http://relaxng.org/ns/structure/1.0}"
INSTALLED = "/usr/share/libvirt/schemas"
DEPTH_MAX = 12


def read(directory, name, defines):
    """Adds the definitions of a file and those that it includes."""
    root = tree.parse(os.path.join(directory, name)).getroot()
    for node in root.iter():
        if node.tag == RNG + "include":
            read(directory, node.get("href"), defines)
        elif node.tag == RNG + "define":
            defines.setdefault(node.get("name"), []).append(node)


def names(element):
    if element.get("name"):
        return [element.get("name")]
    choice = element[0]
    return [n.text.strip() for n in ([choice] if choice.tag == RNG + "name" else choice) if n.tag == RNG + "name"]


def walk(node, path, stack, defines, found):
    if node.tag == RNG + "ref":
        name = node.get("name")
        if name not in stack:
            for define in defines.get(name, []):
                walk(define, path, stack | {name}, defines, found)
        return
    if node.tag == RNG + "element":
        for name in names(node):
            below = f"{path}/{name}" if path else name
            found.add(below)
            if below.count("/") < DEPTH_MAX:
                for child in node:
                    walk(child, below, stack, defines, found)
        return
    for child in node:
        walk(child, path, stack, defines, found)


def elements(directory=INSTALLED):
    defines = {}
    read(directory, "domain.rng", defines)
    found = set()
    for define in defines["domain"]:
        walk(define, "", {"domain"}, defines, found)
    return sorted(path.partition("/")[2] for path in found if "/" in path)


if __name__ == "__main__":
    print("\n".join(elements(*sys.argv[1:])))
