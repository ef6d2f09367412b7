# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Suppression of output from native code, because a module's standard output is its result.

HiGHS prints a line of debugging for some improved solutions, regardless of its options.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import typing as t

_STDOUT = 1


@contextlib.contextmanager
def kept_off_stdout() -> t.Iterator[None]:
    """Discard the output of native code to the process's standard output.

    C has a separate buffer, which is flushed before and after.
    """
    flush = ctypes.CDLL(None).fflush
    flush(None)
    try:
        kept = os.dup(_STDOUT)
    except OSError:
        # Without a standard output there is nothing to protect.
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
