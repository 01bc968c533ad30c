"""The style sheet of the report's page: light or dark as the reader's system is."""

STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1c2430; --soft: #5b6675;
  --line: #dfe3e8; --accent: #0b6bb8; --red: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1a2029; --ink: #e4e8ee;
  --soft: #98a3b3; --line: #2d3642; --accent: #6db7f2; --red: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 2.5rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.1rem; margin: 0 0 .8rem; }
.lead { margin: 0 0 1.6rem; color: var(--soft); }
.lead strong { color: var(--accent); font-weight: 600; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.2rem 1.4rem; margin: 0 0 1.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .42rem .55rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; border-bottom-width: 2px; vertical-align: bottom; }
td { white-space: nowrap; }
tr.red td, ul.red { color: var(--red); }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; }
.wrap td { white-space: normal; overflow-wrap: anywhere; }
.texts th, .texts td { white-space: normal; overflow-wrap: anywhere; min-width: 11rem; max-width: 22rem; }
.texts td:first-child { color: var(--soft); }
.key { color: var(--soft); width: 11rem; }
ul.notes { margin: .9rem 0 0; padding-left: 1.1rem; color: var(--soft); font-size: .83rem; }
figure { margin: 0; }
figure img { display: block; width: 100%; max-width: 980px; height: auto; background: #fff;
  border-radius: 6px; }
figcaption { color: var(--soft); font-size: .85rem; margin-top: .6rem; }
details { margin-top: .8rem; }
summary { cursor: pointer; color: var(--accent); }
pre { font-size: .78rem; overflow-x: auto; margin: .5rem 0 0; }
svg.levels { display: block; width: 100%; max-width: 860px; height: auto; }
svg.levels text { fill: var(--soft); font-size: 12px; }
svg.levels .grid { stroke: var(--line); fill: none; }
svg.levels .point path { stroke: var(--accent); stroke-width: 1.5; }
svg.levels .point circle { stroke: var(--accent); stroke-width: 2; fill: var(--card); }
svg.levels .ckks circle { fill: var(--accent); }
svg.levels .sim circle, svg.levels .sim path { stroke: var(--soft); }
svg.levels .red path { stroke: var(--red); }
svg.levels .red .cross { stroke-width: 2.5; }
svg.levels .point:hover circle { stroke-width: 5; }
@media (max-width: 600px) { main { padding: 1.2rem .6rem 2rem; } section { padding: .9rem .8rem; }
  h1 { font-size: 1.3rem; overflow-wrap: anywhere; } li, figcaption, .lead { overflow-wrap: anywhere; } }
@media print { :root { --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #bbb; --accent: #0b6bb8; }
  main { padding: 0; max-width: none; } section { break-inside: avoid; border: 0; padding: 0; }
  .scroll { overflow: visible; } td { white-space: normal; } details { display: none; } }
footer { color: var(--soft); font-size: .85rem; margin-top: 1.6rem; }
"""
