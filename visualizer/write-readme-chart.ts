/**
 * Draws the current chart: `npm run docs` writes visualizer/chart-drawing.ts, docs/images/chart.svg and the chart in
 * ARCHITECTURE.md. Tests check that all three match the machine.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { insertChart } from './readme-chart.ts';
import { writeDrawing } from './write-drawing.ts';

const pathOf = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

writeFileSync(pathOf('chart-drawing.ts'), await writeDrawing());
const { chartToSvg } = await import('./chart-svg.ts');
mkdirSync(pathOf('../docs/images'), { recursive: true });
writeFileSync(pathOf('../docs/images/chart.svg'), chartToSvg());

const architecture = pathOf('../ARCHITECTURE.md');
writeFileSync(architecture, insertChart(readFileSync(architecture, 'utf8')));
