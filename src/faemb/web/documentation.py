"""The OpenAPI document: with the media type that errors have, and as rows of the page that explains the API."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from faemb.web.problems import MEDIA_TYPE

JPEG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
}
DOWNLOAD: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}
"""Answers of routes that send something other than JSON."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    name: str
    kind: str
    required: bool
    meaning: str


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    paragraphs: list[str]
    fields: list[Field] = field(default_factory=list)
    """Parameters of the path and of the query, then fields of the form or of the JSON object that is sent."""
    sent_as: str = ""
    answers: str = ""
    """Media types of a success."""
    answer_fields: list[Field] = field(default_factory=list)


def correct_error_types(app: FastAPI) -> None:
    """Give errors the media type problem+json in the OpenAPI document; FastAPI describes every model as JSON."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        for operation in _each(document):
            for status, response in operation[2]["responses"].items():
                if status[0] in "45" and "application/json" in response.get("content", {}):
                    response["content"][MEDIA_TYPE] = response["content"].pop("application/json")
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def operations(document: Document) -> list[Operation]:
    return [_operation(document, *each) for each in _each(document)]


def _each(document: Document) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield path, method, described


def _operation(document: Document, path: str, method: str, described: Document) -> Operation:
    parameters = [
        Field(each["name"], _kind(each["schema"]), each["required"], each.get("description", ""))
        for each in described.get("parameters", ())
    ]
    sent_as, sent = next(iter(described.get("requestBody", {}).get("content", {}).items()), ("", {}))
    status, success = next((code, each) for code, each in described["responses"].items() if code.startswith("2"))
    content = success.get("content", {})
    return Operation(
        method=method.upper(),
        path=path,
        paragraphs=described.get("description", "").split("\n\n"),
        fields=parameters + _fields(document, sent),
        sent_as=sent_as,
        answers=f"{status} {', '.join(content)}",
        answer_fields=_fields(document, content.get("application/json", {})),
    )


def _fields(document: Document, content: Document) -> list[Field]:
    schema = content.get("schema", {})
    schema = _named(document, schema["$ref"]) if "$ref" in schema else schema
    return [
        Field(name, _kind(each), name in schema.get("required", ()), each.get("description", ""))
        for name, each in schema.get("properties", {}).items()
    ]


def _named(document: Document, reference: str) -> Document:
    return document["components"]["schemas"][reference.rpartition("/")[2]]


def _kind(schema: Document) -> str:
    """A type in words, such as "list of Hit" or "integer, 1 to 500"."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if "contentMediaType" in schema or schema.get("format") == "binary":
        return "file"
    limits = " to ".join(f"{schema[key]:.0f}" for key in ("minimum", "maximum") if key in schema)
    return f"{schema.get('type', 'any')}{', ' if limits else ''}{limits}"
