"""Reads a page with a parser that forgives nothing: what is opened is closed, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "hr", "link", "meta"}
LOADING = {"script", "iframe", "object", "embed", "img", "image", "use", "base", "form", "audio", "video", "source"}


@dataclass
class Element:
    """An element with what is in it, in order."""

    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def every(self, name: str = "", class_: str = "") -> list[Element]:
        """The elements in it of that name and class, in order."""
        elements: list[Element] = []
        for child in self.children:
            if isinstance(child, Element):
                fits = name in ("", child.name) and class_ in ("", *child.attributes.get("class", "").split())
                elements += [child] if fits else []
                elements += child.every(name, class_)
        return elements

    def only(self, name: str = "", class_: str = "") -> Element:
        """The only one."""
        (element,) = self.every(name, class_)
        return element

    def at(self, ident: str) -> Element:
        """The element with that id."""
        (only,) = (element for element in self.every() if element.attributes.get("id") == ident)
        return only


def titles(page: Element) -> list[str]:
    """The headings of its sections."""
    return [element.text for element in page.every("h2")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        if data.strip() or "\n" not in data:  # else it is the layout of a template
            self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def read(text: str) -> Element:
    """The page, of which everything is sound that holds for every page: ids, links, and that it loads nothing."""
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root]
    page = reader.root
    every = page.every()
    idents = [element.attributes["id"] for element in every if "id" in element.attributes]
    assert len(set(idents)) == len(idents)
    assert not LOADING & {element.name for element in every}
    for element in every:
        _is_sound(element, set(idents))
    return page


def _is_sound(element: Element, idents: set[str]) -> None:
    for name, value in element.attributes.items():
        assert not name.startswith("on"), f"{element.name} has a handler: {name}"
        assert name not in ("src", "srcset", "style", "action", "data", "xlink:href"), f"{element.name} has {name}"
        if name == "href":
            assert value.removeprefix("#") in idents or (element.name == "link" and value.startswith("data:")), value
        if name in ("aria-labelledby", "aria-describedby"):
            assert set(value.split()) <= idents, value
        if name.startswith("marker-"):
            assert value.removeprefix("url(#").removesuffix(")") in idents, value
    if element.name == "svg" and element.attributes.get("aria-hidden") != "true":
        assert [child.name for child in element.children[:2] if isinstance(child, Element)] == ["title", "desc"]
    if element.name == "th":
        assert element.attributes["scope"] in ("row", "col")
    if element.name == "table":
        first = element.children[0]
        assert isinstance(first, Element)
        assert first.name == "caption"
        assert first.text
