"""The headers of an HTTP/2 response: its header block, which is only decoded when somebody wants to know."""

from __future__ import annotations

import msgspec

from steersman.client.transport.base import PairedHeaders
from steersman.client.transport.http2.blocks import MARKS, fields_of, values_of

__all__ = ["BlockHeaders"]


class BlockHeaders(PairedHeaders, msgspec.Struct, eq=False, gc=False):
    """The headers of a response, decoded when first asked for. Never raises: what is no header is not there."""

    _block: bytes
    _known: list[tuple[str, str]] | None = None

    def get(self, name: str) -> str | None:
        if self._known is None:
            index, names = MARKS[name]
            if index:
                if not values_of(self._block, index, names):
                    return None
            else:
                # Not `in`: for bytes, that first makes and drops an error that says they are no number.
                find = self._block.find
                if find(names[1]) < 0 and find(names[0]) < 0:
                    return None
        found = self.get_all(name)
        return found[0] if found else None

    def _pairs(self) -> list[tuple[str, str]]:
        if self._known is None:
            self._known = fields_of(self._block)
        return self._known
