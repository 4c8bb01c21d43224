// SPDX-License-Identifier: Apache-2.0
// GPUs: engines, queue, latency, who uses them, and when which request waited and ran.

import * as api from "./api";
import { bytes, el, labelOf, percent, seconds, table, told, type Column } from "./dom";
import { link, tile, vmLink, type Context, type Shown } from "./parts";

const MOST = 10000;                        // requests of one answer
const LENGTHS = [60, 10, 2, 0.5, 0.1];     // seconds before the newest, until they are not too many
const LANES_MOST = 12;
const SELECT_LEAST = 6;                    // CSS pixels

const rank = (values: number[], part: number): number | null =>
  values.length ? [...values].sort((a, b) => a - b)[Math.max(Math.ceil(part * values.length) - 1, 0)] ?? null : null;
const orDash = (ns: number | null): string => ns === null ? "-" : seconds(ns);

/** Of the time that is chosen, or else the newest ones. Times are of the raw clock, beyond what numbers hold. */
async function ask(context: Context, id: string): Promise<api.GpuRequests> {
  const { state, signal } = context, path = "/v1/gpus/{id}/requests";
  const first = await api.get(path, { limit: 1 }, signal, id);
  if (!state.range) {
    const raw = (ms: number): string => {
      const at = BigInt(Math.round(1000 * ms)) * 1000n - BigInt(first.clock_offset_ns);
      return (at > 0n ? at : 0n).toString();
    };
    return await api.get(path, { since: raw(state.since), until: raw(state.until), limit: MOST }, signal, id);
  }
  let answer = first;
  for (const length of LENGTHS) {
    answer = await api.get(path, { since: String(Math.max((first.newest_ns ?? 0) - 1e9 * length, 0)), limit: MOST }, signal, id);
    if (!answer.more)
      break;
  }
  return answer;
}

interface Lane { name: string; requests: api.GpuRequest[] }

function lanesOf(requests: api.GpuRequest[]): Lane[] {
  const lanes = new Map<string, api.GpuRequest[]>();
  for (const request of requests) {
    const name = `${request.engine}  ${request.vm ? labelOf(request.vm) : request.pid ? `process ${request.pid}` : "host"}`;
    const lane = lanes.get(name);
    if (lane)
      lane.push(request);
    else
      lanes.set(name, [request]);
  }
  return [...lanes].sort((a, b) => b[1].length - a[1].length).slice(0, LANES_MOST).sort((a, b) => a[0] < b[0] ? -1 : 1)
    .map(([name, of]) => ({ name, requests: of }));
}

const beginOf = (one: api.GpuRequest): number | null => one.queued_ns ?? one.submitted_ns ?? one.ready_ns ?? one.run_ns;

/** Waiting above and running below, a lane for each engine and VM. Selecting a part shows that time. */
function timeline(context: Context, answer: api.GpuRequests): { box: HTMLElement; run: () => void } {
  const lanes = lanesOf(answer.items), head = 18, row = 40, foot = 18;
  const known = answer.items.flatMap((one) => [beginOf(one), one.end_ns]).filter((at): at is number => at !== null);
  const begin = known.reduce((a, b) => Math.min(a, b), Infinity), end = Math.max(known.reduce((a, b) => Math.max(a, b), -Infinity), begin + 1);
  const canvas = el("canvas", { class: "requests", role: "img",
    "aria-label": `${answer.items.length} requests over ${seconds(end - begin)}: waiting time above, running time below, one lane for each engine and VM` });
  canvas.style.height = `${lanes.length * row + foot}px`;
  const mark = el("div", { class: "mark", hidden: true });
  const box = el("div", { class: "timeline" }, canvas, mark);
  let from = -1;
  canvas.addEventListener("pointerdown", (event) => {
    from = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    mark.hidden = from < 0;
    mark.style.left = `${Math.min(from, event.offsetX)}px`;
    mark.style.width = `${Math.abs(event.offsetX - from)}px`;
  });
  canvas.addEventListener("pointerup", (event) => {
    const [a, b] = [Math.min(from, event.offsetX), Math.max(from, event.offsetX)];
    from = -1;
    mark.hidden = true;
    const at = (x: number): number => (begin + (end - begin) * x / canvas.clientWidth + answer.clock_offset_ns) / 1e6;
    if (b - a >= SELECT_LEAST)
      context.go({ range: "", since: at(a), until: Math.max(at(b), at(a) + 1) });
  });
  const run = (): void => {
    const scale = devicePixelRatio, paint = canvas.getContext("2d");
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    if (!paint)
      return;
    paint.scale(scale, scale);
    paint.font = "12px system-ui, sans-serif";
    const x = (at: number): number => (at - begin) / (end - begin) * canvas.clientWidth, bar = (row - head) / 2 - 1;
    const front = getComputedStyle(canvas).color;
    lanes.forEach((lane, i) => {
      const top = i * row + head;
      for (const one of lane.requests) {
        const start = beginOf(one);
        paint.fillStyle = "rgba(220, 90, 20, 0.55)";
        if (start !== null && one.run_ns !== null && one.run_ns > start)
          paint.fillRect(x(start), top, Math.max(x(one.run_ns) - x(start), 0.75), bar);
        paint.fillStyle = "#3b7ae8";
        if (one.run_ns !== null && one.end_ns !== null)
          paint.fillRect(x(one.run_ns), top + bar, Math.max(x(one.end_ns) - x(one.run_ns), 0.75), bar);
      }
      paint.fillStyle = front;
      paint.fillText(lane.name, 2, top - 5);
    });
    paint.fillStyle = front;
    const first = new Date((begin + answer.clock_offset_ns) / 1e6);
    paint.fillText(`${first.toLocaleTimeString()}, ${String(first.getMilliseconds()).padStart(3, "0")} ms`, 2, canvas.clientHeight - 4);
    paint.textAlign = "right";
    paint.fillText(`+ ${seconds(end - begin)}`, canvas.clientWidth - 2, canvas.clientHeight - 4);
  };
  return { box, run };
}

