# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Connection to an API server: kubeconfig or service account, credentials, proxies, TLS, a pool.

Entry points: ``pool.access_of`` and ``pool.pool_of``.
"""
