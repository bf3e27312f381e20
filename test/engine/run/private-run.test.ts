import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { startPrivately } from '../../../agent/start-privately.ts';
import type { PrivateHappening, PrivateRun } from '../../../engine/run/private-run.ts';
import { Story } from '../../../engine/story/read-story.ts';
import type { StoryEvent } from '../../../engine/story/story-event.ts';
import { initial, next } from '../../../machines/step.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { ChartEvent, RunEvent, RunStarted } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { eventsOf } from '../../support/engine/agents.ts';
import { speaker, spokenTurn } from '../../support/engine/speaker.ts';
import { randomCases } from '../../support/sample.ts';

const INPUT: Item[] = [{ type: 'message', role: 'user', content: [{ type: 'text', text: 'go' }] }];

function optionsFor(model: ModelAdapter, more: Partial<AgentOptions> = {}): AgentOptions {
  return { name: 'a', model, limits: { turns: 8 }, retry: { attempts: 3, baseMs: 1 }, ...more };
}

async function readAll(run: PrivateRun): Promise<PrivateHappening[]> {
  const reader = run.happenings();
  const told: PrivateHappening[] = [];
  for (let step = await reader.next(); step.done !== true; step = await reader.next())
    told.push(...step.value);
  return told;
}

function tell(happenings: readonly PrivateHappening[], withStates: boolean): StoryEvent[] {
  const story = new Story({ runId: 'run_1' });
  return happenings.flatMap(one => {
    if (!('entry' in one)) return story.takeDelta(one);
    return story.takeEntry(one.entry, withStates ? one.state : undefined);
  });
}

const turns = fc.array(spokenTurn, { minLength: 1, maxLength: 3 });

/** Nobody claims a private run, and chance says whether a wait of up to a millisecond is one at all. */
function typesOf(events: readonly RunEvent[]): string[] {
  return events.map(({ type }) => type).filter(type => type !== 'run.claimed' && type !== 'timer.fired');
}

describe('a private run', () => {
  it('goes where the chart leads, whatever its model says', async () => {
    await fc.assert(
      fc.asyncProperty(turns, async said => {
        const run = startPrivately(INPUT, optionsFor(speaker(said)), { runId: 'run_1', stream: true });
        const happenings = await readAll(run);
        await run.settled();
        const told = happenings.flatMap(one => ('entry' in one ? [one] : []));
        const [first, ...rest] = told;
        let { state } = initial(first?.entry.event as RunStarted);
        expect(first?.state.context).toEqual(state.context);
        for (const one of rest) {
          const step = next(state, one.entry.event as ChartEvent);
          expect(step.handled).toBe(true);
          expect(one.state).toMatchObject({ value: step.state.value, context: step.state.context });
          state = step.state;
        }
        expect(told.map(({ entry }) => entry)).toEqual(run.entries);
        expect(tell(happenings, true)).toEqual(tell(happenings, false));
      }),
      { numRuns: randomCases(60) },
    );
  });

  it('has the events of a stored run', async () => {
    await fc.assert(
      fc.asyncProperty(turns, fc.boolean(), async (said, stream) => {
        const store = memory();
        const agent = createAgent({ ...optionsFor(speaker(said)), store });
        const stored = await agent.start(INPUT, { stream });
        const { status } = await stored.settled();
        const run = startPrivately(INPUT, optionsFor(speaker(said)), { runId: 'run_1', stream });
        expect((await run.settled()).status).toBe(status);
        const mine = run.entries.map(({ event }) => event);
        expect(typesOf(mine)).toEqual(typesOf(await eventsOf(store, stored.id)));
      }),
      { numRuns: randomCases(40) },
    );
  });

  it('is cancelled while its model is called, and then takes no second cancel', async () => {
    const aborted = Promise.withResolvers<unknown>();
    const begun = Promise.withResolvers<void>();
    const model: ModelAdapter = {
      ...scripted({ turns: [] }),
      generate: (_request, { signal }) => {
        begun.resolve();
        return new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => {
            aborted.resolve(signal.reason);
            reject(signal.reason);
          }),
        );
      },
    };
    const run = startPrivately(INPUT, optionsFor(model), { runId: 'run_1', stream: false });
    await begun.promise;
    expect(await run.cancel({ by: 'ada', reason: 'enough' })).toEqual({ accepted: true });
    expect(await aborted.promise).toMatchObject({ message: 'The run was cancelled.' });
    expect(await run.settled()).toMatchObject({ status: 'cancelled' });
    expect(run.entries.at(-1)?.event).toMatchObject({ type: 'run.cancelled', reason: 'enough', by: 'ada' });
    expect(await run.cancel({})).toMatchObject({ accepted: false, code: 'run-ended' });
    expect(run.entries.filter(({ event }) => event.type === 'run.cancelled')).toHaveLength(1);
  });

  it('rejects with a defect, and can be cancelled after it', async () => {
    const prepareTurn = () => {
      throw new EngineError('agent-invalid', 'A defect.');
    };
    const options = optionsFor(scripted({ turns: [{ text: 'hi' }] }), { prepareTurn });
    const run = startPrivately(INPUT, options, { runId: 'run_1', stream: false });
    await expect(run.settled()).rejects.toThrow('A defect.');
    await expect(run.settled()).rejects.toThrow('A defect.');
    expect(await run.cancel({ reason: 'failed' })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'cancelled' });
  });

  it('waits before the next attempt by the time of its host', async () => {
    const host = new ManualHost();
    const model = scripted({ turns: [{ error: { times: 1, code: 'overloaded' }, text: 'again' }] });
    const run = startPrivately(INPUT, optionsFor(model, { host, retry: { attempts: 2, baseMs: 60_000 } }), {
      runId: 'run_1',
      stream: false,
    });
    while (!run.durable.state.matches('backingOff')) await new Promise(setImmediate);
    let isOver = false;
    const settled = run.settled().finally(() => {
      isOver = true;
    });
    await new Promise(setImmediate);
    expect(isOver).toBe(false);
    await host.advance(120_000);
    expect(await settled).toMatchObject({ status: 'finished', text: 'again' });
  });

  it('joins the pieces of a text that wait together for its reader', async () => {
    const pieces = Array.from({ length: 20_000 }, (_, place) => `${place} `);
    const text = pieces.join('');
    const content = [{ type: 'text' as const, text }];
    const said: ModelTurn = {
      model: 'm',
      finishReason: 'stop',
      reasoning: '',
      text,
      items: [{ type: 'message', role: 'assistant', content }],
      toolCalls: [],
      usage: null,
    };
    const model: ModelAdapter = {
      ...scripted({ turns: [] }),
      async *stream() {
        for (const piece of pieces) yield { type: 'text', text: piece };
        yield { type: 'turn', turn: said };
      },
    };
    const run = startPrivately(INPUT, optionsFor(model), { runId: 'run_1', stream: true });
    await run.settled();
    const told = await readAll(run);
    const shown = told.flatMap(one => ('type' in one && one.type === 'text.delta' ? [one.text] : []));
    expect(shown).toEqual([text]);
  });

  it('keeps nothing for a reader that has left', async () => {
    const run = startPrivately(INPUT, optionsFor(scripted({ turns: [{ text: 'hi' }] })), {
      runId: 'run_1',
      stream: true,
    });
    const reader = run.happenings();
    await reader.return?.();
    await run.settled();
    expect(await reader.next()).toEqual({ done: true, value: undefined });
  });
});
