import { chartToJson, chartToMermaid } from '../../visualizer/mermaid.ts';
import { assertOneOf } from '../change-run.ts';
import { EXIT } from '../exit-codes.ts';

export type DiagramOptions = { mermaid?: boolean; json?: boolean; svg?: boolean };

export async function diagram({ mermaid, json, svg }: DiagramOptions): Promise<number> {
  assertOneOf({ '--mermaid': mermaid, '--json': json, '--svg': svg });
  process.stdout.write(await draw({ json: json === true, svg: svg === true }));
  return EXIT.done;
}

async function draw({ json, svg }: { json: boolean; svg: boolean }): Promise<string> {
  if (json) return `${JSON.stringify(chartToJson(), null, 2)}\n`;
  if (!svg) return chartToMermaid();
  const { chartToSvg } = await import('../../visualizer/chart-svg.ts');
  return `${chartToSvg()}\n`;
}
