"""matplotlib's SVG for pages: one file for light and dark pages, in a tenth of the lines."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Tree

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
# Ink, paper and grid follow the page; a series that is dark itself becomes lighter on dark paper
CLASSES = {"#000000": "i", "#ffffff": "p", "#dddddd": "g", "#777777": "l", "#5b5b5b": "s"}
LIGHT, DARK = (
    {"i": "#000", "p": "#fff", "g": "#ddd", "l": "#777", "s": "#5b5b5b"},
    {"i": "#d8d8d8", "p": "#14181e", "g": "#444", "l": "#999", "s": "#b0b0b0"},
)
ALWAYS = {
    "fill": "none",
    "stroke-linejoin": "round",
    "font-family": "DejaVu Sans,Verdana,Arial,sans-serif",
}
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def slim(text: str) -> str:
    """The same picture: numbers of two decimals, no names, groups and metadata that nothing needs,
    one line for each part of the axes, and colours that follow the reader's."""
    root = Tree.fromstring(text)
    for child in [c for c in root if c.tag in (f"{SVG}metadata", f"{SVG}defs")]:
        if child.tag == f"{SVG}metadata" or child.find(f"{SVG}style") is not None:
            root.remove(child)
    used = set(re.findall(r"url\(#([\w-]+)\)", text)) | {
        link.removeprefix("#") for e in root.iter() if (link := e.get(LINK))
    }
    short = {name: f"n{k}" for k, name in enumerate(sorted(used))}
    for element in root.iter():
        _simplify(element, short)
    _unwrap(root)
    style = Tree.Element(f"{SVG}style")
    style.text = f"{_colours(LIGHT)}@media(prefers-color-scheme:dark){{{_colours(DARK)}}}"
    root.insert(0, style)
    root.attrib.update(ALWAYS)
    for parent in [root, *root.findall(f"{SVG}g")]:
        parent.text = "\n"
        for child in parent:
            child.tail = "\n"
    Tree.register_namespace("", SVG[1:-1])
    Tree.register_namespace("xlink", LINK[1:].partition("}")[0])
    return Tree.tostring(root, encoding="unicode") + "\n"


def _simplify(element: Tree.Element, short: dict[str, str]) -> None:
    """Short names and numbers, and classes in the place of colours that follow the page."""
    for blank in ("text", "tail"):
        if not (getattr(element, blank) or "").strip():
            setattr(element, blank, None)
    name = element.attrib.pop("id", None)
    if name in short:
        element.set("id", short[name])
    classes = []
    for part in element.attrib.pop("style", "").split(";"):
        key, _, value = (word.strip() for word in part.partition(":"))
        if key in ("stroke", "fill") and value in CLASSES:
            classes.append(f"{key[0]}{CLASSES[value]}")
        elif key not in ("", "font-family") and (key, value) != ("fill", "none"):
            element.set(key, value.removesuffix("px"))
    if element.tag == f"{SVG}text":
        classes.append("fi")
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
    if classes:
        element.set("class", " ".join(classes))
    for key, value in element.attrib.items():
        named = re.sub(r"#([\w-]+)", lambda m: "#" + short.get(m[1], m[1]), value)
        element.set(key, _numbers(named) if key != "class" else value)


def _numbers(text: str) -> str:
    """Two decimals, and one blank in the place of any white space."""
    found = NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), text)
    found = " ".join(found.split())
    if not found.startswith("M "):
        return found
    lines_only = "C" not in found and "Q" not in found
    return found.replace("M ", "M").replace(" L ", " " if lines_only else "L").replace(" z", "z")


def _unwrap(parent: Tree.Element) -> None:
    """Groups that say nothing are replaced by what is in them, but for whole axes."""
    for child in list(parent):
        _unwrap(child)
        if child.tag == f"{SVG}g" and not child.attrib and len(child) <= 3:
            at = list(parent).index(child)
            parent.remove(child)
            for k, inner in enumerate(list(child)):
                parent.insert(at + k, inner)


def _colours(known: dict[str, str]) -> str:
    return "".join(
        f".{key[0]}{name}{{{key}:{colour}}}"
        for name, colour in known.items()
        for key in ("stroke", "fill")
    )
