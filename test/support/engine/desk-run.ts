import fc from 'fast-check';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { StartOptions } from '../../../agent/begin-journal.ts';
import type { Run } from '../../../engine/run/run.ts';
import { InDoubt } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, clientTool, makeTool } from './agents.ts';
import { clientCalls } from './client-calls.ts';

// Random runs of an agent that has every kind of tool, and everything that people do to a run.

const TOOLS = [
  ...(['read', 'put', 'pay', 'flaky', 'lost', 'refund', 'grant', 'quick', 'show'] as const),
  ...(['clerk', 'rare', 'no_such'] as const),
];
const WORDS = [
  ...(['approve', 'approve', 'approve', 'reject', 'always', 'never', 'edit', 'answer', 'wait'] as const),
  ...(['happened', 'again', 'send', 'pause', 'step', 'unpause', 'edit-turn', 'retry', 'params'] as const),
  'cancel' as const,
];

export type DeskRecipe = {
  turns: ScriptedTurn[];
  /** What people do at each rest, if it is possible there. */
  words: (typeof WORDS)[number][];
  options: Partial<AgentOptions>;
  start: StartOptions;
};

const usage = { inputTokens: 50, outputTokens: 5 };

function argumentsOf(name: string, n: number) {
  if (name === 'clerk') return { input: `question ${n}` };
  return name === 'refund' && n === 1 ? 'no JSON' : { n };
}

const made = fc
  .tuple(fc.constantFrom(...TOOLS), fc.nat(1))
  .map(([name, n]): [string, ReturnType<typeof argumentsOf>] => [name, argumentsOf(name, n)]);
const round = fc
  .array(made, { minLength: 1, maxLength: 3 })
  .map((round): ScriptedTurn => ({ text: 'Let me see.', usage, ...calls(...round) }));
const draft: ScriptedTurn = { text: 'Draft.', usage };
const answers = Array.from({ length: 12 }, (_, index): ScriptedTurn => ({ text: `Answer ${index}.`, usage }));
const starts: StartOptions[] = [
  {},
  { by: 'eve' },
  { paused: true },
  { paused: true, holdsAtEnd: true },
  { limits: { turns: 2 } },
  { limits: { toolCalls: 2 }, onLimit: 'stop' },
  { limits: { tokens: 100 } },
];

export const deskRecipes: fc.Arbitrary<DeskRecipe> = fc
  .record({
    turns: fc.array(round, { maxLength: 4 }).map(rounds => [...rounds, draft, ...answers]),
    words: fc.array(fc.constantFrom(...WORDS), { maxLength: 10 }),
    options: fc.record({
      toolConcurrency: fc.constantFrom(1, 64),
      onMessage: fc.constantFrom('queue', 'supersede'),
      finalAnswer: fc.constantFrom('live', 'held', 'separate'),
      toolChoice: fc.constantFrom('auto', 'required'),
      onLimit: fc.constantFrom('answer', 'stop'),
    }),
    start: fc.constantFrom(...starts),
  })
  // A recording does not have what the run of a sub-agent spent, which counts against limits.
  .filter(({ start, turns }) => start.limits === undefined || !JSON.stringify(turns).includes('"clerk"'));

/** `touch`: called instead of each tool, and of the model of the agent below. */
export function makeDesk(
  { turns, options }: Pick<DeskRecipe, 'turns' | 'options'>,
  { host, store, touch }: { host?: ManualHost; store?: Store; touch?: (name: string) => never } = {},
): Agent {
  const counts = new Map<string, number>();
  const run = (name: string) => () => {
    touch?.(name);
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    if (name === 'lost') throw new InDoubt('no answer came');
    if (name === 'flaky' && count % 2 === 1) throw new Error('busy');
    return name === 'put' ? `put ${count} ${'x'.repeat(40)}` : `${name} ${count}`;
  };
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([{ text: 'They owe 5.' }]),
    prepareTurn: () => touch?.('clerk'),
  });
  const tools: Tool[] = [
    makeTool('read', { sideEffect: 'none', run: run('read') }),
    makeTool('put', { sideEffect: 'idempotent', run: run('put') }),
    makeTool('pay', { run: run('pay') }),
    makeTool('flaky', { sideEffect: 'idempotent', retries: 1, run: run('flaky') }),
    makeTool('lost', {
      run: run('lost'),
      ...(touch && { reconcile: () => touch('lost') }),
    }),
    tool({
      name: 'refund',
      description: 'Pays back.',
      input: z.object({ n: z.number() }),
      approval: true,
      run: run('refund'),
    }),
    makeTool('grant', {
      approval: () => ({ required: true, by: 'managers', quorum: 2, not: 'starter' }),
      run: run('grant'),
    }),
    makeTool('quick', { approval: { required: true, expiresInMs: 60_000 }, run: run('quick') }),
    clientTool('show'),
    clerk.asTool({ name: 'clerk', description: 'Asks the clerk.' }),
    makeTool('rare', { sideEffect: 'none', deferred: true, run: run('rare') }),
  ];
  return createAgent({
    name: 'desk',
    model: scripted(turns),
    maxResultBytes: 30,
    tools,
    ...(options as object),
    ...(host && { host }),
    ...(store && { store }),
  });
}

/** Plays a recipe to the end of its words; the run may still be at rest then. */
export async function recordDesk(recipe: DeskRecipe): Promise<{ store: Store; run: Run }> {
  const [host, store] = [new ManualHost(), memory()];
  const run = await makeDesk(recipe, { host, store }).start('go', recipe.start);
  for (const word of recipe.words) {
    const { status } = await host.settle(run.settled());
    if (status !== 'waiting') break;
    await say(word, run, host);
  }
  await host.settle(run.settled());
  return { store, run };
}

/** Does nothing where it is not possible: the engine refuses it. */
async function say(word: DeskRecipe['words'][number], run: Run, host: ManualHost): Promise<unknown> {
  const settled = await host.settle(run.settled());
  if (settled.status !== 'waiting') return;
  const { callId: gated = '', name } = settled.approvals[0] ?? {};
  const doubted = settled.doubts[0]?.callId ?? '';
  const as = (person: string) => ({ as: { name: person, groups: ['managers'] } });
  switch (word) {
    case 'approve':
      await run.approve(gated, as('mia'));
      return name === 'grant' && (await run.approve(gated, as('max')));
    case 'reject':
      return await run.reject(gated, { reason: 'no', ...as('mia') });
    case 'always':
      return await run.approve(gated, { sticky: true, by: 'mia' });
    case 'never':
      return await run.reject(gated, { sticky: true, by: 'mia' });
    case 'edit':
      return await run.approve(gated, { input: { n: 9 }, ...as('mia') });
    case 'answer':
      return await run.answer(clientCalls(settled)[0]?.callId ?? gated, { output: { ok: 1 }, by: 'mia' });
    case 'happened':
      return await run.resolve(doubted, { happened: true, output: 'found' });
    case 'again':
      return await run.resolve(doubted, { retry: true });
    case 'wait':
      return await host.advance(61_000);
    case 'send':
      return await run.send('And then?', { by: 'bob' });
    case 'edit-turn':
      return await run.editTurn({ text: 'Other words.' });
    case 'retry':
      return await run.retry(failedCall(run));
    case 'params':
      return await run.setParams({ settings: { temperature: 0 } });
    case 'cancel':
      return await run.cancel();
    default:
      return await run[word]();
  }
}

function failedCall(run: Run): string {
  const failed = run.context.transcript.findLast(
    item => item.type === 'tool_result' && item.isError === true,
  );
  return failed?.type === 'tool_result' ? failed.callId : '';
}
