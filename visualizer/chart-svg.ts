import { CHART_DRAWING } from './chart-drawing.ts';
import { CHART_STYLE } from './chart-style.ts';

/** The chart as an SVG document that looks right by itself, in light and dark. Ids: `stateId`, `edgeId`. */
export function chartToSvg(): string {
  return CHART_DRAWING.replace('>', `>\n<style>\n${CHART_STYLE}</style>`);
}
