# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power draw over CPU use, from several sources in one order (``curve_sources``).

``curves`` has the values of all sources. ``stated`` reads points of users, ``prediction`` queries
inference servers, ``learning`` fits recorded ``samples``. Room ``inference`` imports ``nodeconfig`` and
``scheduling``.
"""
