import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { type AgentOptions, defineAgent } from '../../../agent/agent-options.ts';
import type { Run, RunHappening } from '../../../engine/run/run.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import type { TextFilter } from '../../../text/text-filter.ts';
import { calls, eventsOf, makeGate, makeTool } from '../../support/engine/agents.ts';

async function readAll<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of stream) all.push(one);
  return all;
}

const turns = [{ text: 'I look first.', ...calls('read') }, { text: 'All is well.' }];

function makeAgent(options: Partial<AgentOptions> = {}) {
  return createAgent({
    name: 'a',
    host: new ManualHost(),
    model: scripted(turns),
    tools: [makeTool('read', { sideEffect: 'none' })],
    ...options,
  });
}

/** A model that streams its text word by word; each call of `say` releases the next word. */
function speakSlowly(words: string[]): { model: ModelAdapter; say: () => void } {
  const gates = words.map(() => makeGate());
  let released = 0;
  const text = words.join('');
  const turn: ModelTurn = {
    text,
    reasoning: '',
    toolCalls: [],
    finishReason: 'stop',
    usage: null,
    model: 'slow-1',
    items: [{ type: 'message', role: 'assistant', content: [{ type: 'text', text }] }],
  };
  const model: ModelAdapter = {
    provider: 'slow',
    model: 'slow-1',
    capabilities: {
      streaming: true,
      parallelToolCalls: false,
      reasoningReplay: false,
      serverTools: false,
      structuredOutput: 'instructions' as const,
      continuation: false,
      usage: 'unknown',
    },
    generate: async () => turn,
    async *stream() {
      for (const [index, word] of words.entries()) {
        await gates[index]?.promise;
        yield { type: 'text', text: word };
      }
      yield { type: 'turn', turn };
    },
  };
  return { model, say: () => gates[released++]?.open() };
}

describe('run.text()', () => {
  test.each([
    { finalAnswer: 'live' as const, text: 'I look first.All is well.' },
    { finalAnswer: 'held' as const, text: 'All is well.' },
  ])('with the answer $finalAnswer gives what readers may see', async ({ finalAnswer, text }) => {
    for (const stream of [true, false]) {
      const run = await makeAgent({ finalAnswer }).start('go', { stream });
      expect((await readAll(run.text())).join('')).toBe(text);
      expect((await run.settled()).status).toBe('finished');
      expect((await readAll(run.text())).join('')).toBe(text);
    }
  });

  test('with a separate answer streams only that call, and keeps the draft out of the transcript', async () => {
    const run = await makeAgent({
      finalAnswer: 'separate',
      model: scripted([calls('read'), { text: 'The draft.' }]),
    }).start('go');
    expect((await readAll(run.text())).join('')).toBe('The draft.');
    const { image } = run.snapshot() as { image: { state: { context: { turns: number } } } };
    expect(image.state.context.turns).toBe(3);
    expect(JSON.stringify(image).split('"The draft."')).toHaveLength(3);
  });

  test.each([
    { finalAnswer: 'separate' as const, asked: ['generate', 'generate', 'stream'] },
    { finalAnswer: 'live' as const, asked: ['stream', 'stream'] },
    { finalAnswer: 'held' as const, asked: ['stream', 'stream'] },
  ])('with the answer $finalAnswer asks the model by $asked', async ({ finalAnswer, asked }) => {
    const found: string[] = [];
    const model = scripted([calls('read'), { text: 'The answer.' }]);
    const watched: ModelAdapter = {
      ...model,
      generate(...args) {
        found.push('generate');
        return model.generate(...args);
      },
      stream(...args) {
        found.push('stream');
        return model.stream(...args);
      },
    };
    const run = await makeAgent({ finalAnswer, model: watched }).start('go');
    expect((await readAll(run.text())).join('')).toBe('The answer.');
    expect(found).toEqual(asked);
  });

  test('streams while the model writes, and a late reader gets the text so far, then the rest', async () => {
    const host = new ManualHost();
    const { model, say } = speakSlowly(['One ', 'two ', 'three.']);
    const run = await makeAgent({ host, model }).start('go');
    const early: string[] = [];
    const reading = (async () => {
      for await (const text of run.text()) early.push(text);
    })();
    await host.idle();
    say();
    await host.idle();
    expect(early).toEqual(['One ']);
    say();
    await host.idle();
    const late = readAll(run.text());
    await host.idle();
    say();
    await host.settle(reading);
    expect(early).toEqual(['One ', 'two ', 'three.']);
    expect(await host.settle(late)).toEqual(['One two ', 'three.']);
  });

  test('has no duplicate text for a reader that starts while the turn is committed', async () => {
    const host = new ManualHost();
    const { model, say } = speakSlowly(['All at once.']);
    const inner = memory();
    const readers: Promise<string[]>[] = [];
    let run: Run | undefined;
    const append = inner.append.bind(inner);
    inner.append = async (runId, guard, events, status) => {
      if (run !== undefined) readers.push(readAll(run.text()));
      const result = await append(runId, guard, events, status);
      if (run !== undefined) readers.push(readAll(run.text()));
      return result;
    };
    run = await makeAgent({ host, model, store: inner }).start('go');
    await host.idle();
    say();
    await host.settle(run.settled());
    const texts = await host.settle(Promise.all(readers));
    expect(texts.length).toBeGreaterThan(0);
    for (const text of texts) expect(text.join('')).toBe('All at once.');
  });

  test('reads the journal in another process', async () => {
    const store = memory();
    const host = new ManualHost();
    const run = await makeAgent({ store, host }).start('go');
    await run.settled();
    const other = await makeAgent({ store, host }).open(run.id);
    expect((await readAll(other.text())).join('')).toBe('I look first.All is well.');
  });
});

