# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's one exception."""

from __future__ import annotations


class LabError(Exception):
    """The lab cannot do the request; the text says what failed, where, and the remedy."""
