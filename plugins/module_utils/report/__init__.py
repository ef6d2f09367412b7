# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The report: documents of a run folder → data (report.json) → one HTML file, and a summary.

:func:`building.build` joins the documents into a :class:`fleet.Fleet` and asks every section what
it has to say; :func:`page.page` makes HTML from that data alone. Nothing reads the clock or the
network, so the same documents give the same bytes.

A section is one file in ``sections/`` that defines ``SECTION``, and a line in the tuple in
``sections/__init__.py``, whose order is that of the page::

    def _collect(fleet: Fleet) -> Data | None:
        return {"nodes": [...]}  # JSON values; None where the documents say nothing about it

    def _render(data: Data, detail: Detail) -> Markup:
        rows = [[entry["node"], number(entry["fans"])] for entry in detail.cut(data["nodes"])]
        return join([
            table("Fans by node", [Column("Node"), Column("Fans", True)], rows),
            detail.rest(data["nodes"], "nodes"),
        ])

    SECTION = Section("fans", "Fans", _collect, _render)

- A document that the report does not read yet gets a field and a line in ``sources.py``.
- ``markup.element`` escapes every text. Nothing else makes Markup of what a cluster says.
- A list that grows with the fleet goes through ``detail.cut`` and ``detail.rest``: a page that
  would be too large is made again with less, and says so.
- What is shared out is drawn to scale by ``parts.picture``, whose words say the same.
- A value that is not known is None in the data and a dash on the page, never 0.
- Colours are the custom properties of ``style.py``; both schemes and their contrast are tested.
"""
