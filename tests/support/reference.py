# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference folder beside the repository, for tests on data that may not be published."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def reference_folder() -> Path | None:
    """The folder of WATTWISE_REFERENCE, else ../shared/reference, if it exists.

    Tests run in a mirror, so WATTWISE_REPOSITORY names the repository.
    """
    named = os.environ.get("WATTWISE_REFERENCE")
    repository = os.environ.get("WATTWISE_REPOSITORY") or Path(__file__).resolve().parents[2]
    folder = Path(named) if named else Path(repository).parent / "shared" / "reference"
    return folder if folder.is_dir() else None


def require_reference(*parts: str) -> Path:
    """A file or folder of the reference; skips the test if it is absent."""
    folder = reference_folder()
    if folder is None:
        pytest.skip("the reference folder is absent: set WATTWISE_REFERENCE to it")
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the reference folder has no {'/'.join(parts)}")
    return path
