#pragma once

namespace regauge::cli {

// Of the page of a diff, beyond the look of every page. --cN are the steps of the colour scale,
// from equal to far off.
inline constexpr char kDiffPageStyle[] = R"css(
:root { --c0: #e3e7e4; --c1: #9fcfb4; --c2: #f3c969; --c3: #ea8a4a; --c4: #c22f2f; --c5: #8f93c4; }
@media (prefers-color-scheme: dark) { :root {
  --c0: #30363a; --c1: #2f7d57; --c2: #b98a1e; --c3: #d0672a; --c4: #ef5350; --c5: #6166ad; } }
.same { --tone: var(--good); } .perturbed { --tone: var(--warn); }
.different { --tone: var(--bad); } .undecided { --tone: var(--unsure); }
.models { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: .8rem; margin-top: 1.2rem; }
.model { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.model b { display: inline-block; width: 1.5rem; }
.callout { background: var(--card); border: 1px solid var(--line); border-left: .25rem solid var(--bad); border-radius: .3rem;
  padding: .6rem .9rem; }
.legend i, .cell { display: inline-block; border-radius: .2rem; }
.legend i { width: .9rem; height: .9rem; margin-right: .35rem; vertical-align: -.1rem; }
.s0 { background: var(--c0); } .s1 { background: var(--c1); } .s2 { background: var(--c2); }
.s3 { background: var(--c3); } .s4 { background: var(--c4); }
.s5 { background: repeating-linear-gradient(45deg, var(--c5) 0 3px, transparent 3px 6px); }
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
.list .off td { color: var(--bad); }
.hashes { overflow-wrap: anywhere; }
@media (max-width: 30rem) { table.grid { border-spacing: 1px; } }
)css";

}  // namespace regauge::cli
