"""The look of the page: colours that can be told apart and read in both schemes, and a layout that fits a phone."""

STYLE = """\
:root { color-scheme: light dark;
  --paper: #ffffff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --warn: #b83a3a;
  --hue0: #0f766e; --hue1: #b35c00; --hue2: #8250a8; --hue3: #2f6fb5; --hue4: #b83a3a; --hue5: #66707a; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171a; --text: #e6e8ea; --soft: #9aa4ae; --line: #3a4149; --warn: #dc6b63;
  --hue0: #2fa797; --hue1: #d08a35; --hue2: #a97fd0; --hue3: #5b97d8; --hue4: #dc6b63; --hue5: #8b949e; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 0 auto; padding: 1rem;
  background: var(--paper); color: var(--text); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p { max-width: 46rem; } section > p { color: var(--soft); }
.warning { border-left: 4px solid var(--warn); padding-left: .8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } tbody th { font-weight: 400; } td, tbody th { white-space: nowrap; }
.long { white-space: normal; min-width: 9rem; }
td[style] { background: color-mix(in srgb, var(--hue3) var(--ink), transparent); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); gap: 1.5rem 2rem;
  align-items: start; }
figure { margin: 0; max-width: 30rem; } figcaption { font-weight: 600; margin-bottom: .4rem; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font: 12px system-ui, sans-serif; fill: var(--text); }
svg .heading { font-weight: 600; } svg .middle { text-anchor: middle; }
svg .soft { fill: var(--soft); } svg .on-hue { fill: var(--paper); }
svg .grid { stroke: var(--line); } svg .interval { stroke: var(--text); stroke-width: 1.5; fill: none; }
.hue0 { fill: var(--hue0); } .hue1 { fill: var(--hue1); } .hue2 { fill: var(--hue2); }
.hue3 { fill: var(--hue3); } .hue4 { fill: var(--hue4); } .hue5 { fill: var(--hue5); }
summary { cursor: pointer; } code { font-size: .85em; color: var(--soft); }
.right, .wrong { border-left: 4px solid var(--hue0); padding: .2rem .8rem; margin: .5rem 0; }
.wrong { border-color: var(--hue4); }
summary b { color: var(--soft); font-weight: 600; } li { margin: .3rem 0; } li li { font-size: .9em; }
"""
