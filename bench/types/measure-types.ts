import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What `tsc` reports of one compilation. */
export type TypeCost = { checkMs: number; instantiations: number };

/**
 * Compiles an agent of this many tools, with the code that uses a settled run, against the sources of the package. The
 * cost includes that of the sources, so compare it with an agent of one tool. Throws an `Error` if it does not compile.
 */
export function measureTypes(tools: number): TypeCost {
  const cache = join(ROOT, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'types-'));
  try {
    writeFileSync(join(folder, 'agent.ts'), agentOf(tools));
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ extends: join(ROOT, 'tsconfig.json'), include: [], files: ['agent.ts'] }),
    );
    return compile(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function compile(folder: string): TypeCost {
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const args = [tsc, '-p', folder, '--singleThreaded', '--extendedDiagnostics'];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`tsc failed:\n${stdout}${stderr}`);
  return { checkMs: 1000 * read(stdout, 'Check time'), instantiations: read(stdout, 'Instantiations') };
}

function read(output: string, name: string): number {
  const found = new RegExp(`^${name}:\\s+([\\d.]+)`, 'm').exec(output)?.[1];
  if (found === undefined) throw new Error(`tsc reported no "${name}":\n${output}`);
  return Number(found);
}

/** Tools of several kinds, an agent that has them, and a program that handles each of them by name. */
function agentOf(tools: number): string {
  const numbers = Array.from({ length: tools }, (_, number) => number);
  return `
import * as z from 'zod';
import { createAgent, tool } from '../../../agent/index.ts';
${numbers.map(toolOf).join('')}
export const agent = createAgent({
  name: 'desk',
  tools: [${numbers.map(number => `tool${number}`).join(', ')}],
  output: z.object({ total: z.number() }),
  runContext: z.object({ user: z.string(), tenant: z.string() }),
});
export async function drive(): Promise<number> {
  const run = await agent.start('go', { runContext: { user: '7', tenant: 'a' } });
  const settled = await run.settled();
  if (settled.status === 'waiting')
    for (const call of settled.approvals)
      switch (call.name) {
${numbers.map(number => `case 'tool_${number}': await run.approve(call, { input: { ...call.input, n${number}: 1 } }); break;`).join('\n')}
      }
  if (settled.status !== 'finished') return 0;
  for (const result of settled.results)
    switch (result.isError ? '' : result.name) {
${numbers.map(number => `case 'tool_${number}': if (!result.isError && result.name === 'tool_${number}') return result.output.sum${number}; break;`).join('\n')}
    }
  return settled.output?.total ?? 0;
}
`;
}

function toolOf(number: number): string {
  const context = number % 2 === 0 ? 'runContext: z.object({ user: z.string() }),' : '';
  const output = number % 3 === 0 ? `output: z.object({ sum${number}: z.number() }),` : '';
  return `
const tool${number} = tool({
  name: 'tool_${number}',
  description: 'Adds.',
  input: z.object({ n${number}: z.number(), kind: z.enum(['a', 'b${number}']), note: z.string().optional() }),
  ${output} ${context}
  approval: ({ input }) => input.n${number} > 1,
  run: async input => ({ sum${number}: input.n${number} }),
});`;
}
