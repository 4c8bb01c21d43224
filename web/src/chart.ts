// SPDX-License-Identifier: Apache-2.0
// Lines over time. Selecting a part of a chart shows that time on the whole page.

import uPlot from "uplot";

export interface Line { label: string; values: (number | null)[]; colour?: string; fill?: boolean }
export interface Mark { at: number; text: string } // seconds since the epoch

export const COLOURS = ["#2f6fde", "#c2410c", "#15803d", "#9333ea", "#b45309", "#0e7490", "#be185d", "#64748b", "#4d7c0f"];
const LEAST_SHOWN = 0.1; // of an axis: next to nothing is not to look like much
const dark = (): boolean => window.matchMedia("(prefers-color-scheme: dark)").matches;

/** A colour half way to the background; it hides what is behind it. */
function pale(colour: string): string {
  const back = dark() ? [22, 24, 26] : [255, 255, 255];
  return `rgb(${back.map((part, i) => Math.round((part + parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16)) / 2)).join(", ")})`;
}

function drawMarks(marks: Mark[]): (chart: uPlot) => void {
  return (chart) => {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = dark() ? "#ffb86b" : "#9a3412";
    ctx.textAlign = "left";
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    for (const mark of marks) {
      const x = chart.valToPos(mark.at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width)
        continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(mark.text, x + 3 * devicePixelRatio, bbox.top + 11 * devicePixelRatio);
    }
    ctx.restore();
  };
}

/** A figure between two gaps would be a line without a length: it is drawn as a point. */
const alone = (values: (number | null)[]): number[] =>
  values.flatMap((value, i) => value !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null ? [i] : []);

/** Adds each line to those before it, so that the topmost one is the sum. */
function stack(lines: Line[]): Line[] {
  const sums: number[] = [];
  return lines.map((line) => ({
    ...line, fill: true,
    values: line.values.map((value, i) => value === null ? null : (sums[i] = (sums[i] ?? 0) + value)),
  }));
}

export interface ChartOptions {
  title: string; unit: string; times: number[]; lines: Line[]; marks?: Mark[]; stacked?: boolean;
  period: { since: number; until: number };
  onSelect: (since: number, until: number) => void;
}

const shown = new Map<HTMLElement, uPlot>();
const observer = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const chart = shown.get(entry.target as HTMLElement);
    if (chart && entry.contentRect.width > 0 && Math.abs(chart.width - entry.contentRect.width) > 1)
      chart.setSize({ width: entry.contentRect.width, height: chart.height });
  }
});

export function forgetCharts(): void {
  for (const [box, chart] of shown) {
    observer.unobserve(box);
    chart.destroy();
  }
  shown.clear();
}

/** The box is in the document before this is called, so that it has a width. */
export function draw(box: HTMLElement, options: ChartOptions): void {
  const axis = dark() ? "#a3a9af" : "#55595e", grid = dark() ? "#2c3034" : "#e5e8eb";
  const lines = options.stacked ? stack(options.lines) : options.lines;
  // The sum is drawn first, and what it is made of on top of it.
  const order = lines.map((_, i) => options.stacked ? lines.length - 1 - i : i);
  const value = (i: number) => (_: uPlot, __: number, ___: number, index: number | null): string => {
    const raw = index === null || index === undefined ? null : options.lines[i]?.values[index];
    return raw === null || raw === undefined ? "-" : `${raw.toFixed(2)} ${options.unit}`;
  };
  const series: uPlot.Series[] = [{ value: (_, at) => at === null || at === undefined ? "-" : new Date(1000 * at).toLocaleString() }];
  for (const i of order) {
    const colour = lines[i]?.colour ?? COLOURS[i % COLOURS.length] ?? axis;
    series.push({ label: lines[i]?.label, stroke: colour, width: 1.5, fill: lines[i]?.fill ? options.stacked ? pale(colour) : `${colour}55` : undefined,
      points: { show: true, filter: () => alone(lines[i]?.values ?? []) }, value: value(i) as unknown as uPlot.Series.Value });
  }
  const look = { stroke: axis, grid: { stroke: grid }, ticks: { stroke: grid } };
  const axes: uPlot.Axis[] = [{ ...look, space: 70 }, { ...look, size: 60 }];
  const x = { min: options.period.since / 1000, max: options.period.until / 1000 };
  const chart = new uPlot({
    width: Math.max(box.clientWidth, 240), height: 200, series, axes,
    cursor: { drag: { x: true, y: false, setScale: false } },
    scales: {
      x: x as uPlot.Scale,
      y: { range: (_, __, most) => [0, Math.max(most * 1.05, LEAST_SHOWN)] },
    },
    hooks: {
      draw: options.marks?.length ? [drawMarks(options.marks)] : [],
      setSelect: [(self) => {
        if (self.select.width < 8)
          return;
        const since = self.posToVal(self.select.left, "x"), until = self.posToVal(self.select.left + self.select.width, "x");
        options.onSelect(1000 * since, 1000 * Math.max(until, since + 2));
      }],
    },
  }, [options.times, ...order.map((i) => lines[i]?.values ?? [])] as uPlot.AlignedData, box);
  chart.setScale("x", x);
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `${options.title}, in ${options.unit}`);
  shown.set(box, chart);
  observer.observe(box);
}
