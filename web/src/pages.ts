// SPDX-License-Identifier: Apache-2.0
// What each page shows: it asks for its figures and returns its elements, and how to draw on them
// once they are in the document.

import * as api from "./api";
import { chartBox, draw, type ChartOptions, type Line, type Mark } from "./chart";
import { clock, cores, el, labelOf, percent, seconds, table, type Column } from "./dom";
import { hashOf, periodOf, stepOf, timeQuery, type Period, type State } from "./state";

export interface Shown { elements: Node[]; draw?: () => void }
export interface Context {
  state: State; signal: AbortSignal;
  go: (change: Partial<State>) => void;
  act: (element: HTMLElement) => void;
}

const LINES_MAX = 8; // aggressors with a line of their own
const POINTS = 240;

const link = (context: Context, text: string, change: Partial<State>): HTMLElement =>
  el("a", { href: hashOf({ ...context.state, other: "", ...change }) }, text);
const vmLink = (context: Context, vm: { id: string; name: string; label?: string }): HTMLElement =>
  link(context, labelOf(vm), { page: "vms", id: vm.id });
const tile = (name: string, value: string, title = ""): HTMLElement => el("div", { class: "tile", title }, name, el("b", {}, value));
const lostOf = (rates: api.Rates): number => rates.preempt_share + rates.wake_wait_share;

