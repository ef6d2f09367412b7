# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the progress display; see argspec.PROGRESS."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  progress:
    description:
      - Form of the progress display. V(line) updates one line, V(log) writes a line every ten
        seconds, V(none) is silent. V(auto) means V(line) on a terminal and V(log) elsewhere.
      - Tasks on the controller show progress. Tasks on a jump host or with C(async) show none.
      - Can also be given by the environment variable E(WATTWISE_PROGRESS).
    type: str
    default: auto
    choices: [auto, line, log, none]
  progress_file:
    description:
      - Path of the file to which the module appends its progress, one JSON object per line.
      - The action plugin sets this option. Leave it unset.
    type: path
"""
