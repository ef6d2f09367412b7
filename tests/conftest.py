# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import signal

from hypothesis import settings

# Equal runs on every machine, however slow; `--hypothesis-profile=default` searches at random.
settings.register_profile("wattwise", deadline=None, derandomize=True, database=None)
settings.load_profile("wattwise")

# A shell starts what runs in the background with SIGINT ignored; tests send it all the same.
signal.signal(signal.SIGINT, signal.default_int_handler)
