# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Holders of the ways of last-level caches, and lengths of free runs."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet, natural
from ..markup import Child, Markup, element
from ..numbers import counted, listed, moment, number
from ..parts import Kind, Mark, Part, card, figure, holder, letter, picture
from ..section import Column, Data, Detail, Section, folded, lead, note, of

_MAX_DRAWN = 24
_POOLS = {"guaranteed": "guaranteed", "besteffort": "best effort", "shared": "shared"}
_LETTERS = {"guaranteed": "G", "besteffort": "B", "shared": "S", "os": "O"}


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.rmd
    daemons = (document or {}).get("daemons") or {}
    if document is None or not daemons:
        return None
    nodes = [_node(name, daemons[name]) for name in sorted(daemons, key=natural)]
    used = [node for node in nodes if _is_used(node)]
    silent = {error["name"] for error in document.get("errors") or []} - daemons.keys()
    return {
        "time": document["time"],
        "daemons": len(nodes),
        "idle": _kinds([node for node in nodes if not _is_used(node)]),
        "nodes": sorted(used, key=_order),
        "silent": sorted(silent, key=natural),
    }


def _node(name: str, daemon: Data) -> dict[str, t.Any]:
    return {
        "node": name,
        "caches": [_cache(cache) for cache in daemon["caches"]],
        "holders": [item for item in daemon["workloads"] if item["pool"]],
    }


def _cache(cache: Data) -> dict[str, t.Any]:
    shares = cache["shares"]
    own = [share for share in shares if share.get("pool") == "guaranteed"]
    free = [share["count"] for share in own if share["use"] == "free"]
    return {
        **cache,
        "guaranteed": sum(share["count"] for share in own),
        "free": sum(free),
        "longest_run": max(free, default=0),
    }