/** Where nothing was measured, a line ends: a time without a value after the last one. */
function withGaps<T extends { begin_ns: number; end_ns: number }>(items: T[], step_ns: number): { times: number[]; rows: (T | null)[] } {
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

function chart(context: Context, period: Period, options: Omit<ChartOptions, "period" | "onSelect">): { box: HTMLElement; run: () => void } {
  const box = chartBox();
  return { box, run: () => draw(box, { ...options, period, onSelect: (since, until) => context.go({ range: "", since, until }) }) };
}

const leftOut = (texts: string[]): HTMLElement[] => texts.map((text) => el("p", { class: "note" }, `Figures are missing: ${text}`));

// ---- host ----

function happenedMarks(items: api.HostStep[]): Mark[] {
  const marks = new Map<number, Mark>();
  for (const event of items.flatMap((item) => item.happened ?? [])) {
    const text = event.what === "away" ? `vgpud: ${event.ended ?? "away"}` : event.what === "clock-set" ? "clock set" : "";
    if (text)
      marks.set(event.at_ns, { at: event.at_ns / 1e9, text });
  }
  return [...marks.values()];
}

function strip(context: Context, cpus: api.Cpus): HTMLElement {
  const length = cpus.end_ns - cpus.begin_ns;
  const colours = ["#2f6fde", "#c2410c", "#15803d", "#9333ea", "#b45309", "#0e7490", "#be185d", "#64748b"];
  return el("div", { class: "cpus" }, ...cpus.items.map((cpu) => {
    const bar = el("div", { class: "bar", "aria-hidden": "true" });
    const vms = [...cpu.vms].sort((a, b) => b.run_ns - a.run_ns).slice(0, 8);
    vms.forEach((vm, i) => {
      const part = el("span", { title: `${labelOf(vm)} ${percent(vm.run_ns / length)}` });
      part.style.width = `${100 * vm.run_ns / length}%`;
      part.style.background = colours[i % colours.length] ?? "";
      bar.append(part);
    });
    if (cpu.busy_ns !== null) {
      const host = el("span", { title: "host" });
      host.style.width = `${100 * Math.max(cpu.busy_ns - cpu.vms_ns, 0) / length}%`;
      host.style.background = "#8a9199";
      bar.append(host);
    }
    const names = el("div", { class: "small" });
    vms.slice(0, 4).forEach((vm, i) => names.append(i ? ", " : "", vmLink(context, vm), ` ${percent(vm.run_ns / length)}`));
    if (vms.length === 0)
      names.append("no VM");
    return el("div", { class: "cpu" }, el("strong", {}, `CPU ${cpu.cpu}`), ` VMs ${percent(cpu.vms_ns / length)}`,
      cpu.busy_ns !== null && `, host ${percent(Math.max(cpu.busy_ns - cpu.vms_ns, 0) / length)}`, bar, names);
  }));
}

export async function hostPage(context: Context): Promise<Shown> {
  const { state, signal } = context, period = periodOf(state), step = stepOf(period, POINTS, 10);
  const [host, history, vms, alerts, cpus] = await Promise.all([
    api.get<api.Host>("/v1/host", signal),
    api.get<api.HostHistory>(`/v1/host/history?${timeQuery(period)}&step=${step}s`, signal),
    api.get<{ items: api.Vm[] }>("/v1/vms?sort=lost&limit=10", signal),
    api.get<{ items: api.Alert[] }>("/v1/alerts", signal),
    api.get<api.Cpus>("/v1/host/cpus", signal).catch(() => null),
  ]);
  const { times, rows } = withGaps(history.items.filter((item) => !item.gap), history.step_ns);
  const value = (read: (item: api.HostStep) => number | null | undefined): (number | null)[] => rows.map((row) => row ? read(row) ?? null : null);
  const use = chart(context, period, { title: "CPU time", unit: "cores", times, stacked: true, marks: happenedMarks(history.items), lines: [
    { label: "VMs", values: value((item) => item.rates?.run_share) },
    { label: "host", values: value((item) => item.own_share), colour: "#8a9199" },
    { label: "stolen", values: value((item) => item.steal_share), colour: "#be185d" },
    { label: "idle", values: value((item) => item.idle_share), colour: "#15803d" },
  ] });
  const lost = chart(context, period, { title: "CPU time that VMs lost", unit: "cores", times, lines: [
    { label: "lost", values: value((item) => item.rates && lostOf(item.rates)), colour: "#b3261e", fill: true },
    { label: "PSI (part of the time)", values: value((item) => item.pressure?.cpu_some), colour: "#9333ea" },
  ] });
  const last = history.items.filter((item) => !item.gap).pop();
  const worst = table("VMs that lose most", [
    { head: "VM", cell: (vm) => vmLink(context, vm) },
    { head: "Lost, cores", number: true, cell: (vm) => cores(vm.newest && lostOf(vm.newest.rates)) },
    { head: "Most to", cell: (vm) => vm.newest?.lost_to[0]?.aggressor_label ?? vm.newest?.lost_to[0]?.aggressor ?? "-" },
    { head: "Used, cores", number: true, cell: (vm) => cores(vm.newest?.rates.run_share) },
    { head: "CPU intensity", number: true, cell: (vm) => percent(vm.newest?.cpu_intensity ?? 0) },
    { head: "GPU intensity", number: true, cell: (vm) => vm.newest?.gpu_known ? percent(vm.newest.gpu_intensity) : "-" },
    { head: "Class", cell: (vm) => vm.class },
  ] as Column<api.Vm>[], vms.items, "No VM is measured.");
  const broken = host.parts.filter((part) => part.state === "failed" || part.state === "degraded");
  return {
    elements: [
      el("div", { class: "tiles" }, tile("CPUs", String(host.cpus)), tile("VMs", String(host.vms)),
        tile("VMs used", `${cores(last?.rates?.run_share)} cores`), tile("VMs lost", `${cores(last?.rates ? lostOf(last.rates) : null)} cores`),
        tile("Host used", `${cores(last?.own_share)} cores`), tile("Load", cores(last?.load)), tile("Measured by", host.measurement.source)),
      ...alerts.items.map((alert) => el("p", {}, el("strong", {}, `Alert ${alert.alert}: `),
        `${alert.display_name ?? alert.vm ?? "the host"}${alert.lost_cores === null ? "" : ` loses ${cores(alert.lost_cores)} cores`}`,
        alert.since_ns !== null && `, since ${clock(alert.since_ns)}`)),
      ...broken.map((part) => el("p", { class: "note" }, `${part.name} is ${part.state}: ${part.reason ?? ""}`)),
      ...leftOut(history.left_out),
      el("h2", {}, "CPU time"), use.box,
      el("h2", {}, "CPU time that VMs lost"), lost.box,
      el("h2", {}, "Who loses most now"), worst,
      el("h2", {}, "Who runs where now"), cpus ? strip(context, cpus) : el("p", { class: "note" }, "It is not known who runs where."),
    ],
    draw: () => { use.run(); lost.run(); },
  };
}

// ---- preemptions ----

export async function preemptionsPage(context: Context): Promise<Shown> {
  const { state, signal } = context, period = periodOf(state);
  const pairs = await api.list<api.Pair>(`/v1/preemptions?${timeQuery(period)}&limit=5000`, 20000, signal);
  const sums = (key: (pair: api.Pair) => string): [string, number][] => {
    const by = new Map<string, number>();
    for (const pair of pairs)
      by.set(key(pair), (by.get(key(pair)) ?? 0) + pair.ns);
    return [...by].sort((a, b) => b[1] - a[1]);
  };
  const victims = sums((pair) => pair.victim.id), aggressors = sums((pair) => pair.aggressor);
  const [rows, columns] = [victims.slice(0, 40), aggressors.slice(0, 16)];
  const cells = new Map(pairs.map((pair) => [`${pair.victim.id}\n${pair.aggressor}`, pair]));
  const names = new Map<string, string>();
  for (const pair of pairs) {
    names.set(pair.victim.id, labelOf(pair.victim));
    names.set(`>${pair.aggressor}`, pair.aggressor_label ?? pair.aggressor);
  }
  const most = Math.max(...pairs.map((pair) => pair.ns), 1);
  const matrix = el("table", { class: "matrix" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "who lost \\ to whom"),
      ...columns.map(([id]) => el("th", { scope: "col" }, names.get(`>${id}`) ?? id)), el("th", { scope: "col" }, "all"))),
    el("tbody", {}, ...rows.map(([victim, all]) => el("tr", {},
      el("th", { scope: "row" }, link(context, names.get(victim) ?? victim, { page: "vms", id: victim })),
      ...columns.map(([aggressor]) => {
        const pair = cells.get(`${victim}\n${aggressor}`);
        const cell = el("td", {}, pair && pair.ns > 0 ? el("button", {
          title: `${names.get(victim)} waited ${seconds(pair.ns)} while ${names.get(`>${aggressor}`)} ran, ${pair.count} preemptions`,
          click: () => context.go({ id: victim, other: aggressor }),
        }, seconds(pair.ns)) : "");
        if (pair && pair.ns > 0)
          cell.style.background = `rgba(var(--heat), ${(0.06 + 0.6 * Math.sqrt(pair.ns / most)).toFixed(3)})`;
        return cell;
      }), el("td", {}, seconds(all))))));
  const elements: Node[] = [el("h2", {}, "Who waited while whom ran")];
  if (pairs.length === 0)
    return { elements: [...elements, el("p", { class: "note" }, "Nobody waited for a CPU in this time, or nothing is stored of it.")] };
  elements.push(el("div", { class: "wide scroll", tabindex: 0, role: "region", "aria-label": "Who waited while whom ran" }, matrix));
  if (victims.length > rows.length || aggressors.length > columns.length)
    elements.push(el("p", { class: "note" }, `${rows.length} of ${victims.length} VMs and ${columns.length} of ${aggressors.length} of those who took, most first.`));
  if (!state.id || !state.other)
    return { elements: [...elements, el("p", { class: "note" }, "Choose a cell to see the two over time.")] };
  const step = stepOf(period, POINTS, 1);
  const samples = await api.get<api.Samples>(`/v1/vms/${encodeURIComponent(state.id)}/samples?${timeQuery(period)}&step=${step}s`, signal);
  const { times, rows: steps } = withGaps(samples.items, samples.step_ns);
  const lost = (item: api.Sample | null): number | null =>
    item && (item.lost_to.find((loss) => loss.aggressor === state.other)?.ns ?? 0) / (item.end_ns - item.begin_ns);
  const title = `${names.get(state.id) ?? state.id} lost to ${names.get(`>${state.other}`) ?? state.other}`;
  const pair = chart(context, period, { title, unit: "cores", times, lines: [{ label: "lost", values: steps.map(lost), colour: "#b3261e", fill: true }] });
  elements.push(el("h2", {}, title), pair.box);
  return { elements, draw: pair.run };
}

