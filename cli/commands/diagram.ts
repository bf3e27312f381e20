import { chartToJson, chartToMermaid } from '../../visualizer/mermaid.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { assertOneOf } from '../options.ts';

export const diagram: Action<'diagram'> = async ({ mermaid, json, svg }) => {
  assertOneOf({ '--mermaid': mermaid, '--json': json, '--svg': svg });
  if (mermaid) process.stdout.write(chartToMermaid());
  else if (json) process.stdout.write(`${JSON.stringify(chartToJson(), null, 2)}\n`);
  else process.stdout.write(`${(await import('../../visualizer/chart-svg.ts')).chartToSvg()}\n`);
  return EXIT.done;
};
