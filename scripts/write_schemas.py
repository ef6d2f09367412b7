# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write schemas/*.json from the library's schemas, for tools that do not use Python."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base.document_schemas import SCHEMAS

FOLDER = Path(__file__).resolve().parent.parent / "schemas"


def rendered() -> dict[str, str]:
    """File name → content."""
    return {f"{kind}.json": json.dumps(schema, indent=2) + "\n" for kind, schema in SCHEMAS.items()}


if __name__ == "__main__":
    for name, content in rendered().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