// ---- VMs ----

async function vmList(context: Context): Promise<Shown> {
  const vms = await api.list<api.Vm>("/v1/vms?sort=lost&limit=1000", 5000, context.signal);
  return { elements: [el("h2", {}, "VMs, now"), table("VMs", [
    { head: "VM", cell: (vm) => vmLink(context, vm) },
    { head: "State", cell: (vm) => vm.state },
    { head: "Class", cell: (vm) => vm.class },
    { head: "Used, cores", number: true, cell: (vm) => cores(vm.newest?.rates.run_share) },
    { head: "Lost, cores", number: true, cell: (vm) => cores(vm.newest && lostOf(vm.newest.rates)) },
    { head: "Preemptions/s", number: true, cell: (vm) => vm.newest ? vm.newest.rates.preemptions_per_s.toFixed(0) : "-" },
    { head: "Most to", cell: (vm) => vm.newest?.lost_to[0]?.aggressor_label ?? vm.newest?.lost_to[0]?.aggressor ?? "-" },
    { head: "CPU intensity", number: true, cell: (vm) => percent(vm.newest?.cpu_intensity ?? 0) },
    { head: "GPU intensity", number: true, cell: (vm) => vm.newest?.gpu_known ? percent(vm.newest.gpu_intensity) : "-" },
    { head: "Problem", cell: (vm) => vm.problem ?? "" },
  ] as Column<api.Vm>[], vms, "No VM is measured.")] };
}

