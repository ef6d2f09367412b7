# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Watch of a collection of the Kubernetes API, with a callback for each change.

The collection is listed once and then watched from the list's resource version on. A watch that
ends is resumed at its last version. If the server has dropped that version (410), the collection is
listed again and compared with the known objects, so that each change is reported exactly once.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import functools
import random
import threading
import time
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import ApiError
from ..base.fields.lenient import member, whole
from ..base.json_types import MutableObject
from ..base.texts import shown_text
from .client import Kube, Query
from .reading import Unusable

# Views are compared, so they have only the relevant fields of an object.
View = t.TypeVar("View")
Key = tuple[str, str]

# The server ends a watch after this time; before, it sends a bookmark about every minute.
_WATCH_SECONDS = 300
_MAX_SILENCE_SECONDS = 150.0
# The longest silence, and a pause.
_CURRENT_SECONDS = 180.0
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.5, 30.0
# For a kind that is not served or not readable, until it is installed or granted.
_REFUSED = frozenset({401, 403, 404, 405})
_REFUSED_PAUSE_SECONDS = 60.0
# A watch that ends sooner, without an event, has failed.
_SHORT_SECONDS = 1.0


@dataclass(frozen=True)
class Change(t.Generic[View]):
    """An object's view before and after; None if it is missing or does not count.

    ``is_first`` means that the first list of the collection had it.
    """

    key: Key
    before: View | None
    after: View | None
    is_first: bool = False


class Collection(t.Generic[View]):
    """The objects at a path. ``run`` needs a separate thread."""

    def __init__(
        self,
        kube: Kube,
        path: str,
        view: t.Callable[[MutableObject], View | None],
        tell: t.Callable[[Change[View]], None],
        query: Query | None = None,
        say: t.Callable[[str], None] = lambda _text: None,
        first_pause_seconds: float = _FIRST_PAUSE_SECONDS,
    ) -> None:
        """``view`` gets unchecked objects; an object on which it fails does not count."""
        self._kube, self._path, self._query = kube.unrepeating(), path, dict(query or {})
        self._view, self._tell, self._say = view, tell, say
        self._first_pause_seconds = first_pause_seconds
        self._views: dict[Key, View] = {}
        self._version = ""
        self._was_listed = False
        self._failures = 0
        self._heard_at = time.monotonic()
        self._trouble: ApiError | None = None
        self._is_starting = False

    @property
    def is_refused(self) -> bool:
        """Whether the server answers that it does not serve this collection to this account."""
        return self._trouble is not None and self._trouble.status in _REFUSED

    def is_current(self, now: float) -> bool:
        """Whether the last event, bookmark or list is recent; ``now`` is a monotonic time."""
        return self._was_listed and now - self._heard_at < _CURRENT_SECONDS

    @property
    def was_listed(self) -> bool:
        """Whether all objects of the first list were reported."""
        return self._was_listed

    def run(self, stop: threading.Event) -> None:
        """List and watch until ``stop`` is set, which is checked at each event or pause."""
        while not stop.is_set():
            try:
                if not self._version:
                    self._list()
                self._follow(stop)
            except ApiError as error:
                self._failed(error)
            stop.wait(self._pause_seconds())

    def _list(self) -> None:
        found: dict[Key, View] = {}
        version = ""
        for page in self._kube.pages(self._path, self._query, self._seen, self._refuse):
            found.update((key, view) for key, view in page.items if view is not None)
            version = page.version
        for key in [*found, *(self._views.keys() - found.keys())]:
            self._replace(key, found.get(key))
        self._version = version
        self._was_listed = True
        self._heard_at = time.monotonic()

    def _follow(self, stop: threading.Event) -> None:
        """One watch, until the server ends it. Raises ApiError, 410 included."""
        began = time.monotonic()
        query: dict[str, str | int] = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": _WATCH_SECONDS,
        }
        for event in self._kube.events(self._path, query, _MAX_SILENCE_SECONDS):
            self._take(event)
            self._works()
            if stop.is_set():
                return
        if time.monotonic() - began < _SHORT_SECONDS:
            raise ApiError(f"The watch of {self._path} ends at once; is there a proxy in between?")
        self._works()

    def _take(self, event: t.Any) -> None:
        if isinstance(event, Unusable):
            event = self._leave_out(event)
        kind, item = member(event, "type"), member(event, "object")
        if kind == "ERROR":
            text = shown_text(_text(member(item, "message")) or "no reason given")
            code = whole(member(item, "code")) or 0
            raise ApiError(f"The watch of {self._path} ended: {text}", code)
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            key, view = self._seen(item)
            self._replace(key, None if kind == "DELETED" else view)
        version = _text(member(item, "metadata", "resourceVersion"))
        self._version = version or self._version

    def _refuse(self, finding: Finding) -> None:
        self._say(f"{finding}; it is left out")

    def _leave_out(self, unusable: Unusable) -> MutableObject:
        """The event that says so of an object that does not count any more. Raises ApiError."""
        item = member(unusable.identity, "object")
        if not member(item, "metadata", "name"):
            text = f"The watch of {self._path} sends an event that {unusable.problem}"
            raise ApiError(text)
        kind = _text(member(item, "kind")) or "object"
        self._refuse(Finding(subject_of(item, kind), "", unusable.problem))
        return {"type": "DELETED", "object": item}

    def _seen(self, item: t.Any) -> tuple[Key, View | None]:
        """Identity and view of an object; None if it cannot be read or does not count."""
        metadata = member(item, "metadata")
        key = _text(member(metadata, "namespace")), _text(member(metadata, "name"))
        view = guarded(subject_of(item, "object"), functools.partial(self._view, item))
        return key, None if isinstance(view, Finding) else view

    def _replace(self, key: Key, view: View | None) -> None:
        before = self._views.get(key)
        if view is None:
            self._views.pop(key, None)
        else:
            self._views[key] = view
        if before != view:
            self._tell(Change(key, before, view, is_first=not self._was_listed))

    def _works(self) -> None:
        if self._trouble is not None:
            self._say(f"{self._path} is watched again")
        self._failures, self._trouble = 0, None
        self._heard_at = time.monotonic()

    def _failed(self, error: ApiError) -> None:
        self._failures += 1
        if error.status == 410 or error.status in _REFUSED:
            self._version = ""
        self._is_starting = self._kube.is_starting(error)
        if self._is_starting:
            return
        if error.status != 410 and str(error) != str(self._trouble):
            self._say(str(error))
            self._trouble = error

    def _pause_seconds(self) -> float:
        """The pause: none after success, growing and randomised after failures."""
        if self.is_refused and not self._is_starting:
            return _REFUSED_PAUSE_SECONDS
        if not self._failures:
            return 0.0
        longest = self._first_pause_seconds * 2.0 ** min(self._failures - 1, 16)
        return random.uniform(0.5, 1.0) * min(longest, _MAX_PAUSE_SECONDS)


def _text(value: t.Any) -> str:
    return value if isinstance(value, str) else ""
