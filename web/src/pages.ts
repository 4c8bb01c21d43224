// SPDX-License-Identifier: Apache-2.0
// What each page shows: it asks for its figures and returns its elements, and how to draw on them
// once they are in the document.

import * as api from "./api";
import { COLOURS, type Line, type Mark } from "./chart";
import { clock, cores, el, labelOf, percent, seconds, table, told, type Column } from "./dom";
import { moveForm, moveTable } from "./moves";
import { chart, leftOut, link, lostOf, mostly, POINTS, programTable, programUse, tile, vmLink, withGaps, type Context, type Shown } from "./parts";
import { periodOf, stepOf, timeOf } from "./state";

const LINES_MAX = 8; // aggressors with a line of their own
// The aggressors other than VMs.
const KINDS: Record<string, string> = {
  "self": "another thread of the same VM", "host:user": "host programs", "host:kernel": "threads of the host's kernel",
  "host:idle": "the CPU was idle", "host:unknown": "unknown", "limit": "the VM's own CPU quota was used up",
  "rest": "all others combined",
};

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

function strip(context: Context, cpus: api.HostCpus): HTMLElement {
  const length = (cpus.end_ns ?? 0) - (cpus.begin_ns ?? 0) || 1;
  const ran = new Map<string, number>();
  for (const vm of cpus.items.flatMap((cpu) => cpu.vms))
    ran.set(vm.id, (ran.get(vm.id) ?? 0) + vm.run_ns);
  // A VM has one colour on all CPUs.
  const colours = new Map([...ran].sort((a, b) => b[1] - a[1]).map(([id], i) => [id, COLOURS[i % COLOURS.length] ?? ""]));
  const coloured = (vm: { id: string }, attributes: { class?: string; title?: string }): HTMLElement => {
    const part = el("span", attributes);
    part.style.background = colours.get(vm.id) ?? "";
    return part;
  };
  return el("div", { class: "cpus" }, ...cpus.items.map((cpu) => {
    const bar = el("div", { class: "bar", "aria-hidden": "true" });
    const vms = [...cpu.vms].sort((a, b) => b.run_ns - a.run_ns).slice(0, 8);
    for (const vm of vms) {
      const part = coloured(vm, { title: `${labelOf(vm)} ${percent(vm.run_ns / length)}` });
      part.style.width = `${100 * vm.run_ns / length}%`;
      bar.append(part);
    }
    if (cpu.busy_ns !== null) {
      const host = el("span", { title: "host" });
      host.style.width = `${100 * Math.max(cpu.busy_ns - cpu.vms_ns, 0) / length}%`;
      host.style.background = "#8a9199";
      bar.append(host);
    }
    const names = el("div", { class: "small" });
    vms.slice(0, 4).forEach((vm, i) => names.append(i ? ", " : "", coloured(vm, { class: "swatch" }), vmLink(context, vm), ` ${percent(vm.run_ns / length)}`));
    if (vms.length === 0)
      names.append("no VM");
    return el("div", { class: "cpu" }, el("strong", {}, `CPU ${cpu.cpu}`), ` VMs ${percent(cpu.vms_ns / length)}`,
      cpu.busy_ns !== null && `, host ${percent(Math.max(cpu.busy_ns - cpu.vms_ns, 0) / length)}`, bar, names);
  }));
}

