import { drawSvg } from './draw-svg.ts';

/** The chart as a self-contained SVG document, light and dark. Its element ids are those of `stateId` and `edgeId`. */
export function chartToSvg(): string {
  return drawSvg().replace('>', `>\n<style>\n${COLORS}${CHART_STYLE}</style>`);
}

const COLORS = `.chart {
  --chart-ink: #1c2128;
  --chart-muted: #57606a;
  --chart-line: #8c959f;
  --chart-face: #ffffff;
  --chart-edge: #afb8c1;
  --chart-frame: #f3f5f8;
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  .chart {
    --chart-ink: #e3e8ee;
    --chart-muted: #9aa5b1;
    --chart-line: #6b7683;
    --chart-face: #1b2129;
    --chart-edge: #465160;
    --chart-frame: #141920;
  }
}
`;

/** The style sheet of the drawing, for pages that embed it and set its variables. */
export const CHART_STYLE = `.chart .face { fill: var(--chart-face); stroke: var(--chart-edge); stroke-width: 1; }
.chart .frame > .face { fill: var(--chart-frame); }
.chart .inset { fill: none; stroke: var(--chart-edge); stroke-width: 1; }
.chart .anywhere .face { fill: none; stroke-dasharray: 3 3; }
.chart .name { fill: var(--chart-ink); font-size: 12px; font-weight: 600; }
.chart .service, .chart .count { fill: var(--chart-muted); font-size: 10px; }
.chart .label { fill: var(--chart-muted); font-size: 10.5px; }
.chart .choice .label { fill: var(--chart-ink); }
.chart .line { fill: none; stroke: var(--chart-line); stroke-width: 1.2; }
.chart .head, .chart .start circle { fill: var(--chart-line); }
`;
