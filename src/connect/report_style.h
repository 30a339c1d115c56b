#pragma once

namespace regauge::connect {

// Of the report, beyond the look of every page and of charts.
inline constexpr char kReportStyle[] = R"css(
body { max-width: 74rem; }
header { --tone: var(--unsure); }
h2 { font-size: 1.35rem; margin-top: 2.8rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
h4 { font-size: .95rem; margin: 1.1rem 0 .3rem; }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: .15em; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .6rem; margin: 1.2rem 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .45rem .8rem; }
.facts div { font-size: .9rem; }
.facts b { display: block; font-size: 1.4rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
nav { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; font-size: .92rem; }
nav ul { list-style: none; padding: 0; margin: 0; }
nav li { margin: .25rem 0; }
table.barriers { border-collapse: collapse; font-size: .88rem; }
.barriers th, .barriers td { padding: .3rem .8rem .3rem 0; vertical-align: top; text-align: left; font-variant-numeric: tabular-nums; }
.barriers td { white-space: nowrap; min-width: 7.4rem; border-bottom: 1px solid var(--line); }
.barriers th[scope=row] { font-weight: 400; border-bottom: 1px solid var(--line); position: sticky; left: 0; background: var(--paper); min-width: 7rem; max-width: 12rem; }
.barriers thead th { vertical-align: bottom; font-weight: 600; border-bottom: 2px solid var(--line); }
.barriers thead th:first-child { position: sticky; left: 0; background: var(--paper); }
.barriers .scope th { padding-top: 1rem; font-weight: 600; border-bottom: 1px solid var(--line); }
.barriers .scope span { position: sticky; left: 0; }
.barriers small { display: block; font-weight: 400; color: var(--soft); font-size: .82em; }
.barriers .least b { text-decoration: underline; text-decoration-thickness: 2px; text-underline-offset: .18em; }
.barriers b { font-weight: 600; }
.barriers .none { color: var(--soft); font-style: italic; }
.chart.bar { width: 6.4rem; height: 5px; margin: .12rem 0; background: var(--line); }
details.part { margin: .5rem 0; border: 1px solid var(--line); border-radius: .5rem; padding: .1rem .8rem; background: var(--card); }
details.part > summary { padding: .4rem 0; color: var(--ink); font-weight: 600; }
details.part[open] { padding-bottom: .8rem; }
details summary small { color: var(--soft); font-weight: 400; }
.legend svg { vertical-align: -.05rem; margin-right: .4rem; }
figure { margin: .9rem 0 1.4rem; }
figcaption { font-weight: 600; font-size: .95rem; margin-bottom: .3rem; }
h4 small, figcaption small { font-weight: 400; color: var(--soft); }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: .4rem 1.4rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; align-items: flex-start; }
.tiles figure { margin: .3rem 0; max-width: 100%; }
.tiles .plane + p { max-width: 21rem; }
.chart { display: block; max-width: 100%; height: auto; }
.chart.lines { width: 100%; max-width: 34rem; }
.chart.swatch { display: inline-block; width: 28px; height: 10px; }
caption { text-align: left; color: var(--soft); }
table.list { font-variant-numeric: tabular-nums; }
table.settings td { text-align: left; vertical-align: top; max-width: 36rem; overflow-wrap: anywhere; }
table.settings td:first-child { white-space: nowrap; }
@media (max-width: 30rem) { .barriers th[scope=row] { min-width: 4.6rem; max-width: 6.5rem; overflow-wrap: break-word; } details.part { padding: .1rem .5rem; }
  .facts { grid-template-columns: repeat(3, 1fr); } .facts div { font-size: .8rem; padding: .35rem .55rem; } .facts b { font-size: 1.15rem; }
  .barriers td { min-width: 6.6rem; } }
)css";

}  // namespace regauge::connect
