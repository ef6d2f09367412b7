# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The style sheet for light and dark schemes, screens of all sizes, and paper.

Blue and vermilion are from the palette of Okabe and Ito, which is distinguishable with any colour
vision. Temperatures are ordered by lightness and hue. Contrast is at least 4.5 to 1.
"""

from __future__ import annotations

_COLOURS = """
:root{color-scheme:light dark;
--page:#fff;--soft:#f5f6f8;--line:#dfe3e8;--ink:#14181d;--dim:#55606d;
--base:#c2c9d2;--ours:#0072b2;--other:#d55e00;--other-ink:#a84700;--ours-ink:#00659e;--bad:#a61b2b;
--h0:#0072b2;--h1:#a84700;--h2:#00735a;--h3:#94466f;--on:#fff;
--t0:#fffbd1;--t1:#fee79b;--t2:#fecf66;--t3:#fdae4a;--t4:#f9793a;--t5:#d7301f;--t6:#8f0020}
.t0,.t1,.t2,.t3,.t4{color:#14181d}.t5,.t6{color:#fff}
@media screen and (prefers-color-scheme:dark){:root{
--page:#0f1317;--soft:#181d23;--line:#2b323a;--ink:#e9edf1;--dim:#a3adb8;
--base:#56616d;--ours:#56b4e9;--other:#e69f00;--other-ink:#f0b23c;--ours-ink:#7cc6f2;--bad:#ff8d8d;
--h0:#56b4e9;--h1:#e69f00;--h2:#4fc9a4;--h3:#e0a0c6;--on:#14181d;
--t0:#2a1150;--t1:#57106e;--t2:#86216b;--t3:#b63655;--t4:#ee6a24;--t5:#fbb61a;--t6:#fcffa4}
.t0,.t1,.t2,.t3{color:#fff}.t4,.t5,.t6{color:#14181d}}
@media print{:root{color-scheme:light;--line:#ccc;--ink:#000;--dim:#444}}
"""

_PAGE = """
*{box-sizing:border-box;margin:0}
html{font-size:clamp(16px,.75vw + 6.4px,40px);scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{font-family:Inter,system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",
sans-serif;line-height:1.5;color:var(--ink);background:var(--page);
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
header,main,footer{max-width:76rem;margin:0 auto;padding:0 1.5rem}
header{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;align-items:baseline;
padding-top:1.25rem;padding-bottom:1rem;color:var(--dim);font-size:.875rem}
header time{margin-left:auto}.brand{color:var(--ink);letter-spacing:-.01em}
section{padding:2.25rem 0;border-top:1px solid var(--line)}
h1,h2,h3{line-height:1.15;text-wrap:balance;font-weight:650;letter-spacing:-.015em}
h1{font-size:clamp(2rem,6vw,3.5rem);font-weight:400;letter-spacing:-.03em}
h1{font-variant-numeric:proportional-nums}h1 strong{font-weight:700;white-space:nowrap}
h2{font-size:1.375rem;margin-bottom:.625rem}h3{font-size:1rem;margin:1.5rem 0 .625rem}
h3 small{font-weight:400;color:var(--dim);font-size:.8125rem;letter-spacing:0;margin-left:.5rem}
small{font-size:.8125rem;color:var(--dim)}
.lead{font-size:1.0625rem;max-width:54em;text-wrap:pretty}
.note{font-size:.8125rem;color:var(--dim);max-width:60em;margin-top:.75rem}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.8125em}
a{color:var(--ours-ink)}:focus-visible{outline:2px solid var(--ours);outline-offset:2px}
#headline{display:grid;grid-template-columns:minmax(0,5fr) minmax(0,6fr);gap:1.5rem 3.5rem;
align-items:center;padding:1.25rem 0 1.75rem;border:0}
.facts{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;
margin-top:1.125rem;font-size:.875rem;color:var(--dim)}.facts b{color:var(--ink);font-weight:600}
.facts .bad,.facts .bad b{color:var(--bad)}
.eyebrow{margin-bottom:.875rem}#headline .lead{margin-top:1rem}
.chip{font-size:.75rem;font-weight:600;padding:.2em .7em;border-radius:1em;
border:1px solid var(--line);color:var(--dim)}
.chip.measured{border-color:var(--ours);color:var(--ours-ink)}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:.625rem 0;
border-top:1px solid var(--line);font-size:.875rem}
nav a{color:var(--dim);text-decoration:none;display:inline-block;padding:.2rem 0}
nav a:hover{color:var(--ink);text-decoration:underline}
footer{padding-top:1.5rem;padding-bottom:3rem;color:var(--dim);font-size:.8125rem;
border-top:1px solid var(--line)}
"""

_BARS = """
.watts>div{display:grid;grid-template-columns:9.5rem 1fr;gap:0 1rem;align-items:center}
.watts>div+div{margin-top:.875rem}
.watts dt{line-height:1.25}.watts dt b{font-weight:600;display:block}.watts dd{min-width:0}
.track{display:flex;height:1.125rem;background:var(--soft);border-radius:2px;overflow:hidden;
position:relative}
.limit{position:absolute;height:100%;width:2px;background:var(--ink);transform:translateX(-2px)}
.watts .track{height:1.5rem}
.fill{display:block;height:100%}.fill.base{background:var(--base)}
.fill.ours{background:var(--ours)}.fill.other{background:var(--other)}
.fill.predicted{background:repeating-linear-gradient(135deg,var(--ours) 0 3px,
color-mix(in srgb,var(--ours) 45%,var(--page)) 3px 6px)}
.figures{display:flex;justify-content:space-between;font-size:.9375rem;margin-top:.125rem}
.plus{color:var(--dim)}.wait{color:var(--dim);font-style:italic}
.bar{display:grid;grid-template-columns:minmax(3rem,1fr) 4em;gap:.75rem;align-items:center}
.bar.wide{grid-template-columns:minmax(3rem,1fr) 9em}
.bar .track{height:.75rem}.bar>span:last-child{white-space:nowrap;text-align:right}
"""

_TABLES = """
table{border-collapse:collapse;width:100%;margin-top:1rem;font-size:.875rem}
th,td{text-align:left;padding:.4375rem .75rem;border-bottom:1px solid var(--line);
vertical-align:top;font-weight:400}
th:first-child,td:first-child{padding-left:0}th:last-child,td:last-child{padding-right:0}
thead th{font-size:.75rem;color:var(--dim);font-weight:600;vertical-align:bottom}
tbody th{font-weight:600;min-width:6em}
td:has(code){min-width:13em}.n{text-align:right;white-space:nowrap}
details>summary{cursor:pointer;color:var(--ours-ink)}
details[open]>summary{margin-bottom:.375rem}
.names{list-style:none;padding:0;columns:16em auto;font-size:.8125rem}
.lacking{color:var(--dim);font-style:italic}
"""

_PICTURES = """
.legend{display:flex;flex-wrap:wrap;gap:.375rem 1.25rem;list-style:none;padding:0;
font-size:.8125rem;margin:.875rem 0}
.legend li{display:flex;align-items:center;gap:.5rem}
.scale{gap:2px}.scale li{padding:.125rem .625rem;border-radius:2px}
.t0{background:var(--t0)}.t1{background:var(--t1)}.t2{background:var(--t2)}
.t3{background:var(--t3)}.t4{background:var(--t4)}.t5{background:var(--t5)}
.t6{background:var(--t6)}
li.none{color:var(--dim);background:repeating-linear-gradient(135deg,var(--soft) 0 4px,
var(--page) 4px 8px);box-shadow:inset 0 0 0 1px var(--line)}
.racks{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.75rem,1fr));
gap:1.25rem 1rem;align-items:end}
.rack h3{margin:0 0 .375rem;font-size:.875rem}
.rack ol{list-style:none;padding:0;display:grid;gap:2px}
.rack li{display:flex;justify-content:space-between;gap:.5rem;padding:.0625rem .5rem;
border-radius:2px;font-size:.75rem;line-height:1.5}
.dense{grid-template-columns:repeat(auto-fit,minmax(3rem,1fr));gap:1rem .375rem}
.dense li{justify-content:center;padding:0 .25rem;line-height:1.35;gap:0}
.dense ol{gap:1px}
.dense li span{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.rack li b{font-weight:600;white-space:nowrap}
.curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:1rem 1.25rem}
.group+.group{margin-top:2rem}figure{min-width:0}
figcaption{font-size:.75rem;color:var(--dim);line-height:1.35}
figcaption b{color:var(--ink);font-weight:600;display:block}
svg{display:block;width:100%;height:auto;fill:none;stroke:var(--dim);stroke-width:1.25;
stroke-linejoin:round}
.axis{stroke:var(--line);stroke-width:1}.way{stroke:var(--ours);stroke-width:3}
.was{fill:var(--page);stroke:var(--ink)}.is{fill:var(--ours);stroke:var(--page)}
.same{fill:var(--dim);stroke:none}.mark{stroke:var(--ink);stroke-width:1.75}
.timeline{height:11rem}.timeline path{vector-effect:non-scaling-stroke}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr));
gap:1.5rem 2rem}.card{min-width:0}.card h3{margin:0 0 .5rem}.card figure+figure{margin-top:.75rem}
.cards+details{margin-top:1.25rem}
.parts{max-width:100%;stroke-width:1}.legend .parts{flex:none}
.parts text{font-size:11.5px;text-anchor:middle;fill:var(--ink);stroke:none}
.parts .on{fill:var(--on);font-weight:600}.parts .pool{fill:var(--dim);font-size:11px}
.parts rect{stroke:var(--line)}.parts .cut{stroke:var(--line)}
.parts .system{fill:var(--base)}.parts .unused{stroke-dasharray:2 2}
.parts .unknown{fill:var(--soft)}
.parts .h0{fill:var(--h0)}.parts .h1{fill:var(--h1)}.parts .h2{fill:var(--h2)}
.parts .h3{fill:var(--h3)}
.holder{color:var(--on);min-width:1.5em;text-align:center;border-radius:2px;flex:none;
padding:0 .3em;font-size:.75rem}
.holder.h0{background:var(--h0)}.holder.h1{background:var(--h1)}
.holder.h2{background:var(--h2)}.holder.h3{background:var(--h3)}
.holders{list-style:none;padding:0;margin-top:.5rem;font-size:.8125rem;display:grid;gap:.25rem}
.holders li{display:flex;gap:.5rem;align-items:baseline}.holders span{min-width:0}
figure .none{font-size:.75rem;color:var(--dim);border:1px dashed var(--line);padding:1rem .5rem;
text-align:center}
.key{width:.75rem;height:.75rem;border-radius:50%;flex:none;border:1.5px solid var(--ink)}
.key.is{background:var(--ours);border-color:var(--ours)}
.key.same{background:var(--dim);border-color:var(--dim);transform:scale(.7)}
.key.line,.key.dash{width:1.125rem;height:0;border-radius:0;border-width:1px 0;
border-color:var(--dim)}
.key.dash{border-color:var(--ink)}
"""

_NARROW = """
@media (max-width:56rem){#headline{grid-template-columns:minmax(0,1fr)}}
@media (max-width:40rem){header,main,footer{padding-left:1rem;padding-right:1rem}
header time{margin-left:0}
.watts>div{grid-template-columns:minmax(0,1fr)}.watts dt b{display:inline}
.stack thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.stack,.stack tbody,.stack tr,.stack th,.stack td{display:block}
.stack tr{border-bottom:1px solid var(--line);padding:.5rem 0}
.stack th,.stack td{border:0;padding:.125rem 0;text-align:left;white-space:normal}
.stack .bar>span:last-child{white-space:normal}td:has(code){min-width:0}
.stack td:empty{display:none}
.stack tbody th{font-size:.9375rem;min-width:0}
.stack td{display:grid;grid-template-columns:7.5rem minmax(0,1fr);gap:.5rem}
.stack td::before{content:attr(data-label);color:var(--dim);font-size:.8125rem}
.racks:not(.dense){grid-template-columns:repeat(2,minmax(0,1fr))}
.curves{grid-template-columns:repeat(2,minmax(0,1fr))}}
@media print{html{font-size:10pt}nav{display:none}section{padding:1rem 0}
section,figure,tr,.rack{break-inside:avoid}#power_curves,#placements,#freshness{break-inside:auto}
.fill,li,i{print-color-adjust:exact;-webkit-print-color-adjust:exact}
details::details-content{content-visibility:visible;display:block;height:auto}}
"""

STYLE = "".join([_COLOURS, _PAGE, _BARS, _TABLES, _PICTURES, _NARROW]).replace("\n", "")
