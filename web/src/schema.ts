// SPDX-License-Identifier: Apache-2.0
// What the interface has. Made of schema/api/openapi.yaml by tests/lib/page_types.py: do not edit.

export type Action = { kind: "migrate"; vm: string; uuid: Text; display_name?: string; from: string; to: string; role: "aggressor" | "victim" | "third"; reason: { rule: string; text: string; inputs: { name: string; value: number }[] }; gain: Gain; cost: { migration_s: number; stun_s: number; lost_cpu_ns: Ns; memory_bytes: Count; memory_assumed: boolean }; runner_up: { what: Text; why: Text; gain: Gain }; facts: { vm: string; from: string; to: string }; wave?: number; group?: number; undo_partial?: boolean; gpus?: GpuTarget[] };
export type Alert = { alert: string; vm: string | null; label: string | null; display_name: string | null; uuid: string | null; lost_cores: number | null; limit: number | null; for_s: number | null; since_ns: number | null; move: string | null };
export type Amount = number;
export type AutomaticMove = { act: string; vm: string; uuid: string; from: string; to: string; wave: number; group: number; undo_rest: boolean; step: "waits" | "starting" | "moving" | "done" | "failed" | "dropped"; undo_of: string | null; move: string | null; why: string | null; asked_ns: number; until_ns: number };
export type Count = number;
export type Device = { kind: "mdev" | "pci"; address: string; alias: Text; parent?: string; mdev_type?: string; gpu_type?: string; is_gpu: boolean; function?: string };
export type Domain = { name: string; uuid: Text; id: number; state: DomainState; pid?: Count; vcpus: Count; memory_bytes?: Count; cpu_model?: string; cpu_limit?: number; pinned: boolean; policy?: "never" | "propose" | "act"; nova_managed: boolean; nova?: { name?: string; flavor?: string; project_id?: string; project_name?: string; user_id?: string; user_name?: string; created?: string }; manager?: string; manager_move?: string; virtio_gpu?: "virgl" | "venus" | "native-context"; hostmem_bytes?: number; threads: { index: Count; tid: Count }[]; devices: Device[] };
export type DomainState = "unknown" | "running" | "blocked" | "paused" | "shutdown" | "shutoff" | "crashed" | "suspended";
export type EntryPoints = { id: "v1"; status: "CURRENT"; links: Link[]; client: { identity: string; role: "reader" | "operator" | "admin" | "peer" } };
export type Exits = { [more: string]: Count };
export type FigureNames = string[];
export type Figures = { observed_ns: Count; run_ns: Count; entries: Count; guest_ns: Count; hyp_ns: Count; preempt_ns: Count; preemptions: Count; wake_wait_ns: Count; wakeups: Count; blocked_ns: Count; blocks: Count; switches_out: Count; unseen_migrations: Count; clipped: number; exits: Exits };
export type Gain = { lost_cpu_ns_per_s: Ns; gpu_wait_ns_per_s: Ns };
export type Gpu = GpuUsers & { id: string; inventory: null | HostGpu; assigned: { vm: VmName; kind: "mdev" | "pci"; address: string; mdev_type: Text; type: string | null }[]; parts: GpuPart[]; largest_free?: null | LargestFree; source: GpuSource; note?: string; newest: null | NewestGpu };
export type GpuFigures = { device: string; engine: string; requests: number | null; partial: number | null; open?: number | null; open_oldest_ns?: number | null; busy_ns: number | null; exec_ns: number | null; wait_ns: number | null; share: number | null; vgpu_queue_ns: number | null; dependency_ns: number | null; driver_queue_ns: number | null; latency_mean_ns: number | null; latency_p50_ns: number | null; latency_p95_ns: number | null; latency_p99_ns: number | null; latency_max_ns: number | null; queue_len_avg: number | null; queue_len_max: number | null; coalesced: number | null; mem_bytes: number | null; mem_peak_bytes: number | null; contexts?: number; slices: number | null; suspended_ns: number | null; confidence: number };
export type GpuPart = { kind: "gpu" | "function" | "vf" | "mdev" | "room"; address: string | null; type: string | null; state: "free" | "used" | "reserved" | "divided" | "host" | "unset" | "unknown"; free: number; why: string | null };
export type GpuProcess = GpuFigures & { pid: number; comm: string };
export type GpuRequest = { vm: null | VmName; pid: number; engine: string; context: number; seqno: number; queued_ns: number | null; submitted_ns: number | null; ready_ns: number | null; run_ns: number | null; end_ns: number | null; exec_ns: number; coalesced: boolean; at_ns: number };
export type GpuRequests = { gpu: string; since_ns: number | null; until_ns: number | null; clock_offset_ns: number; oldest_ns: number | null; newest_ns: number | null; items: GpuRequest[]; more: boolean; next_since: number; left_out: number };
export type GpuSource = string | null;
export type GpuTarget = { type: string; from: string; to?: string | null };
export type GpuUse = GpuFigures & object;
export type GpuUsers = { engines: GpuUse[]; vms: GpuVm[]; vms_left_out: number; processes: GpuProcess[]; processes_left_out: Count };
export type GpuVm = { vm: VmName; engine: string; share: number | null; busy_ns: number | null; exec_ns: number | null; wait_ns: number | null; requests: number | null; contexts?: number; mem_bytes: number | null };
export type GuestProgram = { by: string | null; pid: number; comm: Text; state: string | null; movable: string | null; why: string | null; gpu_bytes: number; lock_ns: number; checkpoint_ns: number; restore_ns: number; unlock_ns: number; stop_ns: number; away_ns: number; held_threads: number; at?: string };
export type GuestPrograms = { doing: string | null; total: number; gpu_bytes: number; forked: number; forked_descriptors: number; forked_maps: number; driver?: string; driver_faults?: string[]; programs: GuestProgram[] };
export type Host = { name: string; alerts: Alert[]; uuid: Text; cpus: number; cpu_model: Text; memory_bytes: number; memory_free_bytes: Count; hypervisor: Text; libvirt_uri: Text; gpus: HostGpu[]; largest_free?: null | LargestFree; vms: number; daemon: { version: string; boot_id: string; started_ns: Ns; replay: boolean; replay_ended: boolean; setup: { budget: number; libvirt: boolean; gpu: boolean; acting: boolean; tls: "auto" | "yes" | "no"; migration_tls: MigrationCertificates; store: { directory: string; raw_days: number; minute_days: number; hour_days: number } } }; measurement: { seq: Count; made_ns: Ns; window_ns: Ns; windows: number; late: number; duplicates: number; missed: number; source: string | null; series: string | null; confidence: Ratio; waits_split: boolean; aggressors_known: boolean; level: number; collector_cost_ns: number; measures: { run: Measured; wait: Measured; wait_kinds: Measured; guest: Measured; exits: Measured; lost_to: Measured }; programs: Programs | null; host: { steal_ns: number | null; pressure_ns: number | null; runnable: number | null; vms_ns: number | null; own_ns: number | null; idle_ns: number | null; load: { "1min": Amount; "5min": Amount; "15min": Amount }; pressure: { cpu: Pressure; memory: Pressure; io: Pressure; reason: string | null } }; lost_events: number; clock_offset_ns: number; begin_ns: number | null; end_ns: number | null; newest_begin_ns: number | null }; parts: Part[] };
export type HostCpus = { begin_ns: number | null; end_ns: number | null; places: "counted" | "last-seen" | null; wait_reason: string | null; unpinned_vms: number; items: { cpu: Count; node: number | null; busy_ns: number | null; idle_ns: number | null; steal_ns: number | null; wait_ns: number | null; vms_ns: number; vms_wait_ns: number | null; vms: { id: string; name: string; run_ns: Count; wait_ns: number | null }[]; pinned: VmName[] }[] };
export type HostGpu = { device: string; vendor: Text; product: Text; pci_id: Text; driver: Text; numa_node: number; vf_max?: Count; iommu_group: number; no_iommu?: boolean; use: HostGpuUse; functions: HostGpuFunction[]; vfs: HostGpuVf[]; mdev_types: VgpuType[]; mdevs: { uuid: string; type: Text; function?: string; inactive?: boolean }[] };
export type HostGpuFunction = { address: string; what: string | null; pci_id: Text; driver: Text; iommu_group: number };
export type HostGpuUse = { known: boolean; text: string | null };
export type HostGpuVf = { address: string; pci_id: Text; driver: Text; vgpu_type: string | null; vgpu_told: boolean; no_iommu?: boolean; creatable?: VgpuType[]; use: HostGpuUse };
export type HostHistory = { since_ns: Ns; until_ns: Ns; step_ns: number; items: HostStep[]; left_out: string[] };
export type HostStep = { begin_ns: Ns; end_ns: Ns; gap: boolean; measured_ns: number; windows: number; lost_events: number; vms: number | null; run_ns: number | null; preempt_ns: number | null; wake_wait_ns: number | null; preemptions: number | null; rates: Rates | null; unknown?: string[]; bounds?: string[]; own_share: number | null; idle_share: number | null; steal_share: number | null; load: number | null; pressure: { cpu_some: number; memory_some: number; memory_full: number; io_some: number; io_full: number }; gpu_wait_share: number | null; programs: PastPrograms; measured_by: { by: string; ns: number; who_ns: number }[]; alerts: number | null; happened: { at_ns: Ns; what: string; ended?: string }[] | null };
export type HostSummary = { at_ns: number; cpus: number; own: number; wanted: number; lost: number; memory_bytes: number; memory_free_bytes: number; maintenance: boolean; vms: number; gpus: number; gpus_free: number; gpu_largest?: string; store_bytes?: number; classes: number[]; scores: number[]; top: { name: string; uuid?: Text; lost: number }[] };
export type KnownHost = { name: string; url: Text; libvirt_uri: Text; migration_tls: MigrationCertificates; version: Text; boot_id: Text; started_ns: number; state: "alive" | "stale" | "silent"; reason: Text; self: boolean; seen_ns: number; age_ns: number | null; maintenance: boolean; summary: null | HostSummary };
export type Label = string;
export type LargestFree = { state: "free" | "none" | "unknown"; type: string | null; name: string | null; memory_bytes: number | null };
export type Link = { rel: string; href: string };
export type Loss = { aggressor: string; aggressor_label?: Label; ns: Count; count: Count; vcpu_ns?: number; emulator_ns?: number; processes?: LostProcesses; others?: LostOthers };
export type LostOthers = { ns: Count; count: Count };
export type LostProcesses = { comm: string | null; pid: number; pids: number; cgroup: string | null; ns: number; error_ns: number; count: Count }[];
export type Measured = { source: string | null; confidence: Ratio; reason: string | null };
export type Migration = { doubts?: string[]; id: string; vm: string; display_name?: string; uuid: string; from: string; to: string; peer: string | null; plan_id: Text; undo_of: Text; act?: string; not_started?: boolean; act_revision?: number; act_until_ns?: number; asked_by: string | null; no_agent: boolean; gpu_during?: string; gpu_during_why?: string; executor: "libvirt" | "nova"; mode: "detach" | "native"; mode_why: string | null; tls: "unknown" | "no" | "yes"; tls_warns: boolean; tls_why: string | null; nova_from: string | null; nova_to: Text; state: MigrationState; step: string | null; abort_asked: boolean; retries: number; retried_by: Text; waits_for: string | null; waits_since_ns: number; cause: string | null; vm_on: "unknown" | "source" | "target" | "moving" | "nowhere" | "both"; stands?: string; gpu: "unknown" | "attached" | "detached" | "partly"; reservation: Text; made_ns: number; ended_ns: number; guest_pause_ns: number; standstill_began_ns: number; standstill_ns: number; downtime_limit_ns: number; progress: MigrationProgress; guest: GuestPrograms; predicted: boolean; predicted_gain_ns_per_s: number; predicted_gpu_ns_per_s?: number; rule?: string; group?: number; group_moves?: number; before: MigrationEffect; after: MigrationEffect; verdict?: MoveVerdict | null; devices: MoveDevice[]; steps: MigrationStep[] };
export type MigrationCertificates = "unknown" | "ready" | "missing" | "unreadable";
export type MigrationCheck = { dry_run: true; vm: string; uuid: string; from: string; to: string; executor: "libvirt" | "nova"; mode: "detach" | "native"; mode_why: Text; tls?: "unknown" | "no" | "yes"; tls_warns?: boolean; tls_why?: Text; gpu_during?: string; gpu_during_why?: string; problems: string[]; doubts?: string[]; untried?: string[]; paths?: { path: string; use: string; writable: boolean; verdict: "untried" | "ok" | "refused"; text: string }[]; devices: MoveDevice[]; guest: GuestPrograms; steps: { verb: string; expected_s: number; deadline_s: number }[]; expected_s: number; standstill_s: number };
export type MigrationEffect = { known: boolean; lost_cpu_ns_per_s: number; seconds: number };
export type MigrationProgress = { total_bytes: number; remaining_bytes: number; processed_bytes: number; dirty_bytes_per_s: number; bytes_per_s: number; iteration: number; eta_ns: number; downtime_ns: number; elapsed_ns: number };
export type MigrationRequest = { vm: string; to: string; dry_run?: boolean; no_agent?: boolean; forward?: boolean; mode?: string; gpu_during?: string; plan_id?: string | null; plan_hash?: string | null; undo_of?: string | null; act?: string; act_revision?: number; act_until_ns?: number; gpus?: GpuTarget[]; on_behalf_of?: string | null };
export type MigrationState = "pending" | "prechecking" | "reserving" | "quiescing" | "detaching" | "migrating" | "attaching" | "resuming" | "verifying" | "rolling_back" | "done" | "rolled_back" | "aborted" | "failed";
export type MigrationStep = { verb: string; began_ns: number; ended_ns: number; ok: boolean; undoes: boolean; attempt: number; asked: Text; answer: Text };
export type MigrationSummary = { id: string; vm: string; display_name?: string; uuid: string; from: string; to: string; state: MigrationState; cause: Text; made_ns: number; ended_ns: number | null; step: string | null; waits_for: string | null; standstill_ns: number; progress: MigrationProgress; plan_id?: Text; undo_of?: Text; act?: string; not_started?: boolean; predicted?: boolean; predicted_gain_ns_per_s?: number; predicted_gpu_ns_per_s?: number; rule?: Text; group?: number; group_moves?: number; verdict?: MoveVerdict | null };
export type MoveDevice = { kind: "named" | "mdev" | "pci"; type: string; alias?: string | null; function_of?: string; guest_address?: string | null; guest_path?: string | null; source_address?: string | null; target_gpu?: string; target_address?: string | null; persistent?: boolean; source_xml?: string | null; target_xml?: string | null };
export type MoveVerdict = { result: "helped" | "no-effect" | "worse" | "cannot-tell"; why: Text; judged_ns: number; seconds: number; hosts: string[]; others: string[]; measured: boolean; before_ns_per_s: number | null; after_ns_per_s: number | null; gpu_measured: boolean; gpu_before_ns_per_s: number | null; gpu_after_ns_per_s: number | null; others_ns_per_s: number | null; gain_ns_per_s: number | null; low_ns_per_s: number | null; high_ns_per_s: number | null; predicted: boolean; predicted_ns_per_s: number | null };
export type Newest = Figures & { begin_ns: Ns; end_ns: Ns; rates: Rates; cpu_intensity: Ratio; gpu_intensity: Ratio; guest_known: boolean; gpu_known: boolean; unknown?: FigureNames; bounds?: FigureNames; lost_to: Loss[]; gpu: GpuUse[] };
export type NewestGpu = GpuUsers & { begin_ns: Ns; end_ns: Ns };
export type NewestVmGpu = { begin_ns: Ns; end_ns: Ns; gpu_known: boolean; gpu_intensity: Ratio; gpu_active_ns: Count; gpu: GpuUse[] };
export type Next = string | null;
export type Ns = number;
export type OpenStack = { name: Text; flavor: Text; project: Text; project_id: Text; user: Text; user_id: Text };
export type Part = { name: string; state: "ok" | "starting" | "degraded" | "failed" | "ended"; ready: boolean; reason: Text; code?: Trouble; since_ns: number | null; sources: { name: string; state: "used" | "spare" | "less" | "absent"; reason: Text; code?: Trouble }[] };
export type PastLosses = { aggressor: string; aggressor_label?: Label; ns: Count; count: Count; processes?: PastProcesses; others?: LostOthers }[];
export type PastPeriod = { since_ns: Ns; until_ns: Ns; begin_ns: Ns; end_ns: Ns; length_ns: Count; windows: Count; lost_events: number; source: string | null; programs: PastPrograms; left_out: string[] };
export type PastPreemptions = PastPeriod & { items: { victim: VmName; aggressor: string; aggressor_label?: Label; aggressor_id: string | null; ns: Count; at_most_ns: number; count: Count; share: number; count_per_s: number; processes?: PastProcesses; others?: LostOthers }[]; next: Next };
export type PastProcesses = { comm: string; cgroup: string | null; ns: Count; count: Count }[];
export type PastPrograms = { comm: string; cgroup: string | null; ns: Count }[];
export type PastVm = Figures & { id: string; name: string; label?: Label; windows: number; gone: boolean | null; present: Ratio; rates: Rates; cpu_intensity: Ratio; gpu_intensity: Ratio; guest_known: boolean; gpu_known: boolean; unknown?: FigureNames; bounds?: FigureNames; gpu_active_ns: Count; lost_to: PastLosses };
export type PastVms = PastPeriod & { host: Figures & { vms: Count; rates: Rates; lost_to: PastLosses }; items: PastVm[]; next: Next };
export type Plan = { schema: "vgpud.plan"; version: 1; id: PlanId; input_hash: string; config_hash: string; rule: string; free_up?: string; verdict: Verdict; actions: Action[]; proxies?: ProxyAction[]; skipped: { vm: string; host: string; reason: string }[]; why: string[]; notes: string[]; made_ns: number; made: string };
export type PlanId = string;
export type PlanRequest = { dry_run: true; rule?: "complement" | "paper-threshold"; free_up?: string };
export type PlanSummary = { id: PlanId; made_ns: Ns; made: string; verdict: Verdict };
export type Policy = { mode: "observe" | "propose" | "act"; acts: boolean; why: string | null; paused: null | { by: string; at_ns: number }; leader: string | null; at_ns: number | null; errors: number; error_budget: number; budget_spent: boolean; plan_id: string | null; plan_hash: string | null; moves: AutomaticMove[] };
export type Preemption = { victim: VmName; aggressor: string; aggressor_label?: Label; aggressor_id: string | null; ns: number; count: Count; share: number; count_per_s: number; newest: null | { ns: Count; count: Count; share: number; count_per_s: Amount; processes?: LostProcesses; others?: LostOthers }; processes?: LostProcesses; others?: LostOthers };
export type Pressure = { some_ns: number | null; full_ns: number | null };
export type Profile = { window_ns: Count; cpu: Amount[]; gpu: Ratio[] };
export type ProgramTimes = { comm: string; cgroup: string | null; pid?: number; pids?: number; ns: number; error_ns: number }[];
export type Programs = { length_ns: number; items: ProgramTimes; newest: { begin_ns: Ns; end_ns: Ns; items: ProgramTimes } };
export type ProxyAction = { kind: "proxy-move" | "proxy-weight"; vm: string; uuid: Text; host: string; from: string; from_host: string; from_gpu: string; to?: string; to_host?: string; to_gpu?: string; price: string; weight_before: number; weight: number; reason: { rule: string; text: string; inputs: { name: string; value: number }[] }; gain: Gain; cost: { migration_s: number; stun_s: number; lost_cpu_ns: Ns; memory_bytes: Count; memory_assumed: boolean } };
export type Rates = { run_share: Amount; preempt_share: Amount; wake_wait_share: Amount; preemptions_per_s: Amount };
export type Ratio = number;
export type Sample = Figures & { begin_ns: Ns; end_ns: Ns; windows: number; cpu_intensity: Ratio; guest_known: boolean; gpu_known: boolean; unknown?: FigureNames; bounds?: FigureNames; gpu_active_ns: Count; lost_events: number; lost_to: { aggressor: string; aggressor_label?: Label; ns: Count; count: Count }[] };
export type Samples = { vm: VmName; since_ns: Ns; until_ns: Ns; step_ns: number; items: Sample[]; left_out: string[] };
export type Text = string | null;
export type Trouble = "bpf-denied" | "btf-absent" | "ptrace-denied" | "tracefs-absent" | "perf-denied" | "perf-memory" | "libvirt-denied" | "libvirt-absent" | "nvml-absent" | "disk-full";
export type Vcpu = Figures & { tid: Count; vcpu?: Count };
export type Verdict = "nothing-to-do" | "changes" | "infeasible";
export type VgpuType = { type: string; name: Text; device_api: Text; available: Count; functions?: number; max_instances?: number };
export type Vm = VmBase & { waits_split: boolean; vcpus: Vcpu[]; domain: null | Domain; profile: Profile };
export type VmBase = Figures & { id: string; name: string; label?: Label; uuid: Text; openstack: null | OpenStack; pid: number; state: DomainState; libvirt?: boolean | null; class: VmClass; cpu_intensity: number; gpu_intensity: number; gpu_known: boolean; guest_known: boolean; unknown?: FigureNames; bounds?: FigureNames; problem: string | null; rates: Rates; gpu_active_ns: number; cpus: Count[]; lost_to: Loss[]; gpu: GpuUse[]; newest: null | Newest };
export type VmClass = "idle" | "cpu" | "gpu" | "mixed" | "alternating";
export type VmGpu = { vm: VmName; gpu_known: boolean; gpu_intensity: Ratio; source: GpuSource; gpu_active_ns: number; gpu: GpuUse[]; newest: null | NewestVmGpu; devices: Device[] };
export type VmName = { id: string; name: string | null; label?: Label };
export type VmSummary = VmBase & object;

