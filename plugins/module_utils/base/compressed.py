# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""JSON objects as compressed bytes, for ConfigMaps."""

from __future__ import annotations

import gzip
import io
import zlib

from . import strict_json
from .json_types import MutableObject, Object

# Larger objects are not from this code. A text of brackets takes 30 times its length in memory.
_LIMITS = strict_json.JsonLimits(size=100_000_000, members=4_000_000)


def pack(body: Object) -> bytes:
    """The object as gzip; equal objects give equal bytes."""
    text = strict_json.format_compact(body, sort_keys=True).encode()
    return gzip.compress(text, mtime=0)


def unpack(content: bytes) -> MutableObject:
    """The object in gzip. Raises ValueError with the defect."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(_LIMITS.size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error
    body = strict_json.parse(text, _LIMITS)
    if not isinstance(body, dict):
        raise ValueError("it is no object")
    return body
