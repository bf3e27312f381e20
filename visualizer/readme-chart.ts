import { chartToMermaid } from './mermaid.ts';

const CHART = /(<!-- chart:begin .*-->\n)[\s\S]*(<!-- chart:end -->)/;

/** The document with the chart between its two marks; throws when it has not got them. */
export function insertChart(document: string): string {
  if (!CHART.test(document))
    throw new Error('Expected the marks <!-- chart:begin … --> and <!-- chart:end -->.');
  return document.replace(
    CHART,
    (_, begin, end) => `${begin}\n\`\`\`mermaid\n${chartToMermaid()}\`\`\`\n\n${end}`,
  );
}