/** Those who took most, and "others", so that the lines add up to what was lost. */
function lossLines(samples: api.Samples, rows: (api.Sample | null)[]): Line[] {
  const sums = new Map<string, { ns: number; label: string }>();
  for (const loss of samples.items.flatMap((item) => item.lost_to)) {
    const sum = sums.get(loss.aggressor) ?? { ns: 0, label: loss.aggressor_label ?? loss.aggressor };
    sum.ns += loss.ns;
    sums.set(loss.aggressor, sum);
  }
  const top = [...sums].sort((a, b) => b[1].ns - a[1].ns).slice(0, LINES_MAX);
  const named = new Set(top.map(([name]) => name));
  const share = (item: api.Sample | null, counts: (loss: api.Loss) => boolean): number | null =>
    item && item.lost_to.filter(counts).reduce((sum, loss) => sum + loss.ns, 0) / (item.end_ns - item.begin_ns);
  const lines = top.map(([name, sum]) => ({ label: sum.label, values: rows.map((row) => share(row, (loss) => loss.aggressor === name)) }));
  if (sums.size > top.length)
    lines.push({ label: "others", values: rows.map((row) => share(row, (loss) => !named.has(loss.aggressor))) });
  return lines;
}

function moveMarks(moves: api.Migration[]): Mark[] {
  return moves.flatMap((move) => [{ at: move.made_ns / 1e9, text: `to ${move.to}` },
    ...(move.ended_ns ? [{ at: move.ended_ns / 1e9, text: move.state }] : [])]);
}

