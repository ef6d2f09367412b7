# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Types of numpy arrays. Only type checks import numpy for them."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]
    Integers = NDArray[numpy.int64]
    Booleans = NDArray[numpy.bool_]
else:
    Floats = Integers = Booleans = t.Any