function engineTable(engines: api.GpuUse[]): HTMLElement {
  return table("Engines", [
    { head: "Engine", cell: (one) => one.engine },
    { head: "Busy", number: true, cell: (one) => told(one.share, percent) },
    { head: "Requests", number: true, cell: (one) => told(one.requests, String) },
    { head: "Queue, mean", number: true, cell: (one) => told(one.queue_len_avg, (mean) => mean.toFixed(2)) },
    { head: "Queue, maximum", number: true, cell: (one) => told(one.queue_len_max, String) },
    { head: "Open", number: true, cell: (one) => told(one.open, String) },
    { head: "Oldest", number: true, cell: (one) => told(one.open_oldest_ns, seconds) },
    { head: "Latency p50", number: true, cell: (one) => told(one.latency_p50_ns, seconds) },
    { head: "Latency p99", number: true, cell: (one) => told(one.latency_p99_ns, seconds) },
    { head: "Waited", number: true, cell: (one) => told(one.wait_ns, seconds) },
    { head: "Memory", number: true, cell: (one) => told(one.mem_bytes, bytes) },
  ] as Column<api.GpuUse>[], engines, "No source reports the use of its engines.");
}

async function gpuShown(context: Context, gpu: api.Gpu): Promise<Shown> {
  const users = gpu.newest ?? gpu;
  const answer = await ask(context, gpu.id).catch((error: unknown) => {
    if (error instanceof api.ApiError && (error.status === 409 || error.status === 400))
      return error;
    throw error;
  });
  const elements: Node[] = [el("h2", {}, `Engines of ${gpu.id}, ${gpu.newest ? "now" : "since the start"}`), engineTable(users.engines),
    el("h2", {}, "Users"), table("VMs that use this GPU", [
      { head: "VM", cell: (one) => vmLink(context, one.vm) },
      { head: "Engine", cell: (one) => one.engine },
      { head: "Busy", number: true, cell: (one) => told(one.share, percent) },
      { head: "Ran", number: true, cell: (one) => told(one.busy_ns, seconds) },
      { head: "Waited", number: true, cell: (one) => told(one.wait_ns, seconds) },
      { head: "Requests", number: true, cell: (one) => told(one.requests, String) },
      { head: "Memory", number: true, cell: (one) => told(one.mem_bytes, bytes) },
      { head: "Contexts", number: true, cell: (one) => one.contexts ? String(one.contexts) : "-" },
    ] as Column<api.GpuVm>[], users.vms, "No VM uses this GPU.")];
  if (gpu.note)
    elements.push(el("p", { class: "note" }, gpu.note));
  if (answer instanceof api.ApiError)
    return { elements: [...elements, el("h2", {}, "Requests"), el("p", { class: "note" }, answer.message)] };
  const lasted = answer.items.flatMap((one) => { const from = beginOf(one); return from !== null && one.end_ns !== null ? [one.end_ns - from] : []; });
  const waits = answer.items.flatMap((one) => { const from = beginOf(one); return from !== null && one.run_ns !== null ? [one.run_ns - from] : []; });
  const lines = timeline(context, answer);
  elements.push(el("h2", {}, "Requests"), el("div", { class: "tiles" },
    tile("Requests", answer.more ? `${answer.items.length} or more` : String(answer.items.length), "requests that ended in the period shown"),
    tile("Latency p50", orDash(rank(lasted, 0.5))), tile("Latency p99", orDash(rank(lasted, 0.99))),
    tile("Wait p50", orDash(rank(waits, 0.5))), tile("Wait p99", orDash(rank(waits, 0.99)))));
  if (answer.left_out)
    elements.push(el("p", { class: "note" }, `${answer.left_out} requests were not retained.`));
  if (!answer.items.length)
    return { elements: [...elements, el("p", { class: "note" }, "No requests are stored for this period.")] };
  elements.push(lines.box, el("p", { class: "note" }, "Orange: the request waits. Blue: the request runs. Select a period to enlarge it."));
  return { elements, draw: lines.run };
}

function largestText(one: api.Gpu["largest_free"]): string {
  if (!one || one.state === "unknown")
    return "-";
  return one.state === "none" ? "none" : one.name ?? one.type ?? "-";
}

export async function gpusPage(context: Context): Promise<Shown> {
  const gpus = await api.list("/v1/gpus", { limit: 1000 }, 1000, context.signal);
  const chosen = gpus.find((gpu) => gpu.id === context.state.id) ?? (gpus.length === 1 ? gpus[0] : undefined);
  const list = table("GPUs", [
    { head: "GPU", cell: (gpu) => link(context, gpu.id, { page: "gpus", id: gpu.id }) },
    { head: "Model", cell: (gpu) => [gpu.inventory?.vendor, gpu.inventory?.product].filter(Boolean).join(" ") || "-" },
    { head: "Assigned to", cell: (gpu) => gpu.assigned.map((one) => labelOf(one.vm)).join(", ") || "-" },
    { head: "Largest free profile", cell: (gpu) => largestText(gpu.largest_free) },
    { head: "Measured by", cell: (gpu) => gpu.source ?? "-" },
  ] as Column<api.Gpu>[], gpus, "vgpud has found no GPU on this host.");
  const elements = [el("h2", {}, "GPUs"), list];
  if (!chosen)
    return { elements };
  const shown = await gpuShown(context, chosen);
  return { ...shown, elements: [...elements, ...shown.elements] };
}