export async function hostPage(context: Context): Promise<Shown> {
  const { state, signal } = context, period = periodOf(state, context.now), step = stepOf(period, POINTS, 10);
  const [host, history, vms, alerts, cpus, past] = await Promise.all([
    api.get("/v1/host", {}, signal),
    api.get("/v1/host/history", { ...timeOf(period), step: `${step}s` }, signal),
    api.get("/v1/vms", { sort: "lost", limit: 10 }, signal),
    api.get("/v1/alerts", {}, signal),
    api.get("/v1/host/cpus", {}, signal).catch(() => null),
    api.get("/v1/vms", { ...timeOf(period), limit: 1 }, signal),
  ]);
  const measured = history.items.filter((item) => !item.gap), last = measured[measured.length - 1];
  const { times, rows } = withGaps(measured, history.step_ns), begin = measured[0]?.begin_ns;
  const value = (read: (item: api.HostStep) => number | null | undefined): (number | null)[] => rows.map((row) => row ? read(row) ?? null : null);
  const use = chart(context, period, begin, { title: "CPU time", unit: "cores", times, stacked: true, marks: happenedMarks(history.items), lines: [
    { label: "VMs", values: value((item) => item.rates?.run_share) },
    { label: "host", values: value((item) => item.own_share), colour: "#8a9199" },
    { label: "stolen", values: value((item) => item.steal_share), colour: "#be185d" },
    { label: "idle", values: value((item) => item.idle_share), colour: "#15803d" },
  ] });
  const lost = chart(context, period, begin, { title: "CPU time that VMs lost", unit: "cores", times, lines: [
    { label: "lost", values: value((item) => item.rates && lostOf(item.rates)), colour: "#b3261e", fill: true },
  ] });
  const pressure = value((item) => item.pressure && 100 * item.pressure.cpu_some);
  const waits = pressure.every((share) => share === null) ? null : chart(context, period, begin, {
    title: "Pressure: at least one thread waited for a CPU", unit: "% of the time", times, lines: [{ label: "CPU pressure (PSI)", values: pressure, colour: "#9333ea" }] });
  const worst = table("VMs with the largest losses", [
    { head: "VM", cell: (vm) => vmLink(context, vm) },
    { head: "Lost, cores", number: true, cell: (vm) => cores(vm.newest && lostOf(vm.newest.rates)) },
    { head: "Lost most to", cell: (vm) => vm.newest?.lost_to[0]?.aggressor_label ?? vm.newest?.lost_to[0]?.aggressor ?? "-" },
    { head: "Used, cores", number: true, cell: (vm) => cores(vm.newest?.rates.run_share) },
    { head: "CPU intensity", number: true, cell: (vm) => percent(vm.newest?.cpu_intensity ?? 0) },
    { head: "GPU intensity", number: true, cell: (vm) => vm.newest?.gpu_known ? percent(vm.newest.gpu_intensity) : "-" },
    { head: "Class", cell: (vm) => vm.class },
  ] as Column<api.VmSummary>[], vms.items, "No VM is measured.");
  const programs = host.measurement.programs;
  const broken = host.parts.filter((part) => part.state === "failed" || part.state === "degraded");
  return {
    elements: [
      el("div", { class: "tiles" }, tile("CPUs", String(host.cpus)), tile("VMs", String(host.vms)),
        tile("VMs used", `${cores(last?.rates?.run_share)} cores`), tile("VMs lost", `${cores(last?.rates ? lostOf(last.rates) : null)} cores`),
        tile("Host used", `${cores(last?.own_share)} cores`), tile("Load", cores(last?.load)), tile("Measured by", host.daemon.replay ? "a recording" : host.measurement.source ?? "-", host.measurement.source ?? "")),
      ...alerts.items.map((alert) => el("p", {}, el("strong", {}, `Alert ${alert.alert}: `),
        `${alert.label ?? alert.vm ?? "the host"}${alert.lost_cores === null ? "" : ` loses ${cores(alert.lost_cores)} cores`}`,
        alert.since_ns !== null && `, since ${clock(alert.since_ns)}`)),
      ...broken.map((part) => el("p", { class: "note" }, `${part.name} is ${part.state}: ${part.reason ?? ""}`)),
      ...leftOut(history.left_out),
      use.box, lost.box, ...(waits ? [waits.box] : []),
      el("h2", {}, "VMs with the largest losses now"), worst,
      ...programTable("Host programs that took CPU time from VMs", past.host.lost_to),
      ...programUse("CPU time of host programs", past.programs, past.length_ns),
      ...(programs ? programUse("CPU time of host programs now", programs.newest.items, programs.newest.end_ns - programs.newest.begin_ns) : []),
      el("h2", {}, "CPUs and their VMs now"), cpus ? strip(context, cpus) : el("p", { class: "note" }, "It is unknown which VMs run on which CPUs."),
    ],
    draw: () => { use.run(); lost.run(); waits?.run(); },
  };
}

// ---- preemptions ----

type Pair = api.PastPreemptions["items"][number];

