#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module report_publication."""

from __future__ import annotations

DOCUMENTATION = r"""
module: report_publication
short_description: Publish a report to a ConfigMap, to URLs, or to a folder of a web server
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Publishes the page, data and summary that M(wattwise.kube.fleet_report) wrote to a run folder.
    Job containers, whose files end with them, need this.
  - A place that fails does not stop the others. The task then fails with one sentence for each.
  - The files hold names of nodes and pods, and no secrets. Restrict the readers of the places.
options:
  run_dir:
    description: Folder with C(report.json) and C(summary.json).
    type: path
    required: true
  path:
    description: Path of the page. C(report.html) in O(run_dir) by default.
    type: path
  name:
    description: Name of the cluster in O(web_folder), with letters, digits, dots, hyphens and
      underscores. The name of O(run_dir) by default.
    type: str
  # begin generated: publication
  config_map:
    description:
      - ConfigMap to write, as C(<namespace>/<name>). The namespace must exist.
      - Key C(summary.json) is the summary, and C(report.html) the page. A page of more than 900 KiB
        is in C(report.html.gz).
      - Fields of another manager are a conflict and are not overwritten.
    type: str
  web_folder:
    description:
      - Folder of a web server for C(<name>.html), C(<name>.summary.json) and C(index.html), which
        lists the clusters with a summary in the folder. All may read the files.
      - The folder must exist. Each file is replaced atomically. Runs of one user wait for each
        other.
    type: path
  uploads:
    description:
      - URLs that take a file by HTTP PUT, such as presigned URLs of an object store.
      - Redirects are not followed. A request is repeated after a broken connection and after the
        statuses 429, 500, 502, 503 and 504.
    type: list
    elements: dict
    suboptions:
      url:
        description: URL with its query. The query is in no message, because it may be a signature.
        type: str
        required: true
      document:
        description: V(page) for C(report.html), V(data) for C(report.json), V(summary) for
          C(summary.json).
        type: str
        default: page
        choices: [page, data, summary]
      headers:
        description: Headers of the request, such as C(Authorization). C(Content-Type) fits the file
          by default.
        type: dict
  timeout:
    description: Seconds for one upload with its repetitions.
    type: float
    default: 60.0
  validate_certs:
    description: Whether the certificates of O(uploads) are verified.
    type: bool
    default: true
  ca_path:
    description: Path of the PEM certificates that verify the servers of O(uploads). The system's
      certificates by default.
    type: path
  allow_plain_http:
    description: Whether O(uploads) may use plain HTTP.
    type: bool
    default: false
  # end generated
attributes:
  check_mode:
    description: Can run in C(check_mode) and returns the changes that it would make.
    support: full
    details:
      - Nothing is uploaded.
  diff_mode:
    description: Returns the objects before and after the change when in diff mode.
    support: none
  idempotent:
    description: Has the same effect when run again; the second run changes nothing.
    support: partial
    details:
      - An upload is always a change, because its URL cannot be read.
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
requirements:
  - aiohttp >= 3.10 (for O(uploads))
  - fastjsonschema >= 2.20 (for O(web_folder))
"""

EXAMPLES = r"""
- name: Publish the report in the cluster
  wattwise.kube.report_publication:
    run_dir: /var/lib/wattwise/hall-1
    config_map: monitoring/wattwise-report

- name: Publish the report of every cluster in a folder of a web server
  wattwise.kube.report_publication:
    run_dir: "/var/lib/wattwise/{{ inventory_hostname }}"
    name: "{{ inventory_hostname }}"
    web_folder: /srv/www/wattwise

- name: Publish page and summary in an object store
  wattwise.kube.report_publication:
    run_dir: /var/lib/wattwise/hall-1
    uploads:
      - url: "{{ vault_presigned_page_url }}"
      - url: https://objects.example.com/reports/hall-1.json
        document: summary
        headers:
          Authorization: "Bearer {{ vault_object_store_token }}"
"""

RETURN = r"""
published:
  description: Places with the report. C(kind) is C(config_map), C(web_folder) or C(upload). The
    place of an upload is its URL without the query.
  returned: always
  type: list
  elements: dict
  sample:
    - {changed: true, kind: config_map, place: monitoring/wattwise-report}
"""

from ..module_utils.module_runner import run_module
from ..module_utils.report import publication


def main() -> None:
    run_module(publication.SPEC, publication.publish)


if __name__ == "__main__":
    main()
