# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""HTTP servers of the programs in containers, with bounds on connections, time and bytes.

The entry point is ``http_server.HttpServer``.
"""
