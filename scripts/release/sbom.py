# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of the collection's parts and of the Python packages that it runs on, as SPDX 2.3."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from scripts.release.source import Source

LOCK = "requirements/operator.txt"
HOMEPAGE = "https://github.com/wattwise/wattwise.kube"
COLLECTION = "SPDXRef-collection"
# NAME==VERSION [; MARKER] \
REQUIREMENT = re.compile(r"^([\w.-]+)==([^\s;]+)(?:\s*;\s*(.+?))?\s*\\?$", re.MULTILINE)


def document(source: Source, archive: Path) -> str:
    """The text of the document; the archive is the collection's."""
    lock = (source.tree / LOCK).read_text(encoding="utf-8")
    packages = [_package(*found) for found in REQUIREMENT.findall(lock)]
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    created = datetime.datetime.fromtimestamp(source.time, datetime.UTC)
    content = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"wattwise.kube-{source.version}",
        "documentNamespace": f"{HOMEPAGE}/spdx/{source.version}/{digest}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: wattwise.kube-release"],
        },
        "packages": [_collection(source, archive, digest), *packages],
        "relationships": [
            _relationship("SPDXRef-DOCUMENT", "DESCRIBES", COLLECTION),
            *(_relationship(COLLECTION, "DEPENDS_ON", each["SPDXID"]) for each in packages),
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def _collection(source: Source, archive: Path, digest: str) -> dict[str, Any]:
    licences = sorted(path.stem for path in (source.tree / "LICENSES").iterdir())
    return {
        "SPDXID": COLLECTION,
        "name": "wattwise.kube",
        "versionInfo": source.version,
        "packageFileName": archive.name,
        "downloadLocation": f"git+{HOMEPAGE}@{source.commit}",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
        "licenseDeclared": " AND ".join(licences),
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "Contributors to the wattwise.kube project",
        "primaryPackagePurpose": "LIBRARY",
    }


def _package(name: str, version: str, marker: str) -> dict[str, Any]:
    """A locked requirement; the lock accepts several files of it, so no checksum is the one."""
    entry = {
        "SPDXID": f"SPDXRef-pypi-{name.replace('_', '-')}-{re.sub('[^a-zA-Z0-9.-]', '-', version)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": "NOASSERTION",
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:pypi/{name.lower()}@{version}",
            }
        ],
    }
    return {**entry, "comment": f"Only where {marker}"} if marker else entry


def _relationship(subject: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": subject, "relationshipType": kind, "relatedSpdxElement": other}
