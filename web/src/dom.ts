// SPDX-License-Identifier: Apache-2.0
// Elements. Names come from guests and from whoever made them: they are text, and never markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

export function el<K extends keyof HTMLElementTagNameMap>(name: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function")
      element.addEventListener(key, value);
    else if (value !== undefined && value !== false)
      element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

export interface Column<T> { head: string; number?: boolean; cell: (row: T) => Child }

export function table<T>(caption: string, columns: Column<T>[], rows: T[], empty: string): HTMLElement {
  if (rows.length === 0)
    return el("p", { class: "note" }, empty);
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {},
      el("thead", {}, el("tr", {}, ...columns.map((column) => el("th", { scope: "col", class: column.number ? "n" : undefined }, column.head)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {},
        ...columns.map((column) => el("td", { class: column.number ? "n" : undefined }, column.cell(row))))))));
}

export const cores = (share: number | null | undefined): string => share === null || share === undefined ? "-" : share.toFixed(2);
// What nobody can tell is null.
export const told = (figure: number | null | undefined, text: (figure: number) => string): string => figure === null || figure === undefined ? "-" : text(figure);
export const percent = (part: number): string => `${(100 * part).toFixed(0)}\u00a0%`;
export const seconds = (ns: number): string => {
  const s = ns / 1e9;
  return s >= 100 ? `${s.toFixed(0)} s` : s >= 1 ? `${s.toFixed(1)} s` : s >= 0.01 ? `${(1000 * s).toFixed(0)} ms` : ns === 0 ? "0"
    : s >= 0.0001 ? `${(1000 * s).toFixed(2)} ms` : `${(1e6 * s).toFixed(1)} µs`;
};
export const bytes = (count: number): string => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"], unit = count > 0 ? Math.min(Math.floor(Math.log2(count) / 10), units.length - 1) : 0;
  return `${(count / 1024 ** unit).toFixed(unit ? 1 : 0)} ${units[unit]}`;
};
export const clock = (ns: number): string => new Date(ns / 1e6).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
export const labelOf = (named: { id?: string; name: string | null; label?: string }): string => named.label ?? named.name ?? named.id ?? "-";
