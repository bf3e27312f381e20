import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { FaultPoint } from '../../engine/host/host.ts';
import type { RunEvent } from '../../protocol/event.ts';
import {
  CLIENT,
  type Drilled,
  drillApprovals,
  GATED,
  type Move,
  ONCE,
  TOOLS,
  type ToolName,
} from '../support/durability/approval-drill.ts';
import { randomCases } from '../support/sample.ts';

const process = fc.constantFrom<(0 | 1)[]>(0, 1);
const call = fc.nat({ max: 11 });
const rarely = fc.nat({ max: 5 }).map(number => number === 0);

const point = fc.constantFrom<(FaultPoint | 'any')[]>(
  'any',
  'append.after',
  'model.after',
  'tool.before',
  'tool.after',
  'report.before',
  'input.after',
);

const move: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ type: fc.constant('approve'), process, call, sticky: rarely, edit: rarely }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('reject'), process, call, sticky: rarely }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('answer'), process, call }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('send'), process }) },
  {
    weight: 4,
    arbitrary: fc.record({ type: fc.constant('crash'), process, after: fc.nat({ max: 4 }), at: point }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant('wait'),
      process,
      ms: fc.constantFrom(200, 200, 200, 11_000, 61_000),
    }),
  },
  { weight: 6, arbitrary: fc.record({ type: fc.constant('turn'), process, turns: fc.nat({ max: 15 }) }) },
);

const plan = fc.record({
  rounds: fc.array(
    fc.array(fc.constantFrom<ToolName[]>(...TOOLS), { minLength: 2, maxLength: 5, size: 'max' }),
    {
      minLength: 2,
      maxLength: 4,
      size: 'max',
    },
  ),
  onMessage: fc.constantFrom<('supersede' | 'queue')[]>('supersede', 'queue'),
  moves: fc.array(move, { minLength: 5, maxLength: 50, size: 'max' }),
});

type Decided = Extract<RunEvent, { type: 'approval.decided' }>;
type Received = Extract<RunEvent, { type: 'result.received' }>;

test('random decisions and crashes: each call has one result, and every accepted decision takes effect', async () => {
  const seen = new Map<string, number>();
  const count = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1);
  await fc.assert(
    fc.asyncProperty(plan, async planned => {
      const drilled = await drillApprovals(planned);
      expect(findFaults(drilled)).toEqual([]);
      for (const { type } of drilled.accepted) count(type);
      for (let crashes = 0; crashes < drilled.crashes; crashes += 1) count('crash');
      for (const { type } of drilled.events) count(type);
    }),
    { numRuns: randomCases(80) },
  );
  const met = [
    'approve',
    'reject',
    'answer',
    'send',
    'crash',
    'timer.fired',
    'doubt.resolved',
    'tool.interrupted',
  ];
  expect(met.filter(what => (seen.get(what) ?? 0) < 5)).toEqual([]);
});

/** The faults at the end of a drill; empty if nothing was lost, doubled or run without approval. */
function findFaults({ settled, events, transcript, accepted, world }: Drilled): string[] {
  const faults: string[] = [];
  if (settled.status !== 'finished') return [`the run is ${JSON.stringify(settled)}`];
  const decided = events.filter((event): event is Decided => event.type === 'approval.decided');
  const received = events.filter((event): event is Received => event.type === 'result.received');
  const names = new Map<string, string>();
  for (const item of transcript) if (item.type === 'tool_call') names.set(item.callId, item.name);

  const called = [...names.keys()];
  const results = transcript.flatMap(item => (item.type === 'tool_result' ? [item] : []));
  if (results.map(({ callId }) => callId).join() !== called.join())
    faults.push(`the calls ${called} have the results ${results.map(({ callId }) => callId)}`);

  for (const { callId, output, isError } of results) {
    const name = names.get(callId) ?? '';
    const acts = world.get(callId) ?? [];
    const decisions = decided.filter(event => event.callId === callId);
    const answers = received.filter(event => event.callId === callId);
    if (decisions.length > 1) faults.push(`${callId} was decided ${decisions.length} times`);
    if (answers.length > 1) faults.push(`${callId} was answered ${answers.length} times`);
    if (new Set(acts.map(({ key }) => key)).size > 1) faults.push(`${callId} has several keys`);
    if (ONCE.has(name) && acts.length > 1) faults.push(`${callId} (${name}) acted ${acts.length} times`);
    const decision = decisions[0]?.decision;
    const isFree = !GATED.has(name) || isRuled(events, name, callId, 'approve');
    const mayRun = decision?.type === 'approve' || (decision === undefined && isFree);
    if (!mayRun && acts.length > 0) faults.push(`${callId} (${name}) ran without approval`);
    const expected = expectResult();
    if (!expected.includes(String(output)))
      faults.push(`${callId} (${name}) has the result ${output} instead of ${expected.join(' or ')}`);
    if (decision?.type === 'approve' && decision.input !== undefined)
      for (const { input } of acts)
        if (JSON.stringify(input) !== JSON.stringify(decision.input)) faults.push(`${callId} ran unedited`);

    function expectResult(): string[] {
      if (decision?.type === 'reject') return [`Not run: the call was rejected: ${decision.reason}`];
      if (decision?.type === 'answer') return [String(decision.output)];
      if (mayRun && CLIENT.has(name)) return answers.map(({ output }) => String(output));
      if (mayRun) return acts.length === 0 ? [] : [`${callId} ran`, 'found'];
      if (!isError) return [];
      const rejected = decided.filter(
        ({ sticky, decision }) => sticky === true && decision.type === 'reject',
      );
      return [
        'Not run: superseded by a new message.',
        ...(name === 'expires' ? ['Not run: the approval expired without a decision.'] : []),
        ...(isRuled(events, name, callId, 'reject')
          ? rejected.map(({ by }) => `Not run: the call was rejected: ${by}`)
          : []),
      ];
    }
  }

  for (const { type, callId, by } of accepted) {
    const found = events.filter(event => 'by' in event && event.by === by);
    if (found.length !== 1)
      faults.push(`the accepted decision of ${by} is ${found.length} times in the journal`);
    if (type === 'send') continue;
    if (!found.some(event => 'callId' in event && event.callId === callId))
      faults.push(`${by} decided ${callId}`);
  }
  for (const event of events) {
    if (event.type !== 'message.received') continue;
    const ids = new Set(event.items.map(({ id }) => id));
    const read = [...transcript, ...settled.unread].filter(({ id }) => ids.has(id));
    if (read.length !== 1) faults.push(`a message by ${event.by} was read ${read.length} times`);
  }
  return faults;
}

/** Whether a sticky rule of this type applied to the tool when the call was made. */
function isRuled(
  events: readonly RunEvent[],
  name: string,
  callId: string,
  type: 'approve' | 'reject',
): boolean {
  const names = new Map<string, string>();
  let rule: string | undefined;
  for (const event of events) {
    if (event.type === 'turn.completed') {
      for (const made of event.calls) names.set(made.callId, made.name);
      if (event.calls.some(made => made.callId === callId)) return rule === type;
    }
    if (event.type !== 'approval.decided' || event.sticky !== true || names.get(event.callId) !== name)
      continue;
    rule = event.decision.type;
  }
  return false;
}