export async function preemptionsPage(context: Context): Promise<Shown> {
  const { state, signal } = context, period = periodOf(state, context.now);
  const pairs = await api.list("/v1/preemptions", { ...timeOf(period), limit: 5000 }, 20000, signal);
  const sums = (key: (pair: Pair) => string): [string, number][] => {
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
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "victim \\ aggressor"),
      ...columns.map(([id]) => el("th", { scope: "col" }, names.get(`>${id}`) ?? id)), el("th", { scope: "col" }, "all"))),
    el("tbody", {}, ...rows.map(([victim, all]) => el("tr", {},
      el("th", { scope: "row" }, link(context, names.get(victim) ?? victim, { page: "vms", id: victim })),
      ...columns.map(([aggressor]) => {
        const pair = cells.get(`${victim}\n${aggressor}`);
        const cell = el("td", {}, pair && pair.ns > 0 ? el("button", {
          "data-key": `${victim} ${aggressor}`,
          title: `${names.get(victim)} waited ${seconds(pair.ns)} while ${names.get(`>${aggressor}`)} ran, ${pair.count} preemptions${pair.processes?.length ? `, ${mostly(pair)}` : ""}`,
          click: () => context.go({ id: victim, other: aggressor }),
        }, seconds(pair.ns), pair.processes?.length ? el("small", {}, ` ${mostly(pair)}`) : "") : "");
        if (pair && pair.ns > 0)
          cell.style.background = `rgba(var(--heat), ${(0.06 + 0.6 * Math.sqrt(pair.ns / most)).toFixed(3)})`;
        return cell;
      }), el("td", {}, seconds(all))))));
  const elements: Node[] = [el("h2", {}, "Which VMs waited, and what ran instead")];
  if (pairs.length === 0)
    return { elements: [...elements, el("p", { class: "note" }, "No VM waited for a CPU in this period, or nothing is stored for it.")] };
  elements.push(el("div", { class: "wide scroll", tabindex: 0, role: "region", "aria-label": "Which VMs waited, and what ran instead" }, matrix));
  if (victims.length > rows.length || aggressors.length > columns.length)
    elements.push(el("p", { class: "note" }, `${rows.length} of ${victims.length} VMs and ${columns.length} of ${aggressors.length} aggressors are shown, those with the largest times.`));
  const kinds = columns.filter(([id]) => id in KINDS).map(([id]) => `${id}: ${KINDS[id]}`);
  if (kinds.length)
    elements.push(el("p", { class: "note" }, `${kinds.join("; ")}.`));
  if (!state.id || !state.other)
    return { elements: [...elements, el("p", { class: "note" }, "Click a cell to see the pair over time.")] };
  const step = stepOf(period, POINTS, 1);
  const samples = await api.get("/v1/vms/{id}/samples", { ...timeOf(period), step: `${step}s` }, signal, state.id);
  const { times, rows: steps } = withGaps(samples.items, samples.step_ns);
  const lost = (item: api.Sample | null): number | null =>
    item && (item.lost_to.find((loss) => loss.aggressor === state.other)?.ns ?? 0) / (item.end_ns - item.begin_ns);
  const title = `${names.get(state.id) ?? state.id} lost to ${names.get(`>${state.other}`) ?? state.other}`;
  const pair = chart(context, period, samples.items[0]?.begin_ns, { title, unit: "cores", times, lines: [{ label: "lost", values: steps.map(lost), colour: "#b3261e", fill: true }] });
  elements.push(pair.box);
  const chosen = cells.get(`${state.id}\n${state.other}`);
  elements.push(...programTable("Host programs behind host:user", chosen && [chosen]));
  return { elements, draw: pair.run };
}

// ---- VMs ----

async function vmList(context: Context): Promise<Shown> {
  const { state, signal } = context;
  if (!state.range) {
    const past = await api.list("/v1/vms", { ...timeOf(periodOf(state, context.now)), limit: 1000 }, 5000, signal);
    return { elements: [el("h2", {}, "VMs in the selected period"), table("VMs", [
      { head: "VM", cell: (vm) => vmLink(context, vm) },
      { head: "Present", number: true, cell: (vm) => percent(vm.present) },
      { head: "Used, cores", number: true, cell: (vm) => cores(vm.rates.run_share) },
      { head: "Lost, cores", number: true, cell: (vm) => cores(lostOf(vm.rates)) },
      { head: "Preemptions/s", number: true, cell: (vm) => vm.rates.preemptions_per_s.toFixed(0) },
      { head: "Lost most to", cell: (vm) => vm.lost_to[0]?.aggressor_label ?? vm.lost_to[0]?.aggressor ?? "-" },
      { head: "CPU intensity", number: true, cell: (vm) => percent(vm.cpu_intensity) },
      { head: "GPU intensity", number: true, cell: (vm) => vm.gpu_known ? percent(vm.gpu_intensity) : "-" },
      { head: "", cell: (vm) => vm.gone ? "gone" : "" },
    ] as Column<api.PastVm>[], past, "Nothing is stored for this period.")] };
  }
  const vms = await api.list("/v1/vms", { sort: "lost", limit: 1000 }, 5000, signal);
  return { elements: [el("h2", {}, "VMs now"), table("VMs", [
    { head: "VM", cell: (vm) => vmLink(context, vm) },
    { head: "State", cell: (vm) => vm.state },
    { head: "Class", cell: (vm) => vm.class },
    { head: "Used, cores", number: true, cell: (vm) => cores(vm.newest?.rates.run_share) },
    { head: "Lost, cores", number: true, cell: (vm) => cores(vm.newest && lostOf(vm.newest.rates)) },
    { head: "Preemptions/s", number: true, cell: (vm) => vm.newest ? vm.newest.rates.preemptions_per_s.toFixed(0) : "-" },
    { head: "Lost most to", cell: (vm) => vm.newest?.lost_to[0]?.aggressor_label ?? vm.newest?.lost_to[0]?.aggressor ?? "-" },
    { head: "CPU intensity", number: true, cell: (vm) => percent(vm.newest?.cpu_intensity ?? 0) },
    { head: "GPU intensity", number: true, cell: (vm) => vm.newest?.gpu_known ? percent(vm.newest.gpu_intensity) : "-" },
    { head: "Problem", cell: (vm) => el("div", { class: "why" }, vm.problem ?? "") },
  ] as Column<api.VmSummary>[], vms, "No VM is measured.")] };
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
  const share = (item: api.Sample | null, counts: (loss: { aggressor: string }) => boolean): number | null =>
    item && item.lost_to.filter(counts).reduce((sum, loss) => sum + loss.ns, 0) / (item.end_ns - item.begin_ns);
  const lines = top.map(([name, sum]) => ({ label: sum.label, values: rows.map((row) => share(row, (loss) => loss.aggressor === name)) }));
  if (sums.size > top.length)
    lines.push({ label: "others", values: rows.map((row) => share(row, (loss) => !named.has(loss.aggressor))) });
  return lines;
}

