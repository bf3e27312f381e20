import { chartToJson, chartToMermaid } from '../../visualizer/mermaid.ts';
import { EXIT } from '../exit-codes.ts';
import { assertOneOf } from '../options.ts';

type DiagramOptions = { mermaid?: boolean; json?: boolean; svg?: boolean };

/** Implements `agentchart diagram`: prints the chart in one format. Throws `input-invalid` unless one is given. */
export async function diagram(options: DiagramOptions): Promise<number> {
  const { mermaid, json, svg } = options;
  assertOneOf({ '--mermaid': mermaid, '--json': json, '--svg': svg });
  process.stdout.write(await draw(options));
  return EXIT.done;
}

async function draw({ json, svg }: DiagramOptions): Promise<string> {
  if (json === true) return `${JSON.stringify(chartToJson(), null, 2)}\n`;
  if (svg !== true) return chartToMermaid();
  const { chartToSvg } = await import('../../visualizer/chart-svg.ts');
  return `${chartToSvg()}\n`;
}
