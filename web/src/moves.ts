// SPDX-License-Identifier: Apache-2.0
// Plans and moves: predicted and measured gains and, for operators, a dry run before a move.

import * as api from "./api";
import { bytes, clock, el, percent, seconds, table, type Column } from "./dom";
import { link, tile, type Context, type Shown } from "./parts";

const MOVES_ASKED = 20; // for those that a plan led to

const coresOf = (ns_per_s: number): string => `${(ns_per_s / 1e9).toFixed(2)} cores`;
const known = (effect: api.MigrationEffect): string => effect.known ? `${coresOf(effect.lost_cpu_ns_per_s)} (${effect.seconds} s)` : "unknown";
/** What a move won: the CPU time that the VM lost before, less what it loses since. */
const measured = (move: api.Migration): string =>
  move.before.known && move.after.known ? coresOf(move.before.lost_cpu_ns_per_s - move.after.lost_cpu_ns_per_s) : "unknown";
const verdictOf = (move: { verdict?: api.MoveVerdict | null }): string => move.verdict ? move.verdict.result.replace("-", " ") : "-";
/** The figures behind a verdict, where it has them. */
const behind = (verdict: api.MoveVerdict): string => {
  const { gain_ns_per_s: gain, low_ns_per_s: low, high_ns_per_s: high } = verdict;
  return gain === null || low === null || high === null ? verdict.why ?? ""
    : `${verdict.why ?? ""} (gain ${coresOf(gain)}, 95 % between ${coresOf(low)} and ${coresOf(high)}, ${verdict.seconds} s before and after)`;
};
const gainOf = (gain: api.Gain): string => coresOf(gain.lost_cpu_ns_per_s) + (gain.gpu_wait_ns_per_s ? `, GPU ${coresOf(gain.gpu_wait_ns_per_s)}` : "");
const tookOf = (move: { made_ns: number; ended_ns: number | null }): string => move.ended_ns ? seconds(move.ended_ns - move.made_ns) : "-";

export function moveTable(context: Context, moves: api.MigrationSummary[]): HTMLElement {
  return table("Moves", [
    { head: "Move", cell: (move) => link(context, move.id, { page: "moves", id: move.id }) },
    { head: "VM", cell: (move) => move.vm },
    { head: "From", cell: (move) => move.from },
    { head: "To", cell: (move) => move.to },
    { head: "State", cell: (move) => move.ended_ns ? move.state : move.step ? `${move.state}: ${move.step}`
      : move.waits_for ? `${move.state}: waits for ${move.waits_for}` : move.state },
    { head: "Started", cell: (move) => clock(move.made_ns) },
    { head: "Took", number: true, cell: tookOf },
    { head: "Programs paused", number: true, cell: (move) => move.standstill_ns ? seconds(move.standstill_ns) : "-" },
    { head: "Verdict", cell: verdictOf },
    { head: "Cause", cell: (move) => move.cause && el("div", { class: "why" }, move.cause) },
  ] as Column<api.MigrationSummary>[], moves, "No moves.");
}

function moveShown(context: Context, move: api.Migration): Node[] {
  const { progress } = move, copied = progress.total_bytes - progress.remaining_bytes;
  return [
    el("h2", {}, `${move.display_name ?? move.vm}: ${move.from} to ${move.to}, ${move.state}`),
    ...(move.cause ? [el("p", {}, move.cause)] : []),
    ...(move.verdict ? [el("p", {}, `Verdict: ${verdictOf(move)}. ${behind(move.verdict)}`)] : []),
    ...(move.waits_for ? [el("p", {}, `The move has been waiting for ${move.waits_for} since ${clock(move.waits_since_ns)}.`)] : []),
    el("div", { class: "tiles" },
      tile("Predicted gain", move.predicted ? coresOf(move.predicted_gain_ns_per_s) : "no plan", "CPU time no longer lost, on all hosts"),
      tile("Measured gain", measured(move), "CPU time that the VM lost before, minus what it has lost since"),
      tile("Lost before", known(move.before)), tile("Lost after", known(move.after)),
      tile("Took", tookOf(move)), tile("Programs paused", move.standstill_ns ? seconds(move.standstill_ns) : "-"),
      tile("VM paused", progress.downtime_ns ? seconds(progress.downtime_ns) : "-"),
      progress.total_bytes > 0 && tile("Memory copied", `${bytes(copied)} (${percent(copied / progress.total_bytes)})`, `of ${bytes(progress.total_bytes)}`)),
    el("p", { class: "note" }, `VM location: ${move.vm_on}; GPU: ${move.gpu}. Requested by ${move.asked_by ?? "an unknown client"}.`,
      move.plan_id !== null && " ", move.plan_id !== null && link(context, `Part of ${move.plan_id}`, { page: "moves", id: move.plan_id })),
    table("Steps", [
      { head: "Step", cell: (step) => step.undoes ? `${step.verb} (rollback)` : step.verb },
      { head: "Started", cell: (step) => clock(step.began_ns) },
      { head: "Took", number: true, cell: (step) => step.ended_ns ? seconds(step.ended_ns - step.began_ns) : move.ended_ns ? "unknown" : "running" },
      { head: "Outcome", cell: (step) => el("div", { class: "why" }, step.ended_ns && !step.ok ? `failed: ${step.answer ?? ""}` : step.answer ?? "") },
    ] as Column<api.MigrationStep>[], move.steps, "The move has not started."),
  ];
}

