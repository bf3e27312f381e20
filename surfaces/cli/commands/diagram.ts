import { chartToJson, chartToMermaid } from '../../../visualizer/mermaid.ts';
import { assertOneOf } from '../change-run.ts';
import { EXIT } from '../exit-codes.ts';

export type DiagramOptions = { mermaid?: boolean; json?: boolean };

export async function diagram({ mermaid, json }: DiagramOptions): Promise<number> {
  assertOneOf({ '--mermaid': mermaid, '--json': json });
  process.stdout.write(json === true ? `${JSON.stringify(chartToJson(), null, 2)}\n` : chartToMermaid());
  return EXIT.done;
}
