import { CHART_DRAWING } from './chart-drawing.ts';
import { CHART_STYLE } from './chart-style.ts';

/** The chart as a self-contained SVG document, light and dark. Its element ids are those of `stateId` and `edgeId`. */
export function chartToSvg(): string {
  return CHART_DRAWING.replace('>', `>\n<style>\n${CHART_STYLE}</style>`);
}
