import { describe, expect, test } from 'vitest';
import type { Context } from '../../../machines/context.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Tool, ToolCallContext } from '../../../protocol/tool.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { begin, makeAgent, rest, resume, unpause } from '../../support/engine/live-actors.ts';

const contextOf = (snapshot: JsonValue) => (snapshot as { context: Context }).context;

/** A tool that writes down its calls. */
function traced(name: string, ran: string[], options: Parameters<typeof makeTool>[1] = {}): Tool {
  return makeTool(name, {
    run: (_: unknown, { callId, attempt }: ToolCallContext) => {
      ran.push(`${name} ${callId} ${attempt}`);
      return `${name} ran`;
    },
    ...options,
  });
}

/** An actor whose storage a test takes away and gives back. */
function beginOn({ fails }: { fails: (context: Context) => boolean }, ran: string[] = []) {
  const host = new ManualHost();
  const storage = { isAway: true, calls: 0 };
  const agent = makeAgent(
    {
      turns: [calls('pay'), { text: 'done' }],
      guardrails: {
        answer() {
          ran.push('guardrail');
          return { type: 'pass' };
        },
      },
    },
    host,
    [traced('pay', ran)],
  );
  const actor = begin(agent, 'go', {
    persist: async snapshot => {
      if (!storage.isAway || !fails(contextOf(snapshot))) return;
      storage.calls += 1;
      throw new Error('quota exceeded');
    },
  });
  return { host, actor, storage };
}

describe('a persist that rejects', () => {
  test('is called again after growing waits, and the run ends as without it', async () => {
    const host = new ManualHost();
    const times: number[] = [];
    const ran: string[] = [];
    const agent = makeAgent({ turns: [calls('pay'), { text: 'done' }] }, host, [traced('pay', ran)]);
    const begun = host.now();
    const actor = begin(agent, 'go', {
      persist: () => {
        times.push(host.now() - begun);
        return times.length < 4 ? Promise.reject(new Error('away')) : Promise.resolve();
      },
    });
    await rest(host, actor);
    expect(actor.getSnapshot().value).toBe('finished');
    expect(ran).toEqual(['pay call_0_0 1']);
    const waits = times.slice(1, 4).map((time, index) => time - (times[index] ?? 0));
    for (const [index, wait] of waits.entries()) {
      expect(wait).toBeGreaterThanOrEqual(100 * 2 ** index);
      expect(wait).toBeLessThanOrEqual(200 * 2 ** index);
    }
  });

  test.each([
    { place: 'a model call', fails: ({ turns }: Context) => turns === 0, ran: [] },
    { place: 'a tool', fails: ({ calls: open }: Context) => open.length > 0, ran: [] },
    {
      place: 'the check of the answer',
      fails: ({ answer }: Context) => answer?.text === 'done',
      ran: ['pay call_0_0 1'],
    },
  ])('before $place lets the run rest with the reason, and continues once it works', async given => {
    const ran: string[] = [];
    const { host, actor, storage } = beginOn(given, ran);
    const notices: unknown[] = [];
    actor.on('decided', ({ next, reason }) => next.type === 'pause' && notices.push(reason));
    await rest(host, actor);
    const { value, context, status } = actor.getSnapshot();
    const reason = expect.stringMatching(
      /^The snapshot could not be stored: persist failed \d+ times within 30000 ms: quota exceeded/,
    );
    expect({ value, status, quarantined: context.quarantined }).toEqual({
      value: { resting: 'paused' },
      status: 'active',
      quarantined: reason,
    });
    expect(notices).toEqual([reason]);
    expect(ran).toEqual(given.ran);
    expect(storage.calls).toBeGreaterThan(3);
    expect(storage.calls).toBeLessThan(20);

    storage.isAway = false;
    unpause(actor, host);
    await rest(host, actor);
    expect(actor.getSnapshot().value).toBe('finished');
    expect(ran).toEqual(['pay call_0_0 1', 'guardrail']);
  });

  test('lets the run rest again when it is unpaused too early', async () => {
    const ran: string[] = [];
    const { host, actor, storage } = beginOn({ fails: ({ calls: open }) => open.length > 0 }, ran);
    await rest(host, actor);
    unpause(actor, host);
    await rest(host, actor);
    expect(actor.getSnapshot().context.quarantined).toContain('quota exceeded');
    expect(ran).toEqual([]);
    storage.isAway = false;
    unpause(actor, host);
    await rest(host, actor);
    expect(ran).toEqual(['pay call_0_0 1', 'guardrail']);
  });

  test('lets calls in progress end before the run rests, so that none is in doubt', async () => {
    const host = new ManualHost();
    const ran: string[] = [];
    const gate = makeGate();
    let isAway = true;
    const pay = makeTool('pay', {
      run: async () => {
        ran.push('pay');
        await gate.promise;
        return 'paid';
      },
    });
    const agent = makeAgent({ turns: [calls('pay', 'flaky'), { text: 'done' }] }, host, [pay]);
    const isRetry = ({ calls: open }: Context) =>
      open.some(({ name, attempt }) => name === 'flaky' && attempt > 1);
    const actor = begin(agent, 'go', {
      persist: snapshot => {
        if (isAway && isRetry(contextOf(snapshot))) throw new Error('away');
      },
    });
    await host.advance(120_000);
    expect(actor.getSnapshot().value).toBe('executingTools');
    gate.open();
    await rest(host, actor);
    const { value, context } = actor.getSnapshot();
    expect(value).toEqual({ resting: 'paused' });
    expect(context.calls.map(({ name, status }) => `${name} ${status}`)).toEqual([
      'pay settled',
      'flaky running',
    ]);
    isAway = false;
    unpause(actor, host);
    await rest(host, actor);
    expect(actor.getSnapshot().value).toBe('finished');
    expect(ran).toEqual(['pay']);
  });

  test('leaves a once call in doubt in a process that cannot know whether it ran', async () => {
    const ran: string[] = [];
    const { host, actor } = beginOn({ fails: ({ calls: open }) => open.length > 0 }, ran);
    await rest(host, actor);
    const kept = JSON.parse(JSON.stringify(actor.getPersistedSnapshot()));
    actor.stop();
    const agent = makeAgent({ turns: [calls('pay'), { text: 'done' }] }, host, [traced('pay', ran)]);
    const restored = resume(agent, kept);
    unpause(restored, host);
    await rest(host, restored);
    expect(restored.getSnapshot().value).toEqual({ resting: 'inDoubt' });
    expect(ran).toEqual([]);
  });

  test('may throw at once instead', async () => {
    const host = new ManualHost();
    const actor = begin(makeAgent({ turns: [{ text: 'done' }] }, host), 'go', {
      persist: () => {
        throw new Error('no storage');
      },
      patienceMs: 100,
    });
    await rest(host, actor);
    expect(actor.getSnapshot().context.quarantined).toBe(
      'The snapshot could not be stored: persist failed once: no storage',
    );
  });
});