describe('text filters', () => {
  const loud = (): TextFilter => ({ push: text => text.toUpperCase(), end: () => '' });
  /** Holds all text back until the end. */
  const holdBack = (): TextFilter => {
    let held = '';
    return {
      push: text => {
        held += text;
        return '';
      },
      end: () => held.replace('well', 'fine'),
    };
  };

  test.each([true, false])('change what readers see, but not the transcript (streamed: %s)', async stream => {
    const store = memory();
    const run = await makeAgent({ store, textFilters: [holdBack, loud] }).start('go', { stream });
    expect((await readAll(run.text())).join('')).toBe('I LOOK FIRST.ALL IS FINE.');
    expect(await run.settled()).toMatchObject({ text: 'ALL IS FINE.' });
    const texts = (await eventsOf(store, run.id)).flatMap(event =>
      event.type === 'turn.completed' ? [event.text] : [],
    );
    expect(texts).toEqual(['I look first.', 'All is well.']);
    expect((await readAll(run.text())).join('')).toBe('I LOOK FIRST.ALL IS FINE.');
  });

  test('are created per turn', async () => {
    let made = 0;
    const counted = (): TextFilter => {
      made += 1;
      return { push: text => text, end: () => '' };
    };
    await makeAgent({ textFilters: [counted] }).run('go');
    expect(made).toBeGreaterThanOrEqual(2);
  });
});

describe('run.events()', () => {
  test('yields the journal with sequence numbers, and ends when the run settles', async () => {
    const store = memory();
    const run = await makeAgent({ store }).start('go');
    const seen = (await readAll(run.events())).filter(isEntry);
    expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, index) => index + 1));
    const stamped = (await store.read(run.id)).map(({ seq, event }) => ({ ...event, runId: run.id, seq }));
    expect(seen).toEqual(stamped);
    expect(await readAll(run.events({ after: seen.length - 1 }))).toEqual(stamped.slice(-1));
    expect(await readAll(run.events({ after: seen.length }))).toEqual([]);
  });

  test('yields every entry once to every reader, whenever it starts and whichever process drives', async () => {
    const store = memory();
    const host = new ManualHost();
    const make = () =>
      makeAgent({
        store,
        host,
        model: scripted([calls('act', 'read'), calls('read'), { text: 'done' }]),
        tools: [makeTool('act', { approval: true }), makeTool('read')],
      });
    const run = await make().start('go');
    const follower = await make().open(run.id);
    const readers = [run, follower].map(who => readAll(who.events({ follow: true })));
    await host.idle();
    await run.settled();
    readers.push(readAll(run.events({ follow: true, after: 3 })));
    await follower.approve('call_0_0');
    await host.settle(Promise.all([run.settled(), follower.settled()]));
    const all = (await store.read(run.id)).map(({ seq }) => seq);
    const seen = (await host.settle(Promise.all(readers))).map(events =>
      events.filter(isEntry).map(({ seq }) => seq),
    );
    expect(seen).toEqual([all, all, all.slice(3)]);
  });

  test('yields decisions and tool progress', async () => {
    const run = await makeAgent({
      tools: [makeTool('read', { run: (_, { progress }) => progress({ done: 1 }) })],
    }).start('go');
    const seen = await readAll(run.events());
    expect(seen).toContainEqual({ type: 'tool.progress', callId: 'call_0_0', data: { done: 1 } });
    const next = seen.flatMap(event => (event.type === 'decided' ? [event.next.type] : []));
    expect(next).toEqual(['executeTools', 'callModel', 'finish']);
  });

  test('a retried attempt discards its streamed text, named by turn and attempt', async () => {
    const host = new ManualHost();
    let attempts = 0;
    const good = scripted([{ text: 'Whole answer.' }]);
    const model: ModelAdapter = {
      ...good,
      async *stream(request, options) {
        attempts += 1;
        if (attempts === 1) {
          yield { type: 'text', text: 'Half an' };
          throw new Error('connection reset');
        }
        yield* good.stream(request, options);
      },
    };
    const fallback = scripted([{ text: 'Whole answer.' }]);
    const run = await makeAgent({ host, model: [model, fallback] }).start('go');
    const seen = await host.settle(readAll(run.events()));
    const deltas = seen.filter(
      event => event.type === 'text.delta' || event.type === 'text.discarded' || event.type === 'turn.failed',
    );
    const types = deltas.map(event => event.type);
    expect(types).toEqual(['text.delta', 'text.discarded', 'turn.failed', 'text.delta', 'text.delta']);
    expect(deltas[0]).toEqual({ type: 'text.delta', turn: 1, attempt: 1, text: 'Half an' });
    expect(deltas).toContainEqual({ type: 'text.discarded', turn: 1, attempt: 1 });
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'Whole answer.' });
  });
});

function isEntry(event: RunHappening): event is Extract<RunHappening, { seq: number }> {
  return 'seq' in event;
}

test('an agent without a name is refused', () => {
  expect(() => defineAgent({ name: '' })).toThrow(/name/);
});