export async function vmsPage(context: Context): Promise<Shown> {
  const { state, signal } = context;
  if (!state.id)
    return await vmList(context);
  const period = periodOf(state), step = stepOf(period, POINTS, 1), id = encodeURIComponent(state.id);
  const [vm, samples, moves] = await Promise.all([
    api.get<api.Vm>(`/v1/vms/${id}`, signal).catch((error) => {
      if (error instanceof api.ApiError && error.status === 404)
        return null;
      throw error;
    }),
    api.get<api.Samples>(`/v1/vms/${id}/samples?${timeQuery(period)}&step=${step}s`, signal),
    api.list<api.Migration>("/v1/migrations?limit=1000", 1000, signal).catch(() => []),
  ]);
  const { times, rows } = withGaps(samples.items, samples.step_ns);
  const share = (read: (item: api.Sample) => number): (number | null)[] => rows.map((row) => row && read(row) / (row.end_ns - row.begin_ns));
  const known = samples.items.some((item) => item.guest_known), gpu = samples.items.some((item) => item.gpu_known);
  const mine = moves.filter((move) => move.uuid === samples.vm.id || move.vm === samples.vm.name), marks = moveMarks(mine);
  const used = chart(context, period, { title: "CPU time used", unit: "cores", times, stacked: true, marks, lines: known
    ? [{ label: "guest", values: share((item) => item.guest_ns) }, { label: "hypervisor", values: share((item) => item.hyp_ns) }]
    : [{ label: "used", values: share((item) => item.run_ns) }] });
  const lost = chart(context, period, { title: "CPU time lost, to whom", unit: "cores", times, stacked: true, marks, lines: lossLines(samples, rows) });
  const busy = gpu ? chart(context, period, { title: "GPU", unit: "engines", times, marks,
    lines: [{ label: "executing", values: rows.map((row) => row?.gpu_known ? row.gpu_active_ns / (row.end_ns - row.begin_ns) : null), fill: true }] }) : null;
  return {
    elements: [
      el("h2", {}, labelOf(vm ?? samples.vm)),
      vm ? el("div", { class: "tiles" }, tile("State", vm.state), tile("Class", vm.class), tile("Used", `${cores(vm.newest?.rates.run_share)} cores`),
        tile("Lost", `${cores(vm.newest && lostOf(vm.newest.rates))} cores`), tile("CPU intensity", percent(vm.newest?.cpu_intensity ?? 0)),
        tile("GPU intensity", vm.newest?.gpu_known ? percent(vm.newest.gpu_intensity) : "-")) : el("p", { class: "note" }, "It is not here now."),
      ...leftOut(samples.left_out),
      samples.items.length === 0 && el("p", { class: "note" }, "Nothing is stored of it of this time."),
      el("h2", {}, "CPU time used"), used.box, el("h2", {}, "CPU time lost, to whom"), lost.box,
      ...(busy ? [el("h2", {}, "GPU"), busy.box] : []),
      ...(mine.length ? [el("h2", {}, "Moves"), moveTable(context, mine)] : []),
      vm && moveForm(context, vm),
    ].filter((node): node is HTMLElement => !!node),
    draw: () => { used.run(); lost.run(); busy?.run(); },
  };
}

/** Only the answer of a dry run brings the button that moves. */
function moveForm(context: Context, vm: api.Vm): HTMLElement {
  const input = el("input", { name: "to", required: true, "aria-label": "Target host", placeholder: "host" });
  const answer = el("div", { role: "status", "aria-live": "polite" });
  const ask = async (): Promise<void> => {
    const body = { vm: vm.id, to: input.value };
    answer.replaceChildren("asking ...");
    try {
      const check = await api.post<{ verdict?: string; problems?: unknown[]; [more: string]: unknown }>("/v1/migrations", { ...body, dry_run: true });
      const begin = el("button", { type: "button", click: () => {
        api.post<api.Migration>("/v1/migrations", body)
          .then((move) => context.go({ page: "moves", id: move.id }))
          .catch((error: Error) => answer.replaceChildren(error.message));
      } }, `Migrate to ${input.value}`);
      answer.replaceChildren(el("pre", { class: "wide" }, JSON.stringify(check, null, 2)), begin);
    } catch (error) {
      answer.replaceChildren((error as Error).message);
    }
  };
  const form = el("form", { submit: (event) => { event.preventDefault(); void ask(); } }, input, " ", el("button", {}, "Dry run of a move"));
  const box = el("div", { hidden: true }, el("h2", {}, "Move it"), form, answer);
  context.act(box);
  return box;
}

// ---- GPUs ----

function requestLines(canvas: HTMLCanvasElement, requests: api.GpuRequest[]): void {
  const engines = [...new Set(requests.map((request) => request.engine))].sort();
  const known = requests.flatMap((request) => [request.queued_ns, request.run_ns, request.end_ns]).filter((at): at is number => at !== null);
  const begin = known.reduce((a, b) => Math.min(a, b), Infinity), end = known.reduce((a, b) => Math.max(a, b), -Infinity);
  const scale = devicePixelRatio, width = canvas.width = canvas.clientWidth * scale, height = canvas.height = canvas.clientHeight * scale;
  const paint = canvas.getContext("2d");
  if (!paint || !(end > begin))
    return;
  const x = (at: number): number => (at - begin) / (end - begin) * width, row = height / Math.max(engines.length, 1);
  paint.font = `${12 * scale}px system-ui, sans-serif`;
  for (const request of requests) {
    const top = engines.indexOf(request.engine) * row + 16 * scale, start = request.queued_ns ?? request.submitted_ns ?? request.run_ns;
    if (start !== null && request.run_ns !== null) {
      paint.fillStyle = "rgba(194, 65, 12, 0.35)";
      paint.fillRect(x(start), top, Math.max(x(request.run_ns) - x(start), 1), (row - 20 * scale) / 2);
    }
    if (request.run_ns !== null && request.end_ns !== null) {
      paint.fillStyle = "#2f6fde";
      paint.fillRect(x(request.run_ns), top + (row - 20 * scale) / 2, Math.max(x(request.end_ns) - x(request.run_ns), 1), (row - 20 * scale) / 2);
    }
  }
  paint.fillStyle = getComputedStyle(canvas).color;
  engines.forEach((engine, i) => paint.fillText(engine, 2 * scale, i * row + 12 * scale));
}

