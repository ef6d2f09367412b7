# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows the progress of every module that has some; meta/runtime.yml names them."""

from __future__ import annotations

from ..plugin_utils.progress import ProgressActionModule as ActionModule

__all__ = ["ActionModule"]
