import { describe, expect, it } from 'vitest';
import type { Breakpoint } from '../../protocol/debugger/breakpoint.ts';
import type { JsonObject } from '../../protocol/json.ts';
import {
  answering,
  approving,
  begin,
  calling,
  failing,
  forClient,
  gated,
  makeCall,
  makeTurn,
  saying,
  starting,
  type UntimedEvent,
} from '../support/machines/builders.ts';

const STEP: UntimedEvent = { type: 'step.requested' };
const UNPAUSE: UntimedEvent = { type: 'run.unpaused' };
const setting = (...breakpoints: Breakpoint[]): UntimedEvent => ({ type: 'breakpoints.set', breakpoints });
const paying = (input: JsonObject) => makeCall('a', { name: 'refund', sideEffect: 'once', input });

describe('a breakpoint', () => {
  it('holds the action that it matches, and the decision names it', () => {
    const run = begin().send(setting({ id: 'large', next: 'executeTools', tool: 'refund' }));
    run.send(calling(paying({ cents: 1 })));
    expect(run.place).toBe('resting.paused');
    expect(run.next).toEqual({
      type: 'pause',
      breakpoint: 'large',
      why: 'breakpoint large before executeTools (1 call of refund may run)',
    });
    expect(run.open).toEqual({ a: 'ready' });
  });

  it('is passed once: the same action is not held again, and the next one is', () => {
    const run = begin().send(setting({ id: 'tools', next: 'executeTools' }), calling(makeCall('a')), UNPAUSE);
    expect(run.place).toBe('executingTools');
    run.finish('a');
    expect(run.place).toBe('turn.planning');
    run.send(calling(makeCall('b')));
    expect([run.place, run.next.why]).toEqual([
      'resting.paused',
      'breakpoint tools before executeTools (1 call of look may run)',
    ]);
  });

  it('holds a model call once, however often it is tried', () => {
    const run = begin({ attempts: 3 }).send(setting({ id: 'two', turn: 2 }), calling(makeCall('a')));
    run.finish('a');
    expect(run.place).toBe('resting.paused');
    run.send(UNPAUSE, failing(), failing());
    expect(run.place).toBe('turn.planning');
    expect(run.turn).toMatchObject({ number: 2, attempt: 3 });
  });

  it('holds again what another call joined', () => {
    const run = begin().send(
      setting({ id: 'tools', next: 'executeTools' }),
      calling(makeCall('a'), gated('b')),
    );
    run.send(UNPAUSE).finish('a');
    run.send(approving('b'));
    expect(run.place).toBe('resting.paused');
    expect(run.send(UNPAUSE).open).toEqual({ b: 'queued' });
  });

  it('stays in force while inputs arrive: a message does not free the run', () => {
    const run = begin({ onMessage: 'queue' }).send(setting({ id: 'tools' }), calling(makeCall('a')));
    run.send(saying('and?'));
    expect(run.next).toMatchObject({ type: 'pause', breakpoint: 'tools' });
  });

  it('is not left by removing it: only continuing does', () => {
    const run = begin().send(setting({ id: 'tools' }), calling(makeCall('a')), setting());
    expect([run.place, run.next.why]).toEqual([
      'resting.paused',
      'paused before executeTools (1 call of look may run)',
    ]);
    expect(run.send(UNPAUSE).place).toBe('executingTools');
  });

  it('that matches once is removed by continuing, and by a step', () => {
    for (const event of [UNPAUSE, STEP]) {
      const here: Breakpoint = { id: 'here', next: 'executeTools', once: true };
      const run = begin().send(setting(here, { id: 'other', next: 'finish' }), calling(makeCall('a')));
      expect(run.context.breakpoints.map(({ id }) => id)).toEqual(['here', 'other']);
      run.send(event);
      expect(run.place).toBe('executingTools');
      expect(run.context.breakpoints.map(({ id }) => id)).toEqual(['other']);
    }
  });

  it('lets a step through: one batch, and then the run is paused', () => {
    const run = begin().send(setting({ id: 'all' }), calling(makeCall('a')), STEP);
    run.finish('a');
    expect([run.place, run.countStarts('modelTurn')]).toEqual(['resting.paused', 1]);
  });

  it('holds what does not spend only if it names it', () => {
    const run = begin().send(setting({ id: 'all' }), calling(gated('a')));
    expect(run.place).toBe('resting.awaitingApproval');
    run.send(setting({ id: 'gate', next: 'interruptForApproval' }));
    expect(run.place).toBe('resting.paused');
    expect(run.send(UNPAUSE).place).toBe('resting.awaitingApproval');
    expect(run.send(saying('still there?')).open).toEqual({});
  });

  it('holds the end, where the reply can still be edited', () => {
    const run = begin().send(setting({ id: 'end', next: 'finish' }), answering('done'));
    expect(run.place).toBe('resting.paused');
    expect(run.send(UNPAUSE).place).toBe('finished');
  });

  it('holds once the run has cost more than its bound', () => {
    const prices = { first: { input: 1_000_000, output: 0 } };
    const usage = {
      inputTokens: 2,
      outputTokens: 0,
      cachedInputTokens: null,
      cacheWriteTokens: null,
      reasoningTokens: null,
    };
    const held = (costOver: number) =>
      begin({ prices }).send(setting({ id: 'cost', costOver }), makeTurn({ calls: [makeCall('a')], usage }))
        .place;
    expect([held(1.9), held(2)]).toEqual(['resting.paused', 'executingTools']);
  });

  it('compares values of the input: own members, by kind', () => {
    const input = { cents: 20, who: 'ann', list: [{ n: 1 }], none: null };
    const holds = (where: NonNullable<Breakpoint['where']>) =>
      begin().send(setting({ id: 'w', where }), calling(paying(input))).place === 'resting.paused';
    expect(holds({ path: 'input.cents', op: '>', value: 10 })).toBe(true);
    expect(holds({ path: 'input.cents', op: '>', value: 20 })).toBe(false);
    expect(holds({ path: 'input.cents', op: '>=', value: 20 })).toBe(true);
    expect(holds({ path: 'input.cents', op: '<', value: 21 })).toBe(true);
    expect(holds({ path: 'input.cents', op: '<=', value: 19 })).toBe(false);
    expect(holds({ path: 'input.cents', op: '=', value: '20' })).toBe(false);
    expect(holds({ path: 'input.cents', op: '>', value: '1' })).toBe(false);
    expect(holds({ path: 'input.who', op: '=', value: 'ann' })).toBe(true);
    expect(holds({ path: 'input.who', op: '!=', value: 'bob' })).toBe(true);
    expect(holds({ path: 'input.who', op: '<', value: 'bob' })).toBe(true);
    expect(holds({ path: 'input.list.0.n', op: '=', value: 1 })).toBe(true);
    expect(holds({ path: 'input.none', op: '=', value: null })).toBe(true);
    expect(holds({ path: 'input.absent', op: '!=', value: 1 })).toBe(false);
    expect(holds({ path: 'input.constructor.name', op: '=', value: 'Object' })).toBe(false);
    expect(holds({ path: 'input.__proto__', op: '!=', value: 1 })).toBe(false);
  });

  it('with a tool and a comparison matches one call that has both', () => {
    const where = { path: 'input.cents', op: '>', value: 10 } as const;
    const run = begin().send(
      setting({ id: 'w', tool: 'refund', where }),
      calling(paying({ cents: 1 }), makeCall('b', { input: { cents: 99 } })),
    );
    expect(run.place).toBe('executingTools');
  });

  it('holds nothing of a run that is being cancelled', () => {
    const run = begin().send(setting({ id: 'all' }), calling(makeCall('a')), {
      type: 'cancel.requested',
      deadline: 0,
    });
    expect(run.offer(UNPAUSE).state.context.cancelling).not.toBe(null);
    expect(run.place).toBe('resting.paused');
  });
});