const middle = (values: number[], part: number): number | null =>
  values.length ? [...values].sort((a, b) => a - b)[Math.min(Math.floor(part * values.length), values.length - 1)] ?? null : null;
const orDash = (ns: number | null): string => ns === null ? "-" : seconds(ns);

export async function gpusPage(context: Context): Promise<Shown> {
  const { state, signal } = context;
  const gpus = await api.list<api.Gpu>("/v1/gpus", 1000, signal);
  const chosen = gpus.find((gpu) => gpu.id === state.id);
  const list = table("GPUs", [
    { head: "GPU", cell: (gpu) => link(context, gpu.id, { page: "gpus", id: gpu.id }) },
    { head: "Model", cell: (gpu) => [gpu.inventory?.vendor, gpu.inventory?.product].filter(Boolean).join(" ") || "-" },
    { head: "Given to", cell: (gpu) => gpu.assigned.map((one) => labelOf(one.vm)).join(", ") || "-" },
    { head: "Measured by", cell: (gpu) => gpu.source ?? "-" },
  ] as Column<api.Gpu>[], gpus, "This host has no GPU that vgpud knows.");
  if (!chosen)
    return { elements: [el("h2", {}, "GPUs"), list] };
  const requests = (await api.get<{ items: api.GpuRequest[] }>(`/v1/gpus/${encodeURIComponent(chosen.id)}/requests?limit=5000`, signal)
    .catch(() => ({ items: [] }))).items;
  const waits = requests.flatMap((one) => one.queued_ns !== null && one.run_ns !== null ? [one.run_ns - one.queued_ns] : []);
  const runs = requests.flatMap((one) => one.run_ns !== null && one.end_ns !== null ? [one.end_ns - one.run_ns] : []);
  const canvas = el("canvas", { class: "requests", role: "img", "aria-label": "Requests over time: waiting above, executing below, a row for each engine" });
  return {
    elements: [el("h2", {}, "GPUs"), list, el("h2", {}, chosen.id),
      el("div", { class: "tiles" }, tile("Requests", String(requests.length), "the newest ones"), tile("Wait, median", orDash(middle(waits, 0.5))),
        tile("Wait, 99 %", orDash(middle(waits, 0.99))), tile("Execution, median", orDash(middle(runs, 0.5))), tile("Execution, 99 %", orDash(middle(runs, 0.99)))),
      el("h2", {}, "Newest requests"), requests.length ? canvas : el("p", { class: "note" }, "No request was recorded.")],
    draw: () => { if (requests.length) requestLines(canvas, requests); },
  };
}

// ---- plans and moves ----

function moveTable(context: Context, moves: api.Migration[]): HTMLElement {
  return table("Moves", [
    { head: "Move", cell: (move) => link(context, move.id, { page: "moves", id: move.id }) },
    { head: "VM", cell: (move) => move.display_name ?? move.vm },
    { head: "From", cell: (move) => move.from },
    { head: "To", cell: (move) => move.to },
    { head: "State", cell: (move) => move.state },
    { head: "Begun", cell: (move) => clock(move.made_ns) },
    { head: "Took", number: true, cell: (move) => move.ended_ns ? seconds(move.ended_ns - move.made_ns) : "-" },
    { head: "Programs stood still", number: true, cell: (move) => move.standstill_ns ? seconds(move.standstill_ns) : "-" },
    { head: "Cause", cell: (move) => move.cause ?? "" },
  ] as Column<api.Migration>[], moves, "Nothing was moved.");
}

