/** `npm run docs`: draws the chart for the page, docs/images/chart.svg and ARCHITECTURE.md. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { writePlaces } from './layout-chart.ts';
import { chartToMermaid } from './mermaid.ts';

const CHART = /(<!-- chart:begin .*-->\n)[\s\S]*(<!-- chart:end -->)/;

const PICTURE = '![The statechart: every wait leads back to deciding](docs/images/chart.svg)';

/** Inserts the chart as an image and as Mermaid between the document's two markers. Throws if it has no markers. */
export function insertChart(document: string): string {
  if (!CHART.test(document))
    throw new Error('Expected the markers <!-- chart:begin … --> and <!-- chart:end -->.');
  const chart = `${PICTURE}\n\n<details><summary>The same as Mermaid</summary>\n\n\`\`\`mermaid\n${chartToMermaid()}\`\`\`\n\n</details>`;
  return document.replace(CHART, (_, begin, end) => `${begin}\n${chart}\n\n${end}`);
}

if (import.meta.main) {
  const pathOf = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

  writeFileSync(pathOf('chart-places.ts'), await writePlaces());
  const { chartToSvg } = await import('./chart-svg.ts');
  mkdirSync(pathOf('../docs/images'), { recursive: true });
  writeFileSync(pathOf('../docs/images/chart.svg'), chartToSvg());

  const architecture = pathOf('../ARCHITECTURE.md');
  writeFileSync(architecture, insertChart(readFileSync(architecture, 'utf8')));
}