const editing = (text: string, ...calls: ReturnType<typeof makeCall>[]): UntimedEvent => ({
  type: 'turn.edited',
  turn: 1,
  text,
  calls,
  items: makeTurn({ text, calls }).items,
});

describe('an edit of the latest turn', () => {
  it('replaces the answer before the run finishes', () => {
    const run = begin().send(
      setting({ id: 'end', next: 'finish' }),
      answering('wrong'),
      editing('right'),
      UNPAUSE,
    );
    expect([run.place, run.context.answer?.text, run.texts]).toEqual([
      'finished',
      'right',
      ['begin', 'right'],
    ]);
  });

  it('adds, changes and drops calls; each that remains gets one result', () => {
    const run = begin().send(setting({ id: 'all' }), calling(makeCall('a'), makeCall('b')));
    run.send(editing('', makeCall('b', { digest: 'changed' }), makeCall('c')), UNPAUSE);
    expect(run.open).toEqual({ b: 'queued', c: 'queued' });
    run.finish('b', 'c');
    expect(run.results.map(({ callId }) => callId)).toEqual(['b', 'c']);
    expect(run.context.toolCalls).toBe(2);
  });

  it('keeps the approval of a call that is the same, and takes that of a changed one', () => {
    const run = begin().send({ type: 'pause.requested' }, calling(gated('a'), gated('b')));
    run.send(approving('a'), approving('b'));
    run.send(editing('', gated('a'), gated('b', { digest: 'changed' })));
    expect(run.open).toEqual({ a: 'ready', b: 'gated' });
    expect(run.offer(approving('b')).handled).toBe(false);
    expect(run.offer(approving('b', { digest: 'changed' })).handled).toBe(true);
  });

  it('is refused once a call of the turn has started, waits for a client, or a later turn has begun', () => {
    const edit = editing('mine');
    const started = begin().send(calling(makeCall('a')), starting('a'), { type: 'pause.requested' });
    expect(started.offer(edit).handled).toBe(false);
    expect(
      begin()
        .send(calling(forClient('a')))
        .offer(edit).handled,
    ).toBe(false);
    const later = begin()
      .send(calling(makeCall('a')))
      .finish('a')
      .send({ type: 'pause.requested' }, failing());
    expect(later.offer(edit).handled).toBe(false);
  });

  it('does not raise the count of tool calls, so that a limit does not refuse an edited call', () => {
    const run = begin({ limits: { toolCalls: 1 } }).send(setting({ id: 'all' }), calling(makeCall('a')));
    run.send(editing('', makeCall('a', { digest: 'changed' })), UNPAUSE);
    expect(run.open).toEqual({ a: 'queued' });
  });

  it('gives the closing turn no calls', () => {
    const run = begin({ limits: { turns: 1 } })
      .send(calling(makeCall('a')))
      .finish('a');
    run.send(setting({ id: 'end', next: 'finish' }), answering('last'));
    const calls = [makeCall('b')];
    expect(run.offer({ ...editing('x', ...calls), turn: 2 } as UntimedEvent).handled).toBe(false);
    expect(run.offer({ ...editing('x'), turn: 2 } as UntimedEvent).handled).toBe(true);
  });
});

