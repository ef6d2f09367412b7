# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a version to the files that have it, and its notes to the changelog: `make version`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
# galaxy.yml has the version; these files cannot read it at run time.
PLACES = {
    "galaxy.yml": r"^version: (\S+)$",
    "plugins/module_utils/base/version.py": r'^VERSION = "(.+)"$',
    "operator/config/manager/kustomization.yaml": r"^    newTag: (\S+)$",
}
SEMANTIC = re.compile(r"\d+\.\d+\.\d+")


def write(version: str, repository: Path = REPOSITORY) -> None:
    """Set the version everywhere. Raises ValueError for one that is not MAJOR.MINOR.PATCH."""
    if not SEMANTIC.fullmatch(version):
        raise ValueError(f"{version} is not a version such as 1.2.3")
    for name, pattern in PLACES.items():
        path = repository / name
        text = path.read_text(encoding="utf-8")
        [match] = re.finditer(pattern, text, re.MULTILINE)
        start, end = match.span(1)
        path.write_text(text[:start] + version + text[end:], encoding="utf-8")


if __name__ == "__main__":
    try:
        write(sys.argv[1])
    except ValueError as problem:
        sys.exit(str(problem))
