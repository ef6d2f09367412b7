# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Types of JSON objects, as Kubernetes and machines send them."""

from __future__ import annotations

import typing as t

# An object that is only read.
Object = t.Mapping[str, t.Any]
# An object that its holder may change.
MutableObject = dict[str, t.Any]
