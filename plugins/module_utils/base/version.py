# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Version of the collection, as servers see it in the header User-Agent.

Ansible packs a module with its Python files alone, so a run cannot read galaxy.yml.
`make release VERSION=…` writes both, and a test compares them.
"""

from __future__ import annotations

VERSION = "0.1.0"
USER_AGENT = f"wattwise.kube/{VERSION}"
