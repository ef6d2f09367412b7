# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that show how far a long task is; see argspec.PROGRESS."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  progress:
    description:
      - How the task shows how far it is. V(line) keeps one line up to date, V(log) writes a line
        every ten seconds, V(none) is silent. V(auto) is V(line) where Ansible runs on a terminal
        and V(log) elsewhere.
      - Progress is shown for tasks that run where Ansible runs; a task on a jump host or with
        C(async) works the same but is silent until its end.
      - Can also be given by the environment variable E(WATTWISE_PROGRESS).
    type: str
    default: auto
    choices:
      - auto
      - line
      - log
      - none
  progress_file:
    description:
      - File to which the module appends its progress, one JSON object a line.
      - Set by the action plugin that shows the progress; of no use to people.
    type: path
"""
