"""An HTML page as a list of elements, for tests."""

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "image", "use", "path", "wbr", "circle", "input"}


class Page(HTMLParser):
    """Elements in document order with their attributes and text; fails where tags do not match."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[int] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for place in self._open:
            self.elements[place][2].append(data)

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes, _ in self.elements if name == tag]

    def texts(self, tag: str, kind: str = "") -> list[str]:
        """Texts of the elements of a tag and, if given, a class."""
        return [
            "".join(text).strip()
            for name, attributes, text in self.elements
            if name == tag and (not kind or kind in attributes.get("class", "").split())
        ]

    def cells(self, column: str) -> list[str]:
        """Texts of the table cells of a column."""
        return ["".join(text).strip() for _, has, text in self.elements if has.get("data-name") == column]