// ---- a dry run, and then the move ----

function checkShown(check: api.MigrationCheck): Node[] {
  const list = (head: string, texts: string[] | undefined): Node[] =>
    texts && texts.length ? [el("strong", {}, head), el("ul", {}, ...texts.map((text) => el("li", {}, text)))] : [];
  return [
    el("p", {}, check.problems.length ? "The VM cannot be moved now." : `The VM can be moved from ${check.from} to ${check.to}. This would take ${
      seconds(1e9 * check.expected_s)}${check.standstill_s ? `, and GPU programs would be paused for ${seconds(1e9 * check.standstill_s)}` : ""}.`),
    ...list("Obstacles", check.problems), ...list("Possible causes of failure", check.doubts), ...list("Not checked", check.untried),
    table("Steps of the move", [
      { head: "Step", cell: (step) => step.verb },
      { head: "Expected", number: true, cell: (step) => seconds(1e9 * step.expected_s) },
      { head: "At most", number: true, cell: (step) => seconds(1e9 * step.deadline_s) },
    ] as Column<api.MigrationCheck["steps"][number]>[], check.steps, "No steps."),
  ];
}

/** Only the answer of a dry run without a problem brings the button that moves. */
async function dryRun(context: Context, body: api.MigrationRequest, answer: HTMLElement): Promise<void> {
  const fail = (error: unknown): void => answer.replaceChildren(el("p", { class: "bad" }, (error as Error).message));
  answer.replaceChildren("checking ...");
  try {
    const check = await api.post("/v1/migrations", { ...body, dry_run: true });
    if (!("problems" in check))
      return;
    const begin = el("button", { type: "button", click: () => {
      begin.disabled = true;
      api.post("/v1/migrations", body).then((move) => { if ("id" in move) context.go({ page: "moves", id: move.id }); }, fail);
    } }, `Migrate ${check.vm} to ${check.to}`);
    answer.replaceChildren(...checkShown(check), ...(check.problems.length ? [] : [begin]));
  } catch (error) {
    fail(error);
  }
}

const answerBox = (): HTMLElement => el("div", { class: "answer", role: "status", "aria-live": "polite" });

export function moveForm(context: Context, vm: { id: string }): HTMLElement {
  const hosts = el("datalist", { id: "hosts" });
  const input = el("input", { name: "to", required: true, "aria-label": "Target host", placeholder: "host", list: "hosts", focus: () => {
    api.get("/v1/hosts", {}, context.signal).then(({ items }) =>
      hosts.replaceChildren(...items.filter((host) => !host.self).map((host) => el("option", { value: host.name }))), () => { /* it can be typed */ });
  } });
  const answer = answerBox();
  const form = el("form", { submit: (event) => {
    event.preventDefault();
    void dryRun(context, { vm: vm.id, to: input.value }, answer);
  } }, input, hosts, el("button", {}, "Dry run"));
  const box = el("div", { hidden: true }, el("h2", {}, "Move this VM"), form, answer);
  context.act(box);
  return box;
}

// ---- plans ----

