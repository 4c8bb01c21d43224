// SPDX-License-Identifier: Apache-2.0
// What vgpud answers. The token is kept in memory only, and goes into a header.

import type { Answers, Posts, Queries } from "./schema";

export type * from "./schema";

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

type Past = { length_ns: number };
/** With since=, some of the interface answers of a past time, and otherwise of the present. */
type Of<A, Q> = Q extends { since: unknown } ? ([Extract<A, Past>] extends [never] ? A : Extract<A, Past>) : Exclude<A, Past>;

function address(path: string, query: Record<string, string | number | undefined>, id?: string): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`);
  return path.replace("{id}", encodeURIComponent(id ?? "")) + (given.length ? `?${given.join("&")}` : "");
}

export async function get<P extends keyof Answers, Q extends Queries[P]>(path: P, query: Q, signal?: AbortSignal, id?: string): Promise<Of<Answers[P], Q>> {
  return await (await request(address(path, query as Record<string, string>, id), { signal })).json() as Of<Answers[P], Q>;
}

export async function post<P extends keyof Posts>(path: P, body: Posts[P]["body"]): Promise<Posts[P]["answer"]> {
  return await (await request(path, { method: "POST", body: JSON.stringify(body) })).json() as Posts[P]["answer"];
}

type Paged = { [P in keyof Answers]: Answers[P] extends { items: unknown[]; next: string | null } ? P : never }[keyof Answers];
type Item<A> = A extends { items: (infer I)[] } ? I : never;

/** All items of a list, page by page, up to a bound. */
export async function list<P extends Paged, Q extends Queries[P]>(path: P, query: Q, most: number, signal?: AbortSignal): Promise<Item<Of<Answers[P], Q>>[]> {
  const items: Item<Of<Answers[P], Q>>[] = [];
  let marker: string | null = null;
  do {
    const page: { items: unknown[]; next: string | null } = await get(path, marker ? { ...query, marker } : query, signal);
    items.push(...page.items as Item<Of<Answers[P], Q>>[]);
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
