import { drawSvg } from './draw-svg.ts';
import { layoutChart } from './layout-chart.ts';

/** The text of `chart-drawing.ts` for the chart as it is now. Lays it out, so elkjs has to be installed. */
export async function writeDrawing(): Promise<string> {
  const svg = drawSvg(await layoutChart());
  return [
    '/** The chart, drawn from the machine by draw-svg.ts. Made by `npm run docs`; a test keeps it current. */',
    `export const CHART_DRAWING = \`${svg.replaceAll(/[`\\$]/g, '\\$&')}\`;`,
    '',
  ].join('\n');
}