async function planShown(context: Context, id: string, moves: api.MigrationSummary[]): Promise<Node[]> {
  const plan = await api.get("/v1/plans/{id}", {}, context.signal, id);
  const of = (action: api.Action) => (move: { vm: string; uuid: string }): boolean => action.uuid ? move.uuid === action.uuid : move.vm === action.vm;
  const later = moves.filter((move) => plan.actions.some((action) => of(action)(move))).slice(0, MOVES_ASKED);
  const made = (await Promise.all(later.map((move) => api.get("/v1/migrations/{id}", {}, context.signal, move.id)))).filter((move) => move.plan_id === plan.id);
  const moveOf = (action: api.Action): api.Migration | undefined => made.filter(of(action)).sort((a, b) => b.made_ns - a.made_ns)[0];
  const answer = answerBox();
  const columns: Column<api.Action>[] = [
    { head: "VM", cell: (action) => action.display_name ?? action.vm },
    { head: "From", cell: (action) => action.from },
    { head: "To", cell: (action) => action.to },
    { head: "Why", cell: (action) => el("div", { class: "why" }, action.reason.text) },
    { head: "Predicted gain", number: true, cell: (action) => gainOf(action.gain) },
    { head: "Expected duration", number: true, cell: (action) => seconds(1e9 * action.cost.migration_s) },
    { head: "Measured gain", number: true, cell: (action) => { const move = moveOf(action); return move ? measured(move) : "not moved"; } },
    { head: "Move", cell: (action) => {
      const move = moveOf(action);
      if (move)
        return link(context, move.state, { page: "moves", id: move.id });
      const button = el("button", { type: "button", hidden: true, click: () =>
        void dryRun(context, { vm: action.uuid ?? action.vm, to: action.to, plan_id: plan.id, plan_hash: plan.input_hash }, answer) }, "Dry run");
      context.act(button);
      return button;
    } },
  ];
  return [el("h2", {}, `Plan ${plan.id}: ${plan.verdict}`), el("p", { class: "note" }, `Made at ${clock(plan.made_ns)} with the rule ${plan.rule}.`),
    ...[...plan.why, ...plan.notes].map((text) => el("p", { class: "note" }, text)),
    table("Actions", columns, plan.actions, "The plan proposes no moves."), answer];
}

function planButton(context: Context): HTMLElement {
  const answer = answerBox();
  const box = el("p", { hidden: true }, el("button", { type: "button", click: () => {
    answer.replaceChildren("planning ...");
    api.post("/v1/plans", { dry_run: true }).then((plan) => context.go({ page: "moves", id: plan.id }),
      (error: Error) => answer.replaceChildren(el("span", { class: "bad" }, error.message)));
  } }, "Make a plan (moves nothing)"), " ", answer);
  context.act(box);
  return box;
}

/** What moves without a person, and why the rest waits. */
function policyShown(context: Context, policy: api.Policy): Node[] {
  const says = policy.acts ? "Automatic moves may start now." : `No automatic move starts now: ${policy.why ?? "no leader has reported yet"}.`;
  return [
    el("h2", {}, "Automatic moves"),
    el("div", { class: "tiles" },
      tile("Mode", policy.mode, "observe: no plans; propose: a person starts the moves; act: the leader starts them"),
      tile("Leader", policy.leader ?? "none"),
      tile("Errors", policy.leader === null ? "-" : `${policy.errors} of ${policy.error_budget}`, "automatic moves that failed or made things worse in the last day; at the limit, no more moves start")),
    el("p", { class: "note" }, says),
    table("Automatic moves", [
      { head: "VM", cell: (move) => move.vm },
      { head: "From", cell: (move) => move.from },
      { head: "To", cell: (move) => move.to },
      { head: "Step", cell: (move) => move.undo_of ? `${move.step} (reverses ${move.undo_of})` : move.step },
      { head: "Why", cell: (move) => el("div", { class: "why" }, move.why ?? "") },
      { head: "Move", cell: (move) => move.move && link(context, move.move, { page: "moves", id: move.move }) },
    ] as Column<api.AutomaticMove>[], policy.moves, "No plan has been applied automatically."),
  ];
}

export async function movesPage(context: Context): Promise<Shown> {
  const { state, signal } = context;
  const absent = (error: unknown): never[] => {
    if (error instanceof api.ApiError && (error.status === 404 || error.status === 501))
      return [];
    throw error;
  };
  const [moves, plans, policy] = await Promise.all([
    api.list("/v1/migrations", { limit: 200 }, 200, signal).catch(absent),
    api.list("/v1/plans", { limit: 50 }, 50, signal).catch(absent),
    api.get("/v1/policy", {}, signal).catch(() => null), // without etcd, the page shows the rest
  ]);
  const elements: Node[] = [];
  if (state.id.startsWith("plan-"))
    elements.push(...await planShown(context, state.id, moves));
  else if (state.id)
    elements.push(...moveShown(context, await api.get("/v1/migrations/{id}", {}, signal, state.id)));
  elements.push(el("h2", {}, "Moves"), moveTable(context, moves), ...(policy ? policyShown(context, policy) : []), el("h2", {}, "Plans"), planButton(context), table("Plans", [
    { head: "Plan", cell: (row) => link(context, row.id, { page: "moves", id: row.id }) },
    { head: "Made", cell: (row) => clock(row.made_ns) },
    { head: "Verdict", cell: (row) => row.verdict },
  ] as Column<api.PlanSummary>[], plans, "No plans yet."));
  return { elements };
}
