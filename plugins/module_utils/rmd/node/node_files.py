# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bounded reads of a node's plain files as root.

A process in a container may make control groups, so neither names nor contents below those of pods
can be trusted; a named pipe would block a reader forever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...base.errors import TargetFailure


def read_bounded(path: Path, most: int) -> bytes:
    """The content of a plain file. Raises OSError, and TargetFailure for another kind or size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TargetFailure("malformed", f"{path} is not a plain file")
        content = file.read(most + 1)
    if len(content) > most:
        raise TargetFailure("malformed", f"{path} holds more than {most} bytes")
    return content
