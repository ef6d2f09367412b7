# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Errors of OR-Tools' solvers on well-formed models.

HiGHS rarely fails on integer models, and GLOP on badly conditioned programs (``ABNORMAL``). A
caller treats them as no answer.
"""

from __future__ import annotations

from ..base.libraries import mathopt

# Codes of absl::Status: INVALID_ARGUMENT, FAILED_PRECONDITION, UNIMPLEMENTED.
_REFUSALS = frozenset((3, 9, 12))


def is_internal_error(error: Exception) -> bool:
    """Whether the solver itself failed; a status that refuses the model is a defect of ours.

    OR-Tools 9.15 raises another error for every error status (``canonical_code``), with the status
    as its context.
    """
    if isinstance(error, mathopt.InternalMathOptError):
        return True
    status = getattr(error.__context__, "status", None)
    if "canonical_code" not in str(error) or status is None:
        return False
    return bool(status.raw_code() not in _REFUSALS)
