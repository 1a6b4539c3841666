"""The format of Java properties for the configuration of servers."""

from collections.abc import Mapping

from rocketmq.remoting.errors import DocumentError

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", " ": "\\ ", "=": "\\=", ":": "\\:"}


def write_properties(values: Mapping[str, str]) -> bytes:
    """Return the text of properties; values are escaped so that they cannot add a line or a key."""
    return "".join(f"{_escape(name)}={_escape(value)}\n" for name, value in values.items()).encode("ascii")


def read_properties(body: bytes) -> dict[str, str]:
    """Return the properties in a server's output: one `KEY=VALUE` per line, without escapes.

    Raises:
        DocumentError: the body is not UTF-8.
    """
    try:
        lines = body.decode().split("\n")
    except UnicodeDecodeError as error:
        raise DocumentError("the properties are not UTF-8") from error
    pairs = (line.partition("=") for line in lines)
    return {name.strip(): value.removesuffix("\r") for name, separator, value in pairs if separator}


def _escape(text: str) -> str:
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if " " < character <= "~":
        return f"\\{character}" if character in "#!" else character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