def _kinds(nodes: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """One node for each group with equal pools, with the number of further nodes."""
    kinds: dict[str, dict[str, t.Any]] = {}
    for node in nodes:
        key = repr([(cache["ways"], cache["shares"]) for cache in node["caches"]])
        kinds.setdefault(key, {**node, "alike": -1})["alike"] += 1
    return sorted(kinds.values(), key=lambda kind: -int(kind["alike"]))


def _is_used(node: Data) -> bool:
    uses = {share["use"] for cache in node["caches"] for share in cache["shares"]}
    return bool(uses & {"held", "unknown"} or node["holders"])


def _is_split(node: Data) -> bool:
    return any(cache["free"] > cache["longest_run"] for cache in node["caches"])


def _order(node: Data) -> tuple[bool, int]:
    """Nodes with fragmented free ways first, then those with the shortest run."""
    return not _is_split(node), min((cache["longest_run"] for cache in node["caches"]), default=0)


def _render(data: Data, detail: Detail) -> Child:
    drawn = (data["nodes"] or data["idle"])[:_MAX_DRAWN]
    parts = [lead(_words(data)), _legend(drawn)]
    parts.append(element("div", map(_card, drawn), class_="cards"))
    if data["nodes"]:
        parts.append(_table(data["nodes"], detail))
    told = f"State of the daemons at {moment(data['time'])}."
    if data["nodes"]:
        told += (
            " RMD reports the free ways and the number of ways of each workload. The ways of a "
            "workload are derived from the order in which RMD assigns them, so workloads with "
            "equal numbers of ways may be swapped."
        )
    return [*parts, note(told)]


def _words(data: Data) -> str:
    nodes, used = data["nodes"], len(data["nodes"])
    daemons = counted(data["daemons"], "node")
    words = [f"Workloads hold cache ways on {number(used)} of {daemons} with RMD."]
    if not used:
        words = [f"No workload holds cache ways on {daemons} with RMD."]
    split = [node["node"] for node in nodes if _is_split(node)]
    if split:
        words.append(f"Free ways are not contiguous on {listed(split)}.")
    if used > _MAX_DRAWN:
        words.append(f"{number(_MAX_DRAWN)} are drawn, the table has them all.")
    if data["silent"]:
        words.append(f"No answer from {listed(data['silent'])}.")
    return " ".join(words)


def _card(node: Data) -> Markup:
    letters = {item["id"]: letter(place) for place, item in enumerate(node["holders"])}
    caches = [_figure(cache, letters) for cache in node["caches"]]
    holders = [holder(letters[each["id"]], _name(each), _asked(each)) for each in node["holders"]]
    return card(_heading(node), caches, holders)


def _heading(node: Data) -> str:
    more = node.get("alike", 0)
    return f"{node['node']} and {counted(more, 'node')} like it" if more else str(node["node"])


def _figure(cache: Data, letters: t.Mapping[str, str]) -> Markup:
    shares = cache["shares"]
    drawn = picture(
        cache["ways"],
        [_part(share, letters) for share in shares],
        "; ".join(_share_words(share, letters) for share in shares),
        _marks(shares),
        steps=cache["ways"],
    )
    return figure(drawn, f"Cache {cache['id']}", f"CPUs {cache['cpus']}: {_free(cache)}")


def _part(share: Data, letters: t.Mapping[str, str]) -> Part:
    holders = tuple(letters[one] for one in share.get("holders") or () if one in letters)
    is_offered = share["use"] == "free" and share.get("pool") == "guaranteed"
    text = str(share["count"]) if is_offered else ""
    return Part(share["first"], share["count"], share["use"], holders, text)


def _marks(shares: t.Sequence[Data]) -> list[Mark]:
    """A line below the ways of each pool."""
    marks: list[Mark] = []
    for share in shares:
        sign = _LETTERS.get(share.get("pool") or "", "")
        if marks and marks[-1].letter == sign:
            last = marks.pop()
            marks.append(Mark(last.first, last.size + share["count"], sign))
        else:
            marks.append(Mark(share["first"], share["count"], sign))
    return [mark for mark in marks if mark.letter]


def _share_words(share: Data, letters: t.Mapping[str, str]) -> str:
    first, last = share["first"], share["first"] + share["count"] - 1
    ways = f"way {first}" if first == last else f"ways {first} to {last}"
    pool = _POOLS.get(share.get("pool") or "", "")
    if share["use"] == "held":
        whose = listed([letters[one] for one in share["holders"] if one in letters], 99)
        return f"{ways}, {pool}: {whose}"
    words = {"system": "of the operating system", "unused": "in no pool"}
    return f"{ways} {words.get(share['use'], share['use'] + ', ' + pool)}"


def _free(cache: Data) -> str:
    if not cache["guaranteed"]:
        return "no guaranteed ways"
    text = f"{cache['free']} of {counted(cache['guaranteed'], 'guaranteed way')} free"
    if cache["free"] > cache["longest_run"]:
        text += f", at most {cache['longest_run']} contiguous"
    return text


def _name(item: Data) -> str:
    given = item.get("pod") or item.get("workload") or item["uuid"]
    return str(given) if given else f"workload {item['id']} from another source"


def _asked(item: Data) -> str:
    pool, most, least = _POOLS[item["pool"]], item.get("most"), item.get("least")
    ways = (
        "" if item["pool"] == "shared" else f"{most} " if most == least else f"{least} to {most} "
    )
    return f"{ways}{pool}, CPUs {item['cpus']}"


def _table(nodes: t.Sequence[Data], detail: Detail) -> Markup:
    body = detail.table("Cache ways by node", _COLUMNS, nodes, "nodes with workloads")
    return folded(f"Table of {counted(len(nodes), 'node')}", body)


def _holders(items: t.Iterable[Data]) -> str:
    texts = [f"{_name(item)} ({_asked(item)})" for item in items]
    return "; ".join(texts) or "no workload that the daemon knows"


def _caches(caches: t.Iterable[Data]) -> str:
    return "; ".join(f"cache {cache['id']}: {_free(cache)}" for cache in caches)


_COLUMNS = (
    Column("Node", of("node")),
    Column("Free guaranteed ways", of("caches", _caches)),
    Column("Held by", of("holders", _holders)),
)


def _legend(nodes: t.Sequence[Data]) -> Markup:
    shares = [share for node in nodes for cache in node["caches"] for share in cache["shares"]]
    uses = {share["use"] for share in shares}
    pools = {share.get("pool") for share in shares}
    items = []
    if "held" in uses:
        items.append(element("li", element("b", "A", class_="holder h0"), "held by workload A"))
    signs: dict[Kind, str] = {
        "free": "free, with the length of a guaranteed run",
        "unknown": "held by no workload",
    }
    signs |= {"system": "the operating system's", "unused": "in no pool"}
    for use, words in signs.items():
        if use in uses:
            drawn = picture(1, [Part(0, 1, use)], "")
            items.append(element("li", drawn, words))
    names = {**_POOLS, "os": "operating system"}
    items += [
        element("li", element("b", _LETTERS[pool]), names[pool])
        for pool in _LETTERS
        if pool in pools
    ]
    return element("ul", items, class_="legend")


SECTION = Section("cache_ways", "Cache ways", _collect, _render)
