# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Connection to an API server: access, credentials, proxies, TLS, a pool, and its requests.

Entry points: ``pool.access_of``, ``pool.pool_of`` and ``transport.Transport``.
"""
