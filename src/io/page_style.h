#pragma once

namespace regauge::io {

// The look of every page: colours by name in light and dark, type, a head with a tone, lists,
// tables of numbers, what scrolls sideways.
inline constexpr char kPageStyle[] = R"css(
:root { color-scheme: light dark;
  --paper: #fbfaf7; --ink: #1d2026; --soft: #626873; --line: #dcd9d1; --card: #ffffff;
  --good: #1b7a4b; --warn: #a86200; --bad: #b3261e; --unsure: #5b5f97; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #15171b; --ink: #e8e6e1; --soft: #9aa0ab; --line: #33373f; --card: #1c1f25;
  --good: #63cf98; --warn: #eab255; --bad: #ff8a80; --unsure: #a9adeb; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1.25rem 6rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: .1rem 0 .6rem; font-size: clamp(1.45rem, 4.5vw, 2.1rem); line-height: 1.2; text-wrap: balance; }
h1::first-letter { text-transform: uppercase; }
h2 { margin: 2.2rem 0 .6rem; font-size: 1.1rem; }
p { margin: .4rem 0; max-width: 46rem; }
.soft { color: var(--soft); }
.small { font-size: .85rem; }
code, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .9em; overflow-wrap: anywhere; }
header { border-left: .4rem solid var(--tone); padding: .2rem 0 .2rem 1rem; }
header .kicker { color: var(--tone); font-weight: 600; margin: 0; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
li { margin: .15rem 0; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: .6rem 0 1rem; font-size: .85rem; color: var(--soft); }
.legend span { white-space: nowrap; }
.scroll { overflow-x: auto; padding-bottom: .3rem; --under: var(--paper);  /* a shade at the edge behind which there is more */
  background: linear-gradient(270deg, var(--under) 40%, transparent) 100% 0 / 4rem 100% no-repeat local,
    linear-gradient(270deg, color-mix(in srgb, var(--ink) 22%, transparent), transparent) 100% 0 / 1rem 100% no-repeat scroll; }
.part .scroll { --under: var(--card); }
details summary { cursor: pointer; color: var(--soft); }
table.list { border-collapse: collapse; font-size: .85rem; margin-top: .5rem; }
.list th, .list td { padding: .12rem .9rem .12rem 0; text-align: right; font-variant-numeric: tabular-nums; border-bottom: 1px solid var(--line); }
.list th:first-child, .list td:first-child { text-align: left; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .6rem; }
@media (max-width: 30rem) { body { padding: 1rem .8rem 6rem; } .list th, .list td { padding-right: .5rem; } }
)css";

}  // namespace regauge::io