describe('a persist that does not return', () => {
  const hanging = () => {
    const host = new ManualHost();
    const ran: string[] = [];
    const signals: AbortSignal[] = [];
    const gate = makeGate();
    const stored: Context[] = [];
    const agent = makeAgent({ turns: [calls('pay'), { text: 'done' }] }, host, [traced('pay', ran)]);
    const actor = begin(agent, 'go', {
      persist: async (snapshot, { signal }) => {
        const context = contextOf(snapshot);
        if (context.calls.length > 0) {
          signals.push(signal);
          await gate.promise;
        }
        stored.push(context);
      },
      patienceMs: 5_000,
    });
    return { host, ran, signals, gate, stored, actor };
  };

  test('lets the run rest when patience ends, and is not called again before it has returned', async () => {
    const { host, ran, signals, gate, stored, actor } = hanging();
    await rest(host, actor);
    expect(actor.getSnapshot().context.quarantined).toBe(
      'The snapshot could not be stored: persist has not returned within 5000 ms',
    );
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    unpause(actor, host);
    await rest(host, actor);
    expect(actor.getSnapshot().value).toEqual({ resting: 'paused' });
    expect(signals).toHaveLength(1);
    expect(ran).toEqual([]);

    gate.open();
    unpause(actor, host);
    await rest(host, actor);
    expect(actor.getSnapshot().value).toBe('finished');
    expect(ran).toEqual(['pay call_0_0 1']);
    const times = stored.map(({ generation }) => generation);
    expect(times).toEqual(times.toSorted((one, other) => one - other));
  });

  test('does not hold up a cancellation', async () => {
    const { host, ran, actor, signals } = hanging();
    await host.advance(1_000);
    const at = host.now();
    actor.send({ type: 'cancel.requested', at, deadline: at + 7_000 });
    await host.idle();
    expect(actor.getSnapshot().value).toBe('cancelled');
    expect(actor.getSnapshot().output).toMatchObject({ status: 'cancelled', unsettled: [{ name: 'pay' }] });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(ran).toEqual([]);
  });
});

test('a call without side effects waits for persist too', async () => {
  const host = new ManualHost();
  const ran: string[] = [];
  const gate = makeGate();
  const agent = makeAgent({ turns: [calls('read'), { text: 'done' }] }, host, [
    traced('read', ran, { sideEffect: 'none' }),
  ]);
  const actor = begin(agent, 'go', {
    persist: async snapshot => {
      if (contextOf(snapshot).calls.length > 0) await gate.promise;
    },
  });
  await host.advance(1_000);
  expect(ran).toEqual([]);
  gate.open();
  await rest(host, actor);
  expect(ran).toEqual(['read call_0_0 1']);
});

test('calls that start together share a persist', async () => {
  const host = new ManualHost();
  let persists = 0;
  const agent = makeAgent({ turns: [calls('pay', 'pay', 'pay', 'pay'), { text: 'done' }] }, host);
  await rest(
    host,
    begin(agent, 'go', {
      persist: () => {
        persists += 1;
      },
    }),
  );
  expect(persists).toBeLessThanOrEqual(4);
});

test.each([
  {
    how: 'throws',
    onDelta: () => {
      throw new Error('broken');
    },
  },
  { how: 'rejects', onDelta: () => Promise.reject(new Error('broken')) },
])('an onDelta that $how fails nothing', async ({ onDelta }) => {
  const host = new ManualHost();
  const read = makeTool('read', {
    run: (_, { progress }) => {
      progress(1);
      return 'ok';
    },
  });
  const agent = makeAgent({ turns: [calls('read'), { text: 'done' }] }, host, [read]);
  const actor = begin(agent, 'go', { onDelta });
  await rest(host, actor);
  expect(actor.getSnapshot().output).toMatchObject({ status: 'finished', results: [{ isError: false }] });
});

test.each([0, -1, Number.NaN])('patienceMs %s is refused', patienceMs => {
  const agent = makeAgent({ turns: [{ text: 'done' }] }, new ManualHost());
  expect(() => agent.services({ persist: () => {}, patienceMs })).toThrow(
    expect.objectContaining({ code: 'agent-invalid' }),
  );
});