export async function movesPage(context: Context): Promise<Shown> {
  const { state, signal } = context;
  const absent = (error: unknown): never[] => {
    if (error instanceof api.ApiError && (error.status === 404 || error.status === 501))
      return [];
    throw error;
  };
  const [moves, plans] = await Promise.all([
    api.list<api.Migration>("/v1/migrations?limit=200", 200, signal).catch(absent),
    api.list<api.PlanRow>("/v1/plans?limit=50", 50, signal).catch(absent),
  ]);
  const elements: Node[] = [];
  const move = moves.find((one) => one.id === state.id);
  if (move) {
    elements.push(el("h2", {}, `${move.display_name ?? move.vm}: ${move.from} to ${move.to}, ${move.state}`),
      ...(move.cause ? [el("p", {}, move.cause)] : []),
      el("p", { class: "note" }, `The VM is on: ${move.vm_on}; its GPU: ${move.gpu}.`),
      table("Steps", [
        { head: "Step", cell: (step) => step.undoes ? `${step.verb} (way back)` : step.verb },
        { head: "Begun", cell: (step) => clock(step.began_ns) },
        { head: "Took", number: true, cell: (step) => step.ended_ns ? seconds(step.ended_ns - step.began_ns) : "goes on" },
        { head: "Outcome", cell: (step) => step.ended_ns && !step.ok ? `failed: ${step.answer ?? ""}` : step.answer ?? "" },
      ] as Column<api.Step>[], move.steps, "It has not begun."));
  }
  const plan = state.id && !move && plans.some((one) => one.id === state.id)
    ? await api.get<api.Plan>(`/v1/plans/${encodeURIComponent(state.id)}`, signal) : null;
  if (plan)
    elements.push(el("h2", {}, `Plan ${plan.id}: ${plan.verdict}`), ...plan.why.map((why) => el("p", { class: "note" }, why)),
      table("Actions", [
        { head: "VM", cell: (action) => action.display_name ?? action.vm },
        { head: "From", cell: (action) => action.from },
        { head: "To", cell: (action) => action.to },
        { head: "Why", cell: (action) => action.reason },
      ] as Column<api.Action>[], plan.actions, "It proposes nothing."));
  elements.push(el("h2", {}, "Moves"), moveTable(context, moves), el("h2", {}, "Plans"), table("Plans", [
    { head: "Plan", cell: (row) => link(context, row.id, { page: "moves", id: row.id }) },
    { head: "Made", cell: (row) => clock(row.made_ns) },
    { head: "Verdict", cell: (row) => row.verdict },
  ] as Column<api.PlanRow>[], plans, "No plan was made."));
  return { elements };
}

// ---- hosts ----

export async function hostsPage(context: Context): Promise<Shown> {
  const hosts = (await api.get<{ items: api.ClusterHost[] }>("/v1/hosts", context.signal)).items;
  return { elements: [el("h2", {}, "Hosts"), table("Hosts", [
    { head: "Host", cell: (host) => host.self ? link(context, host.name, { page: "host", id: "" }) : host.name },
    { head: "State", cell: (host) => host.reason ? `${host.state}: ${host.reason}` : host.state },
    { head: "Age", number: true, cell: (host) => seconds(host.age_ns) },
    { head: "CPUs", number: true, cell: (host) => host.summary ? String(host.summary.cpus) : "-" },
    { head: "VMs", number: true, cell: (host) => host.summary ? String(host.summary.vms) : "-" },
    { head: "VMs want, cores", number: true, cell: (host) => cores(host.summary?.wanted) },
    { head: "Lost, cores", number: true, cell: (host) => cores(host.summary?.lost) },
    { head: "Host uses, cores", number: true, cell: (host) => cores(host.summary?.own) },
    { head: "Free GPUs", number: true, cell: (host) => host.summary ? `${host.summary.gpus_free} of ${host.summary.gpus}` : "-" },
    { head: "vgpud", cell: (host) => host.version ?? "-" },
  ] as Column<api.ClusterHost>[], hosts, "No host is known.")] };
}
