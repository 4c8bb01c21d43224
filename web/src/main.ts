// SPDX-License-Identifier: Apache-2.0
// The page: what the address says is asked for and shown, again when vgpud tells of a new window.

import "uplot/dist/uPlot.min.css";
import "./style.css";

import * as api from "./api";
import { forgetCharts } from "./chart";
import { el } from "./dom";
import { gpusPage } from "./gpus";
import { movesPage } from "./moves";
import { hostPage, hostsPage, preemptionsPage, vmsPage } from "./pages";
import type { Context, Shown } from "./parts";
import { hashOf, periodOf, ranges, readState, type State } from "./state";

const REFRESH_MS = 2000; // of what shows a short time; longer ones change slowly
const STEP_MS = 250;     // after a step of a move, which may be short
const RETRY_MS = 2000;
const RETRY_MOST_MS = 30000;

/** present: what it shows does not depend on the time that is chosen. */
const pages: Record<string, { name: string; present?: true; show: (context: Context) => Promise<Shown> }> = {
  host: { name: "Host", show: hostPage },
  preemptions: { name: "Preemptions", show: preemptionsPage },
  vms: { name: "VMs", show: vmsPage },
  gpus: { name: "GPUs", show: gpusPage },
  moves: { name: "Plans and moves", present: true, show: movesPage },
  hosts: { name: "Hosts", present: true, show: hostsPage },
};

const byId = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;
const main = byId("main"), trouble = byId("trouble");

let state: State = readState("");
let asking: AbortController | null = null;
let listening: AbortController | null = null;
let role = "";
let replay: boolean | undefined;
let now = Date.now(); // as of what is shown
let due = 0, dueAt = 0; // the timer until it is asked again, 0: none; and when that will be
let told = ""; // trouble with events

const complain = (text: string): void => { trouble.textContent = text || told; };

const go = (change: Partial<State>): void => {
  const next = { ...state, ...change };
  if (change.page !== undefined && change.other === undefined)
    next.other = "";
  location.hash = hashOf(next);
};

function askForToken(problem: string): void {
  const input = el("input", { type: "password", autocomplete: "off", required: true, "aria-label": "Token", name: "token" });
  main.replaceChildren(el("h2", {}, "Enter a token"), el("p", { class: "note" }, problem),
    el("form", { submit: (event) => {
      event.preventDefault();
      api.setToken(input.value.trim());
      role = "";
      void show(false);
      listenForEvents();
    } }, input, el("button", {}, "Show")));
  input.focus();
}

async function readRole(signal: AbortSignal): Promise<void> {
  if (!role)
    role = (await api.get("/v1", {}, signal)).client.role;
}

/** Of a recording, now is its end, as for since= of the interface. */
async function readNow(signal: AbortSignal): Promise<number> {
  if (replay === undefined || replay) {
    const host = await api.get("/v1/host", {}, signal);
    replay = host.daemon.replay;
    byId("host").textContent = replay ? `${host.name} (recording)` : host.name;
    document.title = `${host.name} - vgpud`;
    if (replay && host.measurement.end_ns !== null)
      return Math.ceil(host.measurement.end_ns / 1e6);
  }
  return Date.now();
}

/** What is asked for again is other elements: the same ones, to who looks, have the focus and are scrolled as before. */
function keepPlace(replace: () => void): void {
  const keyOf = (one: Element): string => one.getAttribute("data-key") ?? one.getAttribute("href") ?? one.getAttribute("aria-label") ?? one.textContent ?? "";
  const places = (): HTMLElement[] => [...main.querySelectorAll<HTMLElement>("a, button, input, summary, [tabindex]")];
  const focused = document.activeElement, key = focused && main.contains(focused) ? keyOf(focused) : null;
  const rank = places().filter((one) => keyOf(one) === key).indexOf(focused as HTMLElement);
  const scrolled = places().filter((one) => one.scrollLeft || one.scrollTop).map((one) => ({ key: keyOf(one), left: one.scrollLeft, top: one.scrollTop }));
  replace();
  for (const { key, left, top } of scrolled)
    places().find((one) => keyOf(one) === key)?.scrollTo(left, top);
  if (key === null)
    return;
  const same = places().filter((one) => keyOf(one) === key);
  (same[rank] ?? same[0])?.focus({ preventScroll: true });
}

