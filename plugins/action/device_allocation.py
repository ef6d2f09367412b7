# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts every module that has neither progress nor a run; meta/runtime.yml names them."""

from __future__ import annotations

from ..plugin_utils.direct_module import DirectActionModule as ActionModule

__all__ = ["ActionModule"]