function moveMarks(moves: api.MigrationSummary[]): Mark[] {
  return moves.flatMap((move) => [{ at: move.made_ns / 1e9, text: `to ${move.to}` },
    ...(move.ended_ns ? [{ at: move.ended_ns / 1e9, text: move.state }] : [])]);
}

/** Why the guest was left, of the time shown. */
function exitTable(samples: api.Samples): HTMLElement[] {
  const sums = new Map<string, number>();
  for (const [why, count] of samples.items.flatMap((item) => item.guest_known ? Object.entries(item.exits) : []))
    sums.set(why, (sums.get(why) ?? 0) + count);
  const all = [...sums.values()].reduce((sum, count) => sum + count, 0);
  return all === 0 ? [] : [el("h2", {}, "Exits from the guest"), table("Exits from the guest", [
    { head: "Why", cell: ([why]) => why },
    { head: "Count", number: true, cell: ([, count]) => String(count) },
    { head: "Share", number: true, cell: ([, count]) => percent(count / all) },
  ] as Column<[string, number]>[], [...sums].sort((a, b) => b[1] - a[1]), "")];
}

function gpuTable(context: Context, gpus: api.VmGpu): HTMLElement[] {
  return [el("h2", {}, "GPU now"), table("GPU now", [
    { head: "GPU", cell: (one) => link(context, one.device, { page: "gpus", id: one.device }) },
    { head: "Engine", cell: (one) => one.engine },
    { head: "Busy", number: true, cell: (one) => told(one.share, percent) },
    { head: "Waited", number: true, cell: (one) => told(one.wait_ns, seconds) },
    { head: "Ran", number: true, cell: (one) => told(one.exec_ns, seconds) },
    { head: "Requests", number: true, cell: (one) => told(one.requests, String) },
    { head: "Open", number: true, cell: (one) => told(one.open, String) },
    { head: "Oldest", number: true, cell: (one) => told(one.open_oldest_ns, seconds) },
    { head: "Latency p50", number: true, cell: (one) => told(one.latency_p50_ns, seconds) },
    { head: "Latency p99", number: true, cell: (one) => told(one.latency_p99_ns, seconds) },
  ] as Column<api.GpuUse>[], gpus.newest?.gpu ?? gpus.gpu, "The VM has not used a GPU.")];
}

