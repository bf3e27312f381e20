import fc from 'fast-check';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { HistoryCall, RuleVerdict } from '../../../protocol/rule.ts';
import type { Store } from '../../../protocol/store.ts';
import { never } from '../../../rules/condition.ts';
import { type Rule, rule } from '../../../rules/rule.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, makeTool } from './agents.ts';
import { clientCalls } from './client-calls.ts';

/** A script, and the command at each rest; both are arbitrary. */
export type Recipe = {
  turns: ScriptedTurn[];
  words: ('approve' | 'reject' | 'answer' | 'send' | 'cancel')[];
  /** Whether people review each answer. */
  isReviewed?: boolean;
  /** What becomes of calls that break a rule, with their turn or right before they start. */
  then?: RuleVerdict | undefined;
};

/** Rules that each verdict may come from. */
function rulesOf(then: RuleVerdict): Rule[] {
  const wasRead = (history: readonly HistoryCall[]) =>
    history.some(({ name, outcome }) => name === 'read' && outcome === 'done');
  return [
    rule({ when: never('act').after('show'), then }),
    rule({
      name: 'read before',
      when: ({ call, history }) => call.name === 'fail' && wasRead(history),
      then,
    }),
    rule({ name: 'tried', when: never('read'), mode: 'shadow' }),
  ];
}

const round = fc
  .array(fc.constantFrom('read', 'act', 'show', 'fail', 'unknown', 'ship', 'ask'), {
    minLength: 1,
    maxLength: 3,
  })
  .map((names): ScriptedTurn => ({ text: 'Let me see.', ...calls(...names) }));
const failure = fc.constant<ScriptedTurn>({ error: { code: 'overloaded', times: 1 } });

export const recipes: fc.Arbitrary<Recipe> = fc.record({
  turns: fc
    .array(fc.oneof({ weight: 3, arbitrary: round }, failure), { maxLength: 4 })
    .map(turns => [...turns, { text: 'Done.' }]),
  words: fc.array(fc.constantFrom('approve', 'reject', 'answer', 'send', 'cancel'), { maxLength: 8 }),
  isReviewed: fc.boolean(),
  then: fc.constantFrom(undefined, 'block', 'ask', 'stop'),
});

export type Recorded = { host: ManualHost; store: Store; agent: Agent; run: Run };

/** Plays a recipe to the end of its commands; the run may still be at rest then. */
export async function recordRun(
  { turns, words, isReviewed = false, then }: Recipe,
  store = memory(),
): Promise<Recorded> {
  const host = new ManualHost();
  const helper = createAgent({
    name: 'helper',
    model: scripted([calls('look'), { text: 'Seen.' }]),
    tools: [makeTool('look', { sideEffect: 'none' })],
  });
  const agent = createAgent({
    name: 'recorded',
    host,
    store,
    model: scripted(turns),
    tools: [
      makeTool('read', { sideEffect: 'none' }),
      makeTool('act', { approval: true }),
      makeTool('fail', {
        run: () => {
          throw new Error('no');
        },
      }),
      clientTool('show'),
      makeTool('ship', { background: true }),
      helper.asTool({ name: 'ask', description: 'Asks.', background: true }),
    ],
    ...(then !== undefined && { rules: rulesOf(then) }),
    ...(isReviewed && { guardrails: { answer: () => ({ type: 'ask', reason: 'someone has to see it' }) } }),
  });
  const run = await agent.start('go');
  for (const word of words) {
    const settled = await host.settle(run.settled());
    if (settled.status !== 'waiting') break;
    const [approval] = settled.approvals;
    const [review] = settled.reviews;
    const open = approval ?? clientCalls(settled)[0];
    if (word === 'send') await run.send('And then?');
    else if (word === 'cancel') await run.cancel();
    else if (review !== undefined && word === 'reject') await run.reject(review, { reason: 'say it better' });
    else if (review !== undefined)
      await run.approve(review, word === 'answer' ? { answer: 'Another answer.' } : {});
    else if (open === undefined) break;
    else if (word === 'answer' || approval === undefined)
      await run.answer(open.callId, { output: { ok: 1 } });
    else if (word === 'approve') await run.approve(open.callId);
    else await run.reject(open.callId, { reason: 'not now' });
  }
  await host.settle(run.settled());
  return { host, store, agent, run };
}
