#pragma once

namespace regauge::cli {

// Of the page of a diff. --cN are the steps of the colour scale, from equal to far off.
inline constexpr char kDiffPageStyle[] = R"css(
:root { color-scheme: light dark;
  --paper: #fbfaf7; --ink: #1d2026; --soft: #626873; --line: #dcd9d1; --card: #ffffff;
  --good: #1b7a4b; --warn: #a86200; --bad: #b3261e; --unsure: #5b5f97;
  --c0: #e3e7e4; --c1: #9fcfb4; --c2: #f3c969; --c3: #ea8a4a; --c4: #c22f2f; --c5: #8f93c4; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #15171b; --ink: #e8e6e1; --soft: #9aa0ab; --line: #33373f; --card: #1c1f25;
  --good: #63cf98; --warn: #eab255; --bad: #ff8a80; --unsure: #a9adeb;
  --c0: #30363a; --c1: #2f7d57; --c2: #b98a1e; --c3: #d0672a; --c4: #ef5350; --c5: #6166ad; } }
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
.same { --tone: var(--good); } .perturbed { --tone: var(--warn); }
.different { --tone: var(--bad); } .undecided { --tone: var(--unsure); }
.models { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: .8rem; margin-top: 1.2rem; }
.model { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.model b { display: inline-block; width: 1.5rem; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
li { margin: .15rem 0; }
.callout { background: var(--card); border: 1px solid var(--line); border-left: .25rem solid var(--bad); border-radius: .3rem;
  padding: .6rem .9rem; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: .6rem 0 1rem; font-size: .85rem; color: var(--soft); }
.legend span { white-space: nowrap; }
.legend i, .cell { display: inline-block; border-radius: .2rem; }
.legend i { width: .9rem; height: .9rem; margin-right: .35rem; vertical-align: -.1rem; }
.s0 { background: var(--c0); } .s1 { background: var(--c1); } .s2 { background: var(--c2); }
.s3 { background: var(--c3); } .s4 { background: var(--c4); }
.s5 { background: repeating-linear-gradient(45deg, var(--c5) 0 3px, transparent 3px 6px); }
.scroll { overflow-x: auto; padding-bottom: .3rem; }
table.grid { border-collapse: separate; border-spacing: 2px; font-size: .78rem; }
.grid th { font-weight: 400; color: var(--soft); text-align: left; padding: 0 .4rem 0 0; white-space: nowrap; }
.grid thead th { vertical-align: bottom; padding: 0 0 .2rem; height: 5.6rem; }
.grid thead th span { writing-mode: vertical-rl; transform: rotate(180deg); }
.grid td { padding: 0; }
.cell { width: clamp(.8rem, 3.4vw, 1.7rem); height: 1.35rem; cursor: pointer; vertical-align: top; }
.cell:hover, .cell:focus { outline: 2px solid var(--ink); outline-offset: 1px; }
.ends { display: flex; flex-wrap: wrap; gap: .3rem .9rem; margin: .5rem 0; font-size: .82rem; color: var(--soft); }
.ends > span { display: inline-flex; align-items: center; gap: .35rem; }
.tip { display: none; position: fixed; z-index: 1; left: 50%; bottom: .8rem; transform: translateX(-50%);
  width: max-content; max-width: calc(100vw - 1.6rem); padding: .5rem .8rem; border-radius: .5rem;
  background: var(--ink); color: var(--paper); font-size: .85rem; line-height: 1.4; pointer-events: none; text-align: left; }
.cell:hover .tip, .cell:focus .tip { display: block; }
.tip b { display: block; overflow-wrap: anywhere; }
details summary { cursor: pointer; color: var(--soft); }
table.list { border-collapse: collapse; font-size: .85rem; margin-top: .5rem; }
.list th, .list td { padding: .12rem .9rem .12rem 0; text-align: right; font-variant-numeric: tabular-nums; border-bottom: 1px solid var(--line); }
.list th:first-child, .list td:first-child { text-align: left; }
.list .off td { color: var(--bad); }
.hashes { overflow-wrap: anywhere; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .6rem; }
@media (max-width: 30rem) { body { padding: 1rem .8rem 6rem; } table.grid { border-spacing: 1px; } .list th, .list td { padding-right: .5rem; } }
)css";

}  // namespace regauge::cli
