# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A module's standard output is its result, which a library's stray print would spoil.

HiGHS prints a line of debugging for some improved solutions, whatever its options say.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import typing as t

_STDOUT = 1


@contextlib.contextmanager
def kept_off_stdout() -> t.Iterator[None]:
    """Throw away what native code writes to the standard output of the process.

    C keeps such text in a buffer of its own, which is written out before and after.
    """
    flush = ctypes.CDLL(None).fflush
    flush(None)
    try:
        kept = os.dup(_STDOUT)
    except OSError:
        # Without a standard output there is nothing to spoil.
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, _STDOUT)
        os.close(kept)
        os.close(nowhere)