describe('an edit of a call', () => {
  const editingCall = (callId: string, change: Parameters<typeof makeCall>[1]): UntimedEvent => ({
    type: 'call.edited',
    callId,
    digest: `digest of ${callId}`,
    call: gated(callId, { digest: 'changed', ...change }),
  });

  it('makes its approval void: it needs one for the new digest', () => {
    const run = begin().send({ type: 'pause.requested' }, calling(gated('a')), approving('a'));
    expect(run.open).toEqual({ a: 'ready' });
    run.send(editingCall('a', { input: { cents: 5 } }));
    expect(run.open).toEqual({ a: 'gated' });
    expect(run.offer(approving('a')).handled).toBe(false);
    run.send(approving('a', { digest: 'changed' }), UNPAUSE);
    expect(run.context.calls[0]).toMatchObject({ input: { cents: 5 }, edited: true, status: 'queued' });
    expect(run.context.edits).toEqual([{ callId: 'a', input: { cents: 5 } }]);
  });

  it('frees a call whose new input needs no approval', () => {
    const run = begin().send(calling(gated('a')), editingCall('a', { gate: false }));
    expect(run.open).toEqual({ a: 'queued' });
  });

  it('is refused for another digest, another tool, an invalid input, and once the call has started', () => {
    const run = begin().send(calling(gated('a')));
    const refused = (event: UntimedEvent) => !run.offer(event).handled;
    expect(refused({ ...editingCall('a', {}), digest: 'old' } as UntimedEvent)).toBe(true);
    expect(refused(editingCall('a', { name: 'other' }))).toBe(true);
    expect(refused(editingCall('a', { error: 'Not run: no' }))).toBe(true);
    run.send(approving('a'), starting('a'));
    expect(refused(editingCall('a', {}))).toBe(true);
  });
});
