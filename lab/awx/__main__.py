# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated AWX of a lab; its project has the playbooks of this tree."""

from __future__ import annotations

import sys

from lab.awx.api import serving
from lab.serving import run

if __name__ == "__main__":
    sys.exit(run(serving, "lab.awx", __doc__))
