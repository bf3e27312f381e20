import { readFileSync } from 'node:fs';
import { afterEach, expect, test, vi } from 'vitest';

/** The examples of docs/streams.md are separate files, so that they are type-checked and run. */
const EXAMPLES = ['classify', 'calls', 'watch', 'own'];

afterEach(() => {
  vi.restoreAllMocks();
});

function readExample(name: string): string {
  return readFileSync(new URL(`../support/docs/streams/${name}.ts`, import.meta.url), 'utf8')
    .replace("'./agentchart.ts'", "'agentchart'")
    .replace("'./scripted.ts'", "'agentchart/adapters/scripted'");
}

async function printedBy(name: string): Promise<unknown[]> {
  const printed: unknown[] = [];
  const lines = vi.spyOn(console, 'log').mockImplementation((...values) => {
    printed.push(...values);
  });
  const text = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await import(`../support/docs/streams/${name}.ts`);
  lines.mockRestore();
  text.mockRestore();
  return printed;
}

test('docs/streams.md shows exactly the examples that run here', () => {
  const page = readFileSync(new URL('../../docs/streams.md', import.meta.url), 'utf8');
  const shown = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(match => match[1]);
  expect(shown).toEqual(EXAMPLES.map(readExample));
});

test('the examples produce the output in docs/streams.md', async () => {
  expect(await printedBy('classify')).toEqual(['lookup_order', { orderId: 'A-1001' }, 'tool_calls']);
  expect(await printedBy('calls')).toEqual([false, 'lookup_order', true, 'lookup_order']);
  const watched = await printedBy('watch');
  expect(watched.slice(-2)).toEqual(['It is on its way.', 'stop']);
  expect(watched.slice(0, -2)).toContain(undefined);
  expect(watched.slice(0, -2)).not.toContain('stop');
  expect(await printedBy('own')).toEqual([
    [{ orderId: 'A-1001' }, { orderId: 'A-1002' }],
    { type: 'tool_result', callId: 'call_1', output: { status: 'shipped' }, isError: false },
    { type: 'tool_result', callId: 'call_2', output: '{"status":"shipped"}', isError: false },
  ]);
});
