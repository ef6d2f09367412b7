# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install pip into the environment of this interpreter, in place of ansible-test's download.

Arguments are the requirements to install, as ansible-test gives them to the original script. The
wheel bundled with Python does it, in a process of its own because it changes sys.path for good.
"""

from __future__ import annotations

import subprocess
import sys

requirements = [item for item in sys.argv[1:] if item not in ("--no-setuptools", "--no-wheel")]
subprocess.run(
    [sys.executable, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL
)
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *requirements], check=True)
