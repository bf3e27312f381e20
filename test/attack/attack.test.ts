import { describe, expect, test } from 'vitest';
import { userMessage } from '../../protocol/message.ts';
import { sampled, TAKES_ALL } from '../support/sample.ts';
import { KINDS, type Kind, runAttacks } from './attack.ts';
import type { AttackCase } from './cases/attack-case.ts';
import { checkEvidence, type Evidence, REFUSED_FORK, type RunEvidence } from './chaos/chaos-evidence.ts';

/**
 * As in `npm run attack`, with a quick case of one kind; `npm run test:all` tests all quick
 * cases, and only it runs chaos. A case takes a second or two. A case that is killed after a minute is frozen, however busy
 * the machine is.
 */
const SEED = 7;
const SHORT = {
  seed: SEED,
  isShort: true,
  longestMs: 60_000,
  lanes: 1,
  totalMs: 40_000,
  choose: (cases: readonly AttackCase[]) => sampled(cases, 1),
};

/** Without chaos. */
const SAMPLED = TAKES_ALL
  ? KINDS
  : sampled(
      KINDS.filter(kind => kind !== 'chaos'),
      1,
    );

describe('the short form of npm run attack', () => {
  test.concurrent.each<Kind>(SAMPLED)(
    '%s: nothing is lost, doubled, stranded, frozen, leaked or broken',
    async kind => {
      const report = await runAttacks({ ...SHORT, kinds: [kind] });
      expect(report.problems).toEqual([]);
      expect(report.control).toEqual({ cases: 1, caught: 1 });
    },
    240_000,
  );
});

const RUN: RunEvidence = { runId: 'run', status: 'finished', events: [], transcript: [] };
const NOTHING: Evidence = { acknowledged: [], acts: [], runs: [RUN], once: new Set(['pay']) };
const ACT = { tool: 'pay', key: 'key', runId: 'run', callId: 'call' };
const STARTED = {
  type: 'tool.started',
  at: 1,
  generation: 1,
  callId: 'call',
  attempt: 1,
  key: 'key',
} as const;

function figuresOf(evidence: Partial<Evidence>): string[] {
  return checkEvidence({ ...NOTHING, ...evidence }).map(({ figure }) => figure);
}

describe('the evidence checks of chaos', () => {
  test('find no fault in a run that ended, with its acknowledgements in the journal', () => {
    const decided = {
      type: 'approval.decided',
      at: 1,
      callId: 'call',
      digest: '',
      decision: { type: 'approve' },
    } as const;
    const run = { ...RUN, events: [STARTED, decided] };
    expect(
      figuresOf({
        acts: [ACT],
        acknowledged: [{ type: 'decided', runId: 'run', callId: 'call' }],
        runs: [run],
      }),
    ).toEqual([]);
  });

  test('report a decision, a message and a run as lost if no journal has them', () => {
    const acknowledged = [
      { type: 'decided', runId: 'run', callId: 'call' },
      { type: 'sent', runId: 'run', text: 'hello' },
      { type: 'started', runId: 'gone' },
    ] as const;
    expect(figuresOf({ acknowledged })).toEqual(['lost', 'lost', 'lost']);
  });

  test('report a journal that is gone as lost, and a fork that was refused as broken', () => {
    expect(figuresOf({ acts: [{ ...ACT, runId: 'gone' }] })).toEqual(['lost']);
    const items = [userMessage(REFUSED_FORK)];
    const events = [{ type: 'message.received', at: 1, items } as const];
    expect(figuresOf({ runs: [{ ...RUN, events }] })).toEqual(['broken']);
  });

  test('report a call that acted twice as a silent double, unless a person forced a retry', () => {
    const run = { ...RUN, events: [STARTED] };
    expect(figuresOf({ acts: [ACT, ACT], runs: [run] })).toEqual(['silent doubles']);
    expect(figuresOf({ acts: [ACT, { ...ACT, key: 'other' }], runs: [run] })).toEqual([]);
    const resolution = { type: 'retry', force: true } as const;
    const forced = { type: 'doubt.resolved', at: 1, callId: 'call', resolution } as const;
    expect(figuresOf({ acts: [ACT, ACT], runs: [{ ...RUN, events: [STARTED, forced] }] })).toEqual([]);
  });

  test('report a run that still runs or waits as stranded, and one that failed or does not replay as broken', () => {
    for (const status of ['running', 'waiting'] as const)
      expect(figuresOf({ runs: [{ ...RUN, status }] })).toEqual(['stranded']);
    expect(figuresOf({ runs: [{ ...RUN, status: 'failed' }] })).toEqual(['broken']);
    expect(figuresOf({ runs: [{ ...RUN, replayFault: 'entry 3' }] })).toEqual(['broken']);
  });

  test('report a call as broken if the engine recorded that it did not happen, and it did', () => {
    const output = 'The tool did not answer within 50 ms. It did not happen.';
    const settled = {
      type: 'tool.settled',
      at: 1,
      generation: 1,
      callId: 'call',
      output,
      isError: true,
    } as const;
    expect(figuresOf({ acts: [ACT], runs: [{ ...RUN, events: [STARTED, settled] }] })).toEqual(['broken']);
  });
});