/** What GET answers. */
export interface Answers {
  "/v1": EntryPoints;
  "/v1/host": Host;
  "/v1/host/cpus": HostCpus;
  "/v1/host/history": HostHistory;
  "/v1/vms": { items: VmSummary[]; next: Next } | PastVms;
  "/v1/vms/{id}": Vm;
  "/v1/vms/{id}/samples": Samples;
  "/v1/vms/{id}/gpu": VmGpu;
  "/v1/gpus": { items: Gpu[]; next: Next };
  "/v1/gpus/{id}/requests": GpuRequests;
  "/v1/preemptions": { items: Preemption[]; next: Next } | PastPreemptions;
  "/v1/alerts": { rules: number; items: Alert[] };
  "/v1/hosts": { items: KnownHost[] };
  "/v1/plans": { items: PlanSummary[]; next: Next };
  "/v1/plans/{id}": Plan;
  "/v1/migrations": { items: MigrationSummary[]; next: Next; incomplete?: string };
  "/v1/migrations/{id}": Migration;
  "/v1/policy": Policy;
}

/** What GET may be asked with, after "?". */
export interface Queries {
  "/v1": Record<string, never>;
  "/v1/host": Record<string, never>;
  "/v1/host/cpus": Record<string, never>;
  "/v1/host/history": { since?: string | number; until?: string | number; step?: string | number; source?: string | number };
  "/v1/vms": { limit?: number; marker?: string | number; sort?: "name" | "lost" | "cpu" | "gpu"; class?: "idle" | "cpu" | "gpu" | "mixed" | "alternating"; project?: string | number; name?: string | number; since?: string | number; until?: string | number };
  "/v1/vms/{id}": Record<string, never>;
  "/v1/vms/{id}/samples": { since?: string | number; until?: string | number; step?: string | number; source?: string | number };
  "/v1/vms/{id}/gpu": Record<string, never>;
  "/v1/gpus": { limit?: number; marker?: string | number };
  "/v1/gpus/{id}/requests": { since?: string | number; until?: string | number; limit?: number; vm?: string | number };
  "/v1/preemptions": { vm?: string | number; limit?: number; marker?: string | number; since?: string | number; until?: string | number };
  "/v1/alerts": Record<string, never>;
  "/v1/hosts": Record<string, never>;
  "/v1/plans": { limit?: number; marker?: string | number };
  "/v1/plans/{id}": Record<string, never>;
  "/v1/migrations": { limit?: number; marker?: string | number; active?: "true" | "false" };
  "/v1/migrations/{id}": { peer?: string | number };
  "/v1/policy": Record<string, never>;
}

export interface Posts {
  "/v1/plans": { body: PlanRequest; answer: Plan };
  "/v1/migrations": { body: MigrationRequest; answer: Migration | MigrationCheck | Migration };
}
