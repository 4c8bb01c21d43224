// SPDX-License-Identifier: Apache-2.0
// What the address says after "#": the page, what is selected, and the time. A link keeps all of it.

export interface Period { since: number; until: number } // ms since the epoch

export interface State {
  page: string;
  id: string;   // of a VM or GPU
  other: string; // who took from it
  range: string; // one of ranges, or "" where since and until are given
  since: number; // ms
  until: number;
}

/** Minutes back from now. */
export const ranges: Record<string, number> = { "5min": 5, "1h": 60, "6h": 360, "24h": 1440, "7d": 10080, "30d": 43200 };
const RANGE = "1h";

export function readState(hash: string): State {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", id = "", other = ""] = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return "";
    }
  });
  const parameters = new URLSearchParams(query);
  const since = Number(parameters.get("since")), until = Number(parameters.get("until"));
  const range = parameters.get("range") ?? "";
  if (since > 0 && until > since)
    return { page: page || "host", id, other, range: "", since: 1000 * since, until: 1000 * until };
  return { page: page || "host", id, other, range: range in ranges ? range : RANGE, since: 0, until: 0 };
}

/** Seconds, to a thousandth. */
const ofMs = (ms: number): string => String(Math.round(ms) / 1000);

export function hashOf(state: State): string {
  const parts = [state.page, state.id, state.other].map(encodeURIComponent);
  while (parts.length > 1 && !parts[parts.length - 1])
    parts.pop();
  const time = state.range ? `range=${state.range}` : `since=${ofMs(state.since)}&until=${ofMs(state.until)}`;
  return `#/${parts.join("/")}?${time}`;
}

export function periodOf(state: State, now: number): Period {
  if (!state.range)
    return { since: state.since, until: state.until };
  return { since: now - 60000 * (ranges[state.range] ?? 60), until: now };
}

/** Steps of a period: no more than a chart has pixels for, whole units, at least `least` seconds. */
export function stepOf(period: Period, most: number, least: number): number {
  const wanted = (period.until - period.since) / 1000 / most;
  const steps = [1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 21600, 86400];
  return steps.find((step) => step >= wanted && step >= least) ?? 86400 * Math.ceil(wanted / 86400);
}

/** For since= and until= of the interface. */
export const timeOf = (period: Period): { since: number; until: number } =>
  ({ since: Math.floor(period.since / 1000), until: Math.ceil(period.until / 1000) });
