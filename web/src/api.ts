// SPDX-License-Identifier: Apache-2.0
// What vgpud answers. The token is kept in memory only, and goes into a header.

export interface Rates { run_share: number; preempt_share: number; wake_wait_share: number; preemptions_per_s: number }
export interface Loss { aggressor: string; aggressor_label?: string; ns: number; count: number }
export interface Vm {
  id: string; name: string; label?: string; class: string; state: string; cpu_intensity: number; gpu_intensity: number;
  gpu_known: boolean; problem: string | null; rates: Rates; lost_to: Loss[];
  newest: { rates: Rates; cpu_intensity: number; gpu_intensity: number; gpu_known: boolean; lost_to: Loss[] } | null;
}
export interface Sample {
  begin_ns: number; end_ns: number; windows: number; observed_ns: number; run_ns: number; preempt_ns: number;
  wake_wait_ns: number; guest_ns: number; hyp_ns: number; guest_known: boolean; gpu_known: boolean; gpu_active_ns: number;
  preemptions: number; lost_to: Loss[];
}
export interface Samples { vm: { id: string; name: string; label?: string }; step_ns: number; items: Sample[]; left_out: string[] }
export interface Happened { at_ns: number; what: string; ended?: string; by_s?: number; reason?: string }
export interface HostStep {
  begin_ns: number; end_ns: number; gap: boolean; measured_ns: number; vms: number | null; rates: Rates | null;
  own_share: number | null; idle_share: number | null; steal_share: number | null; load: number | null;
  pressure: { cpu_some: number } | null; alerts: number | null; happened: Happened[] | null;
}
export interface HostHistory { since_ns: number; until_ns: number; step_ns: number; items: HostStep[]; left_out: string[] }
export interface Host {
  name: string; cpus: number; vms: number;
  daemon: { version: string; replay: boolean };
  measurement: {
    source: string; begin_ns: number; end_ns: number; newest_begin_ns: number; aggressors_known: boolean;
    host: { own_ns: number | null; idle_ns: number | null; load: Record<string, number> | null } | null;
  };
  parts: { name: string; state: string; reason: string | null }[];
}
export interface Named { id: string; name: string; label?: string }
export interface Pair {
  victim: Named; aggressor: string; aggressor_label?: string; ns: number; count: number; share: number;
  newest?: { ns: number; count: number; share: number } | null;
}
export interface Cpu {
  cpu: number; busy_ns: number | null; idle_ns: number | null; vms_ns: number; vms: (Named & { run_ns: number; wait_ns: number })[];
}
export interface Cpus { begin_ns: number; end_ns: number; items: Cpu[] }
export interface Alert { alert: string; vm?: string | null; display_name?: string | null; lost_cores: number | null; since_ns: number | null }
export interface Step { verb: string; began_ns: number; ended_ns: number; ok: boolean; undoes: boolean; answer: string | null }
export interface Migration {
  id: string; vm: string; uuid: string; display_name?: string; from: string; to: string; state: string; step: string | null;
  cause: string | null; made_ns: number; ended_ns: number; standstill_ns: number; vm_on: string; gpu: string; steps: Step[];
}
export interface PlanRow { id: string; made_ns: number; verdict: string }
export interface Action { vm: string; display_name?: string; from: string; to: string; reason: string; gain: unknown; cost: unknown }
export interface Plan { id: string; made_ns: number; verdict: string; actions: Action[]; why: string[] }
export interface Gpu {
  id: string; inventory: { vendor: string | null; product: string | null } | null; source: string | null;
  assigned: { vm: Named; type: string | null }[]; newest: Record<string, unknown> | null;
}
export interface GpuRequest {
  vm: Named | null; engine: string; queued_ns: number | null; submitted_ns: number | null; ready_ns: number | null;
  run_ns: number | null; end_ns: number | null;
}
export interface ClusterHost {
  name: string; state: string; reason: string | null; self: boolean; age_ns: number; version: string | null;
  summary: { cpus: number; own: number; wanted: number; lost: number; vms: number; gpus: number; gpus_free: number } | null;
}

let token = "";
export const setToken = (text: string): void => { token = text; };

export class ApiError extends Error {
  constructor(readonly status: number, message: string) { super(message); }
}

async function request(path: string, init: RequestInit): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (token)
    headers["Authorization"] = `Bearer ${token}`;
  if (init.body)
    headers["Content-Type"] = "application/json";
  const response = await fetch(path, { ...init, headers, cache: "no-store", credentials: "omit" });
  if (response.ok)
    return response;
  let message = `${response.status} ${response.statusText}`;
  try {
    const problem = await response.json() as { detail?: string; title?: string };
    message = problem.detail ?? problem.title ?? message;
  } catch { /* no document: the status says it */ }
  throw new ApiError(response.status, message);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return await (await request(path, { signal })).json() as T;
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  return await (await request(path, { method: "POST", body: JSON.stringify(body) })).json() as T;
}

/** All items of a list, page by page, up to a bound. */
export async function list<T>(path: string, most: number, signal?: AbortSignal): Promise<T[]> {
  const items: T[] = [];
  let marker: string | null = null;
  do {
    const more: string = marker ? `${path.includes("?") ? "&" : "?"}marker=${encodeURIComponent(marker)}` : "";
    const page: { items: T[]; next: string | null } = await get(path + more, signal);
    items.push(...page.items);
    marker = page.next;
  } while (marker && items.length < most);
  return items;
}

/** Events as they happen, until the signal: read with fetch, so that the token goes in a header. */
export async function listen(types: string, onEvent: (type: string) => void, signal: AbortSignal): Promise<void> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (token)
    headers["Authorization"] = `Bearer ${token}`;
  const response = await fetch(`/v1/events?types=${types}`, { headers, signal, cache: "no-store", credentials: "omit" });
  if (!response.ok || !response.body)
    throw new ApiError(response.status, response.statusText);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done)
      return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("event: "))
        onEvent(line.slice("event: ".length).trim());
    }
  }
}
