"""Bounded reading of the JSON documents that RocketMQ writes, which are not always standard JSON."""

import json
import re
from typing import cast

from rocketmq.remoting.errors import DocumentError

MAX_NONSTANDARD_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 32

_TOKEN = re.compile(r'\s*(?:("[^"\\]*(?:\\.[^"\\]*)*")|([{}\[\],:])|([^\s{}\[\],:"]+)|(\S))', re.DOTALL)


def read_document(body: bytes, what: str) -> dict[str, object]:
    """Return the JSON object in a body.

    Keys that are numbers or objects, as in `{0:"a",{"queueId":1}:2}`, become strings with their JSON text.

    Args:
        body: UTF-8 text.
        what: the name of the document in error messages.

    Raises:
        DocumentError: the body is not an object, is nested too deeply, or is too large to be normalised.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"{what} is not UTF-8") from error
    try:
        loaded: object = json.loads(text)
    except RecursionError as error:
        raise DocumentError(f"{what} is nested too deeply") from error
    except ValueError:
        loaded = _load_nonstandard(text, what)
    if not isinstance(loaded, dict):
        raise DocumentError(f"{what} is not a JSON object")
    return cast("dict[str, object]", loaded)


def _load_nonstandard(text: str, what: str) -> object:
    if len(text) > MAX_NONSTANDARD_BYTES:
        raise DocumentError(f"{what} has {len(text)} characters and is not standard JSON")
    try:
        return json.loads(quote_keys(text))
    except DocumentError as error:
        raise DocumentError(f"{what}: {error}") from error
    except ValueError as error:
        raise DocumentError(f"{what} is not JSON") from error


def quote_keys(text: str) -> str:
    """Return the text after replacing every key that is not a string by a string with its JSON text.

    The function reads each character once. It does not report syntax errors outside of keys.

    Raises:
        DocumentError: the text is nested deeper than `MAX_DEPTH`, has an object as a key of a key, or ends early.
    """
    out: list[str] = []
    closers: list[str] = []
    key_start: int | None = None
    key_depth = 0
    expects_key = False
    for match in _TOKEN.finditer(text):
        string, mark, scalar, invalid = match.groups()
        if invalid:
            raise DocumentError("a string does not end")
        if string:
            out.append(string)
            expects_key = False
        elif scalar:
            out.append(json.dumps(scalar) if expects_key else scalar)
            expects_key = False
        elif mark in ("{", "["):
            if len(closers) == MAX_DEPTH:
                raise DocumentError(f"it is nested deeper than {MAX_DEPTH} levels")
            if expects_key:
                if key_start is not None:
                    raise DocumentError("an object that is a key has an object as a key")
                key_start, key_depth = len(out), len(closers)
            closers.append("}" if mark == "{" else "]")
            out.append(mark)
            expects_key = mark == "{"
        elif mark in ("}", "]"):
            if not closers or closers.pop() != mark:
                raise DocumentError(f"{mark} closes nothing")
            out.append(mark)
            expects_key = False
            if key_start is not None and len(closers) == key_depth:
                out[key_start:] = [json.dumps("".join(out[key_start:]))]
                key_start = None
        else:
            out.append(mark)
            expects_key = mark == "," and closers[-1:] == ["}"]
    if closers:
        raise DocumentError("it ends within an object or a list")
    return "".join(out)
