# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML as Ansible reads it, with its own tags."""

from __future__ import annotations

from typing import Any

import yaml


class _Loader(yaml.CSafeLoader):
    """Loads texts tagged as unsafe (never templated) or as vaulted."""


def _as_text(loader: _Loader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


for tag in ("!unsafe", "!vault"):
    _Loader.add_constructor(tag, _as_text)


def load(text: str) -> Any:
    """The first document of the text."""
    return yaml.load(text, Loader=_Loader)
