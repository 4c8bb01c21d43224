// SPDX-License-Identifier: Apache-2.0
// What pages have in common: what they are given and return, links, tiles, charts with gaps.

import { draw, type ChartOptions } from "./chart";
import { clock, el, labelOf, seconds, table, type Column } from "./dom";
import { hashOf, type Period, type State } from "./state";

/** Its elements, and how to draw on them once they are in the document. */
export interface Shown { elements: Node[]; draw?: () => void }
export interface Context {
  state: State; signal: AbortSignal;
  now: number; // ms; of a recording its end
  go: (change: Partial<State>) => void;
  act: (element: HTMLElement) => void; // it is only for who may act
}
export interface Named { id: string; name: string | null; label?: string }

export const POINTS = 240; // of a chart

export const link = (context: Context, text: string, change: Partial<State>): HTMLElement =>
  el("a", { href: hashOf({ ...context.state, other: "", ...change }) }, text);
export const vmLink = (context: Context, vm: Named): HTMLElement => link(context, labelOf(vm), { page: "vms", id: vm.id });
export const tile = (name: string, value: string, title = ""): HTMLElement => el("div", { class: "tile", title }, name, el("b", {}, value));
export const lostOf = (rates: { preempt_share: number; wake_wait_share: number }): number => rates.preempt_share + rates.wake_wait_share;
export const leftOut = (texts: string[]): HTMLElement[] => texts.map((text) => el("p", { class: "note" }, `Figures are missing: ${text}`));

/** Where nothing was measured, a line ends: a time without a value after the last one. */
export function withGaps<T extends { begin_ns: number; end_ns: number }>(items: T[], step_ns: number): { times: number[]; rows: (T | null)[] } {
  const times: number[] = [], rows: (T | null)[] = [];
  let before = 0;
  for (const item of items) {
    if (before && item.begin_ns - before > 1.5 * step_ns) {
      times.push(before / 1e9 + 0.001);
      rows.push(null);
    }
    times.push((item.begin_ns + item.end_ns) / 2e9);
    rows.push(item);
    before = item.end_ns;
  }
  return { times, rows };
}

/** The same as text, made when it is asked for. */
function figures(options: Omit<ChartOptions, "period" | "onSelect">): HTMLElement {
  const details = el("details", { toggle: () => {
    if (details.open && !details.querySelector("table"))
      details.append(table(options.title, [
        { head: "Time", cell: (i) => clock(1e9 * (options.times[i] ?? 0)) },
        ...options.lines.map((line) => ({ head: `${line.label}, ${options.unit}`, number: true, cell: (i: number) => line.values[i]?.toFixed(3) ?? "-" })),
      ] as Column<number>[], options.times.map((_, i) => i), "Nothing is stored for this period."));
  } }, el("summary", {}, "Figures"));
  return details;
}

/** A heading, the lines, and the same as text. begin_ns: of the first figures; "last 7d" of a younger vgpud begins there. */
export function chart(context: Context, asked: Period, begin_ns: number | undefined, all: Omit<ChartOptions, "period" | "onSelect">): { box: HTMLElement; run: () => void } {
  // What nobody measures has no line.
  const options = { ...all, lines: all.lines.filter((line) => line.values.some((value) => value !== null) || all.lines.length === 1) };
  const period = { since: context.state.range ? Math.max(asked.since, (begin_ns ?? 0) / 1e6) : asked.since, until: asked.until };
  const inner = el("div", { class: "chart" }), box = el("div", {}, el("h2", {}, `${all.title} (${all.unit})`), inner, figures(options));
  return { box, run: () => draw(inner, { ...options, period, onSelect: (since, until) => context.go({ range: "", since, until }) }) };
}

/** What programs of the host took, behind host:user. */
export interface Program { comm: string | null; cgroup: string | null; ns: number; error_ns?: number }
export interface ProgramLoss { aggressor: string; ns: number; processes?: Program[]; others?: { ns: number } }

export const mostly = (loss: ProgramLoss): string => loss.processes?.length ? `mostly ${loss.processes[0]?.comm ?? "a program without a name"}` : "";

/** Who is behind host:user, most first; nothing where nobody knows. */
export function programTable(title: string, losses: ProgramLoss[] | undefined): HTMLElement[] {
  const loss = losses?.find((one) => one.aggressor === "host:user");
  if (!loss?.processes?.length)
    return [];
  const rows: Program[] = [...loss.processes, ...(loss.others?.ns ? [{ comm: "others", cgroup: null, ns: loss.others.ns }] : [])];
  return [el("h2", {}, title), table(title, [
    { head: "Program", cell: (program) => program.comm ?? "-" },
    { head: "Took", number: true, cell: (program) => seconds(program.ns) },
    { head: "At most", number: true, cell: (program) => program.error_ns ? seconds(program.ns + program.error_ns) : "" },
    { head: "Control group", cell: (program) => el("div", { class: "why" }, program.cgroup ?? "") },
  ] as Column<Program>[], rows, "")];
}

/** CPU time of programs of the host, most first; nothing where it is not known. */
export function programUse(title: string, programs: Program[], length_ns: number): HTMLElement[] {
  if (!programs.length || !length_ns)
    return [];
  return [el("h2", {}, title), table(title, [
    { head: "Program", cell: (program) => program.comm ?? "-" },
    { head: "Cores", number: true, cell: (program) => (program.ns / length_ns).toFixed(2) },
    { head: "CPU time", number: true, cell: (program) => seconds(program.ns) },
    { head: "Control group", cell: (program) => el("div", { class: "why" }, program.cgroup ?? "") },
  ] as Column<Program>[], programs.slice(0, 8), "")];
}