export async function vmsPage(context: Context): Promise<Shown> {
  const { state, signal } = context;
  if (!state.id)
    return await vmList(context);
  const period = periodOf(state, context.now), step = stepOf(period, POINTS, 1);
  const gone = (error: unknown): null => {
    if (error instanceof api.ApiError && error.status === 404)
      return null;
    throw error;
  };
  const [vm, samples, gpus, moves] = await Promise.all([
    api.get("/v1/vms/{id}", {}, signal, state.id).catch(gone),
    api.get("/v1/vms/{id}/samples", { ...timeOf(period), step: `${step}s` }, signal, state.id),
    api.get("/v1/vms/{id}/gpu", {}, signal, state.id).catch(gone),
    api.list("/v1/migrations", { limit: 1000 }, 1000, signal).catch(() => []),
  ]);
  const { times, rows } = withGaps(samples.items, samples.step_ns);
  const share = (read: (item: api.Sample) => number): (number | null)[] => rows.map((row) => row && read(row) / (row.end_ns - row.begin_ns));
  const known = samples.items.some((item) => item.guest_known), gpu = samples.items.some((item) => item.gpu_known);
  const mine = moves.filter((move) => move.uuid === samples.vm.id || move.vm === samples.vm.name), marks = moveMarks(mine);
  const newest = [...mine].sort((a, b) => b.made_ns - a.made_ns)[0];
  const begin = samples.items[0]?.begin_ns;
  const used = chart(context, period, begin, { title: "CPU time used", unit: "cores", times, stacked: true, marks, lines: known
    ? [{ label: "guest", values: share((item) => item.guest_ns) }, { label: "hypervisor", values: share((item) => item.hyp_ns) }]
    : [{ label: "used", values: share((item) => item.run_ns) }] });
  const lost = chart(context, period, begin, { title: "CPU time lost, by aggressor", unit: "cores", times, stacked: true, marks, lines: lossLines(samples, rows) });
  const busy = gpu ? chart(context, period, begin, { title: "GPU execution", unit: "engines", times, marks,
    lines: [{ label: "executing", values: rows.map((row) => row?.gpu_known ? row.gpu_active_ns / (row.end_ns - row.begin_ns) : null), fill: true }] }) : null;
  return {
    elements: [
      el("h2", {}, labelOf(vm ?? { ...samples.vm, name: samples.vm.name ?? newest?.vm ?? null })),
      vm ? el("div", { class: "tiles" }, tile("State", vm.state), tile("Class", vm.class), tile("Used", `${cores(vm.newest?.rates.run_share)} cores`),
        tile("Lost", `${cores(vm.newest && lostOf(vm.newest.rates))} cores`), tile("CPU intensity", percent(vm.newest?.cpu_intensity ?? 0)),
        tile("GPU intensity", vm.newest?.gpu_known ? percent(vm.newest.gpu_intensity) : "-")) : el("p", { class: "note" }, `The VM is not on this host now.${
          newest?.state === "done" ? ` It was moved to ${newest.to}.` : ""}`),
      ...leftOut(samples.left_out),
      samples.items.length === 0 && el("p", { class: "note" }, "Nothing is stored about this VM for this period."),
      used.box, lost.box,
      ...programTable("Host programs that took its CPU time, since vgpud started", vm?.lost_to),
      ...exitTable(samples),
      busy?.box,
      ...(gpus?.gpu_known ? gpuTable(context, gpus) : []),
      ...(mine.length ? [el("h2", {}, "Moves"), moveTable(context, mine)] : []),
      vm && moveForm(context, vm),
    ].filter((node): node is HTMLElement => !!node),
    draw: () => { used.run(); lost.run(); busy?.run(); },
  };
}

// ---- hosts ----

export async function hostsPage(context: Context): Promise<Shown> {
  const hosts = (await api.get("/v1/hosts", {}, context.signal)).items;
  return { elements: [el("h2", {}, "Hosts"), table("Hosts", [
    { head: "Host", cell: (host) => host.self ? link(context, host.name, { page: "host", id: "" }) : host.name },
    { head: "State", cell: (host) => el("div", { class: "why" }, [host.state, host.maintenance && "in maintenance", host.reason].filter(Boolean).join(": ")) },
    { head: "Age", number: true, cell: (host) => host.age_ns === null ? "never" : host.age_ns < 1e9 ? "now" : seconds(host.age_ns) },
    { head: "CPUs", number: true, cell: (host) => host.summary ? String(host.summary.cpus) : "-" },
    { head: "VMs", number: true, cell: (host) => host.summary ? String(host.summary.vms) : "-" },
    { head: "VMs want, cores", number: true, cell: (host) => cores(host.summary?.wanted) },
    { head: "Lost, cores", number: true, cell: (host) => cores(host.summary?.lost) },
    { head: "Host uses, cores", number: true, cell: (host) => cores(host.summary?.own) },
    { head: "GPUs", number: true, cell: (host) => host.summary ? String(host.summary.gpus) : "-" },
    { head: "GPUs or vGPUs free", number: true, cell: (host) => host.summary ? String(host.summary.gpus_free) : "-" },
    { head: "vgpud", cell: (host) => host.version ?? "-" },
    { head: "Stored, GiB", number: true, cell: (host) => host.summary?.store_bytes ? (host.summary.store_bytes / 2 ** 30).toFixed(2) : "-" },
  ] as Column<api.KnownHost>[], hosts, "No host is known.")] };
}
