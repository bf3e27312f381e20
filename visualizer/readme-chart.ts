import { chartToMermaid } from './mermaid.ts';

const CHART = /(<!-- chart:begin .*-->\n)[\s\S]*(<!-- chart:end -->)/;

const PICTURE = '![The statechart: every wait leads back to deciding](docs/images/chart.svg)';

/** The document with the chart between its two marks, as a picture and as Mermaid; throws when it has not got them. */
export function insertChart(document: string): string {
  if (!CHART.test(document))
    throw new Error('Expected the marks <!-- chart:begin … --> and <!-- chart:end -->.');
  const chart = `${PICTURE}\n\n<details><summary>The same as Mermaid</summary>\n\n\`\`\`mermaid\n${chartToMermaid()}\`\`\`\n\n</details>`;
  return document.replace(CHART, (_, begin, end) => `${begin}\n${chart}\n\n${end}`);
}
