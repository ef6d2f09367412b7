# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The report: documents of a run folder → data (report.json) → one HTML file, and a summary.

:func:`building.build` joins the documents into a :class:`fleet.Fleet` and collects the data of
every section; :func:`page.page` renders HTML from that data only. Nothing reads the clock or the
network, so equal documents give equal bytes.

A section is a file in ``sections/`` that defines ``SECTION``, and a line in the tuple in
``sections/__init__.py``, which has the order of the page::

    def _collect(fleet: Fleet) -> Data | None:
        return {"nodes": [...]}  # JSON values; None where the documents say nothing about it

    def _render(data: Data, detail: Detail) -> Child:
        columns = [Column("Node", of("node")), Column("Fans", of("fans", number), True)]
        return detail.table("Fans by node", columns, data["nodes"], "nodes")

    SECTION = Section("fans", "Fans", _collect, _render)

- A document that the report does not read yet gets a field and a line in ``sources.py``.
- ``markup.element`` escapes every text. Nothing else creates Markup from texts of a cluster.
- A list that grows with the fleet goes through ``detail``, because a page that is too large is
  rendered again with fewer entries.
- ``parts.picture`` draws divided resources to scale, with words as the text alternative.
- An unknown value is None in the data and a dash on the page, never 0.
- Colours are the custom properties of ``style.py``; both schemes and their contrast are tested.
"""
