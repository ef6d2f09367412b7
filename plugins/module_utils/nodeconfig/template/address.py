# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A URL from the pieces of a template, in which values of nodes determine at most the host name.

Credentials are sent to the host of an endpoint. Literal texts come from the template's author, who
may name any host. Labels, annotations and addresses come from kubelets and users.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ...base.boundary import shown
from .tree import Misfit, Piece

_HOST_TEXT = re.compile(r"[A-Za-z0-9._-]*")
_END_OF_HOST = re.compile(r"[/\\?#]")
_SCHEME_END = "://"


def url_of(pieces: t.Sequence[Piece]) -> str:
    """The URL, with brackets around an IPv6 address of a value. Raises Misfit.

    A value before the host is refused, and so is a value in the host that is no host name or
    address.
    """
    done = ""
    authority: int | None = None  # begin of the host; it ends at the first of /, \, ? and #
    for index, piece in enumerate(pieces):
        text = piece.text
        in_authority = authority is not None and not _END_OF_HOST.search(done, authority)
        if not piece.is_written and in_authority:
            text = _host_text(piece, done, "".join(item.text for item in pieces[index + 1 :]))
        elif not piece.is_written and text and authority is None and _names_host(pieces):
            raise Misfit(
                piece.offset,
                f"the value {shown(text)} precedes the host; write the scheme, such as https://, "
                "in the template itself",
            )
        done += text
        if authority is None and piece.is_written and _SCHEME_END in done:
            authority = done.index(_SCHEME_END) + len(_SCHEME_END)
    return done


def _names_host(pieces: t.Sequence[Piece]) -> bool:
    return _SCHEME_END in "".join(piece.text for piece in pieces)


def _host_text(piece: Piece, before: str, after: str) -> str:
    """The value for the host part between these texts. Raises Misfit."""
    text = piece.text
    if _HOST_TEXT.fullmatch(text):
        return text
    try:
        address = str(ipaddress.IPv6Address(text)) if "%" not in text else None
    except ValueError:
        address = None
    if address is None:
        raise Misfit(
            piece.offset,
            f"the value {shown(text)} in the host part is neither a host name nor an "
            "address; only letters, digits, dots and hyphens may come from a node",
        )
    if before.endswith("[") and after.startswith("]"):
        return text
    if not before.endswith("/") or after[:1] not in ("", "/", ":"):
        raise Misfit(
            piece.offset,
            f"the IPv6 address {shown(text)} cannot be a part of a host name; check the addresses "
            "of the node",
        )
    return f"[{text}]"