/** quiet: what is shown stays until the new one is there, with focus and scrolling. */
async function show(quiet: boolean): Promise<void> {
  asking?.abort();
  const mine = asking = new AbortController();
  const page = pages[state.page] ?? pages["host"];
  if (!page)
    return;
  const acts: HTMLElement[] = [];
  main.setAttribute("aria-busy", "true");
  try {
    await readRole(mine.signal);
    now = await readNow(mine.signal);
    const shown = await page.show({ state, signal: mine.signal, now, go, act: (element) => acts.push(element) });
    if (mine.signal.aborted || (quiet && isBusy()))
      return;
    for (const element of acts)
      element.hidden = role !== "operator" && role !== "admin";
    forgetCharts();
    const replace = (): void => {
      main.replaceChildren(...shown.elements);
      shown.draw?.();
    };
    complain("");
    if (quiet) {
      keepPlace(replace);
      return;
    }
    replace();
    main.focus({ preventScroll: true });
  } catch (error) {
    if (mine.signal.aborted)
      return;
    if (error instanceof api.ApiError && error.status === 401)
      askForToken(error.message);
    else
      complain(error instanceof api.ApiError ? error.message : `vgpud does not answer (${(error as Error).message})`);
  } finally {
    if (asking === mine) {
      asking = null;
      main.removeAttribute("aria-busy");
    }
  }
}

const isPresent = (): boolean => pages[state.page]?.present === true;
const isLive = (): boolean => (state.range !== "" || isPresent()) && document.visibilityState === "visible";
// Who types, presses or has chosen something is not to lose it.
const isBusy = (): boolean => main.matches(":active") || main.querySelector("input:focus, .answer:not(:empty), details[open]") !== null || (getSelection()?.isCollapsed === false);

function refreshSoon(event = ""): void {
  const minutes = isPresent() ? 0 : ranges[state.range] ?? 0;
  const wait = isPresent() && event === "migration" ? STEP_MS : Math.min(REFRESH_MS * Math.max(minutes / 60, 1), 60000);
  const at = performance.now() + wait;
  if (!isLive() || (due !== 0 && dueAt <= at))
    return;
  clearTimeout(due);
  dueAt = at;
  due = window.setTimeout(() => {
    due = 0;
    if (isLive() && !isBusy() && asking === null)
      void show(true);
  }, wait);
}

async function follow(signal: AbortSignal): Promise<void> {
  for (let wait = RETRY_MS; !signal.aborted; wait = Math.min(2 * wait, RETRY_MOST_MS)) {
    try {
      await api.listen("window,alert,migration,plan", (event) => {
        told = "";
        wait = RETRY_MS;
        refreshSoon(event);
      }, signal);
    } catch (error) {
      if (signal.aborted || (error instanceof api.ApiError && error.status === 401))
        return;
    }
    if (signal.aborted)
      return;
    told = "vgpud does not answer; the page shows old figures. Retrying ...";
    complain("");
    await new Promise((resolve) => setTimeout(resolve, wait));
    refreshSoon();
  }
}

function listenForEvents(): void {
  listening?.abort();
  listening = new AbortController();
  void follow(listening.signal);
}

function drawFrame(): void {
  byId("pages").replaceChildren(...Object.entries(pages).map(([page, { name }]) => el("a", {
    href: hashOf({ ...state, page, id: "", other: "" }), "aria-current": page === state.page ? "page" : undefined,
  }, name)));
  const select = el("select", { "aria-label": "Period", change: () => {
    go(select.value ? { range: select.value } : { range: "", ...periodOf(state, now) });
  } }, ...Object.keys(ranges).map((range) => el("option", { value: range, selected: range === state.range }, `last ${range}`)),
    el("option", { value: "", selected: state.range === "" }, "from ... until ..."));
  const at = (name: string, ms: number): HTMLInputElement => {
    const local = new Date(ms - 60000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 19);
    return el("input", { type: "datetime-local", step: 1, value: local, "aria-label": name });
  };
  const range = byId("range");
  if (state.range) {
    range.replaceChildren(select);
    return;
  }
  const since = at("from", state.since), until = at("to", state.until);
  const take = (): void => {
    const [from, to] = [new Date(since.value).getTime(), new Date(until.value).getTime()];
    if (to > from)
      go({ range: "", since: from, until: to });
  };
  since.addEventListener("change", take);
  until.addEventListener("change", take);
  range.replaceChildren(select, since, until);
}

function onAddress(): void {
  const token = /(?:^#|[?&])token=([^&]+)/.exec(location.hash)?.[1];
  if (token) {
    // It was behind "#", so that no server saw it; now nobody sees it in the address or the history.
    api.setToken(decodeURIComponent(token));
    role = "";
    const rest = location.hash.replace(/([?&#])token=[^&]+&?/, "$1").replace(/[?&]$/, "");
    history.replaceState(null, "", rest === "#" ? location.pathname : rest);
  }
  state = readState(location.hash);
  drawFrame();
  void show(false);
}

addEventListener("hashchange", onAddress);
document.addEventListener("visibilitychange", () => refreshSoon());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void show(true));
byId("range").addEventListener("submit", (event) => event.preventDefault());
onAddress();
listenForEvents();
