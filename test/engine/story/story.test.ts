import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { RunEvents } from '../../../engine/events/run-events.ts';
import { loadRunAt } from '../../../engine/journal/load-run.ts';
import type { RunHappening } from '../../../engine/run/run.ts';
import { readStory, Story } from '../../../engine/story/read-story.ts';
import {
  type StoryEvent,
  type StoryOptions,
  StoryTeller,
  type TurnPart,
} from '../../../engine/story/tell-story.ts';
import { WIRE } from '../../../engine/story/tell-wire.ts';
import { statusOf } from '../../../machines/status.ts';
import { statePath } from '../../../machines/step.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { hideHtmlComments } from '../../../text/hide-html-comments.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, clientTool, makeTool } from '../../support/engine/agents.ts';
import { type SpokenTurn, speaker, spokenTurn } from '../../support/engine/speaker.ts';
import { randomCases } from '../../support/sample.ts';

const recipe = fc.record({
  turns: fc.array(spokenTurn, { minLength: 1, maxLength: 3 }),
  finalAnswer: fc.constantFrom('live' as const, 'held' as const, 'separate' as const),
  answers: fc.array(fc.constantFrom('approve', 'reject', 'answer', 'send', 'cancel'), { maxLength: 6 }),
});
type Recipe = typeof recipe extends fc.Arbitrary<infer Value> ? Value : never;

const filters = [hideHtmlComments];

/** Plays a run, and returns what a reader got of it from its beginning. */
async function play({ turns, finalAnswer, answers }: Recipe) {
  const host = new ManualHost();
  const store = memory();
  const agent = createAgent({
    name: 'a',
    host,
    store,
    finalAnswer,
    textFilters: filters,
    limits: { turns: 8 },
    model: speaker(turns),
    tools: [
      makeTool('read', { sideEffect: 'none' }),
      makeTool('act', { approval: true }),
      clientTool('ask'),
      makeTool('fail', {
        run: () => {
          throw new Error('no');
        },
      }),
    ],
  });
  const run = await agent.start('go');
  const happenings: RunHappening[] = [];
  const reading = (async () => {
    for await (const happening of run.events({ follow: true })) happenings.push(happening);
  })();
  let settled = await host.settle(run.settled());
  for (const word of [...answers, 'cancel'] as const) {
    if (settled.status !== 'waiting') break;
    const [open] = settled.open;
    if (open === undefined || !('callId' in open) || word === 'cancel') await run.cancel();
    else if (word === 'send') await run.send('And?');
    else if (open.kind === 'result') await run.answer(open, { output: 1 });
    else if (open.kind === 'doubt') await run.resolve(open, { failed: 'no' });
    else if (word === 'approve') await run.approve(open);
    else if (word === 'reject') await run.reject(open, { reason: 'no' });
    else await run.answer(open, { output: 2 });
    settled = await host.settle(run.settled());
  }
  if (settled.status === 'waiting') await run.cancel();
  await host.settle(reading);
  return { store, run, happenings, options: { runId: run.id, filters } };
}

/** A reader that folds, for a teller of its own. */
function makeReader(options: StoryOptions) {
  const teller = new StoryTeller(options, null, WIRE);
  const story = new Story(options);
  const take = (happening: RunHappening): StoryEvent[] => {
    if (!('seq' in happening)) return teller.takeDelta(happening);
    const before = story.state;
    story.take(happening);
    if (story.state === null) throw new Error('no state');
    const { runId: _, seq, ...event } = happening;
    const stored = happening.type === 'run.started' ? happening : (event as RunEvent);
    return teller.takeEntry(stored, seq, { before, after: story.state });
  };
  return { teller, take };
}

function tell(happenings: readonly RunHappening[], story: Pick<Story, 'take'>): StoryEvent[] {
  return happenings.flatMap(happening => story.take(happening));
}

/** What the journal alone tells. A reader numbers the parts of a turn as it got them. */
function lasting(events: readonly StoryEvent[]): unknown[] {
  return events
    .filter(event => 'seq' in event)
    .map(event => (event.type === 'turn.closed' ? { ...event, parts: event.parts.map(unnumbered) } : event));
}

function unnumbered(part: TurnPart): unknown {
  return 'part' in part ? { ...part, part: part.part !== null } : part;
}

/** The texts and arguments that the pieces before each `turn.closed` add up to, and those of its parts. */
function sums(events: readonly StoryEvent[]) {
  const found: { pieces: unknown; parts: unknown }[] = [];
  const attempts = new Map<string, { texts: string[]; calls: Map<string, string> }>();
  for (const event of events) {
    if (!('attempt' in event) || !('turn' in event)) continue;
    const place = `${event.turn}/${event.attempt}`;
    const { texts, calls } = attempts.get(place) ?? { texts: [], calls: new Map<string, string>() };
    attempts.set(place, { texts, calls });
    switch (event.type) {
      case 'turn.opened':
      case 'turn.discarded':
        attempts.delete(place);
        break;
      case 'text':
      case 'reasoning':
        texts[event.part] = (texts[event.part] ?? '') + event.text;
        break;
      case 'call.opened':
        calls.set(event.callId, '');
        break;
      case 'call.arguments':
        calls.set(event.callId, (calls.get(event.callId) ?? '') + event.text);
        break;
      case 'turn.closed': {
        const shown: string[] = [];
        for (const part of event.parts)
          if ('part' in part && part.part !== null) shown[part.part] = part.text;
        const written = event.completed.calls.map(({ callId }) => {
          const part = event.parts.find(one => one.kind === 'call' && one.item.callId === callId);
          return [callId, part?.kind === 'call' ? part.item.arguments : ''];
        });
        const pieces = { texts: texts.filter(text => text !== ''), calls: [...calls].toSorted() };
        found.push({
          pieces,
          parts: { texts: shown.filter(text => text !== ''), calls: written.toSorted() },
        });
        attempts.delete(place);
      }
    }
  }
  return found;
}

describe('the story of a run', () => {
  test('the pieces of each turn add up to its parts, with any deltas left out', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, fc.func(fc.boolean()), async (given, isLost) => {
        const { happenings, options } = await play(given);
        const journal = happenings.filter(happening => 'seq' in happening);
        // A reader that falls behind has a beginning of the deltas of an attempt, or none.
        let loses = false;
        const some = happenings.filter((happening, at) => {
          if ('seq' in happening) loses = false;
          else loses ||= isLost(at);
          return 'seq' in happening || !loses;
        });
        for (const read of [happenings, journal, some])
          for (const { pieces, parts } of sums(tell(read, new Story(options)))) expect(pieces).toEqual(parts);
      }),
    );
  });

  test('deltas only make texts appear earlier: the journal alone tells the same turns, calls and ends', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { store, happenings, options } = await play(given);
        const told = tell(happenings, new Story(options));
        const journal = await readStory(store, options);
        expect(lasting(told)).toEqual(lasting(journal));
      }),
    );
  });

  test('from any entry on, the same follows', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { store, happenings, options, run } = await play(given);
        const whole = tell(happenings, new Story(options));
        for (let after = 1; after < run.durable.seq; after += 1) {
          const at = happenings.findIndex(happening => 'seq' in happening && happening.seq === after);
          const story = new Story(options, await loadRunAt(store, options.runId, after));
          const rest = tell(happenings.slice(at + 1), story);
          const expected = whole.filter(event => 'seq' in event && event.seq > after);
          expect(lasting(rest)).toEqual(lasting(expected));
        }
      }),
      { numRuns: randomCases(15) },
    );
  });

  test('each call is settled once, also one that closes its round at once, unless the run ends before', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { store, options } = await play(given);
        const told = await readStory(store, options);
        const cancelled = (await store.read(options.runId)).flatMap(({ event }) =>
          event.type === 'run.cancelled' ? event.unsettled : [],
        );
        const made = told.flatMap(event =>
          event.type === 'turn.closed' ? event.completed.calls.map(({ callId }) => callId) : [],
        );
        const settled = told.flatMap(event => (event.type === 'call.settled' ? [event.callId] : []));
        expect([...settled, ...cancelled].toSorted()).toEqual(made.toSorted());
      }),
    );
  });

  test('a reader that gets the text so far before the entries that it missed is told the same', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, fc.nat(), fc.nat(), async (given, when, since) => {
        const { happenings, options } = await play(given);
        const told: StoryEvent[] = [];
        const whole = tell(happenings, new Story(options));
        const { teller, take } = makeReader(options);
        const at = when % happenings.length;
        const past = happenings.slice(0, at).filter(happening => 'seq' in happening);
        const known = past.slice(0, since % (past.length + 1));
        for (const entry of known) told.push(...take(entry));
        const events = new RunEvents(options.runId);
        for (const happening of happenings.slice(0, at))
          if (!('seq' in happening)) events.publishDelta(happening);
          else events.publishEntry({ seq: happening.seq, event: happening } as JournalEntry);
        const { parts } = events.partialText;
        const [first] = parts;
        if (first !== undefined && 'turn' in first) {
          const texts = parts.map(part => (part.type === 'text.delta' ? part.text : ''));
          told.push(...teller.takeTextSoFar({ ...first, text: texts.join('') }));
          for (const part of parts) if (part.type !== 'text.delta') told.push(...teller.takeDelta(part));
        }
        for (const happening of [...past.slice(known.length), ...happenings.slice(at)])
          told.push(...take(happening));
        expect(lasting(told)).toEqual(lasting(whole));
        for (const { pieces, parts } of sums(told)) expect(pieces).toEqual(parts);
      }),
    );
  });

  test('tells the state of the chart when it changes and after each message, before all else of an entry', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { store, options } = await play(given);
        const story = new Story(options);
        let known: unknown[] = [];
        for (const entry of await store.read(options.runId)) {
          const told = story.takeEntry(entry);
          const [first, second] = told;
          const state = first?.type === 'message' ? second : first;
          const isTold = state?.type === 'state';
          if (first?.type === 'message') expect(second?.type).toBe('state');
          else if (isTold) expect([state.path, state.status, state.why]).not.toEqual(known);
          if (isTold) known = [state.path, state.status, state.why];
          expect(told.filter(({ type }) => type === 'state')).toHaveLength(isTold ? 1 : 0);
          if (story.state === null) throw new Error('no state');
          expect(known.slice(0, 2)).toEqual([statePath(story.state), statusOf(story.state)]);
        }
      }),
    );
  });

  test('text that arrives before missed entries stays, and more text continues it after reasoning', async () => {
    const turns: SpokenTurn[] = [
      { said: [{ kind: 'call', name: 'read', early: true }], lies: false, breaksAt: undefined },
      {
        said: [
          { kind: 'reasoning', pieces: ['Hello'] },
          { kind: 'text', pieces: ['Hello', ' there'] },
        ],
        lies: false,
        breaksAt: undefined,
      },
    ];
    const { happenings, options } = await play({ turns, finalAnswer: 'live', answers: [] });
    const { teller, take } = makeReader(options);
    const place = { turn: 2, attempt: 1 };
    const journal = happenings.filter(happening => 'seq' in happening);
    const [closed, text] = ['turn.completed', 'text.started'].map(type =>
      journal.findIndex(event => event.type === type),
    );
    tell(journal.slice(0, closed), { take });
    const told = [
      ...teller.takeTextSoFar({ ...place, text: 'Hello' }),
      ...teller.takeDelta({ type: 'reasoning.delta', ...place, text: 'Hello' }),
      ...tell(journal.slice(closed, text), { take }),
      ...teller.takeDelta({ type: 'text.delta', ...place, text: ' there' }),
      ...tell(journal.slice(text), { take }),
    ];
    expect(told.filter(({ type }) => type === 'turn.discarded')).toEqual([]);
    const texts = told.filter(event => event.type === 'text' && event.turn === 2);
    expect(texts).toMatchObject([
      { part: 1, text: 'Hello' },
      { part: 1, text: ' there' },
    ]);
    const reasoning = told.find(event => event.type === 'reasoning' && event.text !== '');
    expect(reasoning).toMatchObject({ part: 0, text: 'Hello' });
  });

  test('every entry is told; a settled call has its result', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { store, run, options } = await play(given);
        const told = await readStory(store, options);
        const seqs = new Set(told.flatMap(event => ('seq' in event ? [event.seq] : [])));
        expect(seqs.size).toBe(run.durable.seq);
        const failures = told.filter(({ type }) => type === 'turn.failed');
        const journal = await store.read(run.id);
        expect(failures).toHaveLength(journal.filter(({ event }) => event.type === 'turn.failed').length);
        for (const event of told) {
          if (event.type !== 'call.settled') continue;
          const { output, isError, call } = event;
          expect(call).toMatchObject({ status: 'settled', result: { output, isError } });
        }
      }),
      { numRuns: randomCases(15) },
    );
  });

  test('that begins after a turn tells no late piece of that turn', async () => {
    const { store, run, options, happenings } = await play({
      turns: [{ said: [{ kind: 'text', pieces: ['Hello'] }], lies: false, breaksAt: undefined }],
      finalAnswer: 'live',
      answers: [],
    });
    const deltas = happenings.filter(happening => !('seq' in happening));
    const closed = (await store.read(run.id)).find(({ event }) => event.type === 'turn.completed')?.seq ?? 0;
    expect(tell(deltas, new Story(options, await loadRunAt(store, run.id, closed - 1)))).not.toEqual([]);
    for (let after = closed; after <= run.durable.seq; after += 1)
      expect(tell(deltas, new Story(options, await loadRunAt(store, run.id, after)))).toEqual([]);
  });

  test('what a tool asks is told, and each answer with its name and what is left', async () => {
    const store = memory();
    const asking = tool({
      name: 'book',
      description: 'Books.',
      input: z.object({}),
      prepare: ({ ask }) =>
        Promise.all([
          ask({ key: 'a', message: 'A?', schema: z.string() }),
          ask({ key: 'b', message: 'B?', schema: z.string() }),
        ]),
      run: (_, { prepared }) => prepared,
    });
    const model = scripted([calls('book'), { text: 'done' }]);
    const agent = createAgent({ name: 'a', store, model, tools: [asking] });
    const run = await agent.start('go');
    await run.settled();
    await run.answer('call_0_0', { answers: { b: 'two' }, by: 'Ada' });
    await run.reject('call_0_0', { reason: 'no', by: 'Bea' });
    await run.settled();
    const told = (await readStory(store, { runId: run.id })).filter(({ type }) => type.startsWith('call.'));
    expect(told.slice(-5)).toMatchObject([
      { type: 'call.asked', open: { kind: 'question', questions: [{ key: 'a' }, { key: 'b' }] } },
      { type: 'call.answered', callId: 'call_0_0', answers: { b: { value: 'two' } }, by: 'Ada' },
      { type: 'call.asked', open: { kind: 'question', questions: [{ key: 'a' }] } },
      { type: 'call.answered', answers: { a: { type: 'declined', reason: 'no' } }, by: 'Bea' },
      { type: 'call.settled', by: 'tool', isError: true },
    ]);
  });

  test('what people did with a call is told with their name', async () => {
    const turns: SpokenTurn[] = [
      {
        said: [
          { kind: 'call', name: 'act', early: true },
          { kind: 'call', name: 'ask', early: true },
        ],
        lies: false,
        breaksAt: undefined,
      },
    ];
    const host = new ManualHost();
    const store = memory();
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: speaker(turns),
      tools: [makeTool('act', { approval: true }), clientTool('ask')],
    });
    const run = await agent.start('go');
    await host.settle(run.settled());
    await run.approve('call-0-0', { by: 'Ada', input: { n: 2 }, sticky: true });
    await run.answer('call-0-1', { by: 'Grace', output: 'yes' });
    await host.settle(run.settled());
    const told = await readStory(store, { runId: run.id });
    expect(told.find(({ type }) => type === 'call.decided')).toMatchObject({
      callId: 'call-0-0',
      approved: true,
      input: { n: 2 },
      sticky: true,
      by: 'Ada',
    });
    expect(told.filter(({ type }) => type === 'call.settled')).toMatchObject([
      { callId: 'call-0-1', by: 'answer', who: 'Grace' },
      { callId: 'call-0-0', by: 'tool', call: { input: { n: 2 } } },
    ]);
  });

  test('two readers agree, and one that comes late gets the turn in progress from its beginning', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { happenings, options } = await play(given);
        const one = tell(happenings, new Story(options));
        const other = tell(structuredClone(happenings), new Story(options));
        expect(one).toEqual(other);
      }),
      { numRuns: randomCases(10) },
    );
  });

  test('a held answer comes after its reasoning, as it is written and afterwards', async () => {
    const host = new ManualHost();
    const model = scripted([{ text: 'The answer.', reasoning: 'I think.' }]);
    const agent = createAgent({ name: 'a', host, store: memory(), model, finalAnswer: 'held' });
    const run = await agent.start('go');
    for (const _ of ['live', 'afterwards']) {
      const pieces: string[] = [];
      const read = async () => {
        for await (const event of run.story())
          if (event.type === 'text' || event.type === 'reasoning') pieces.push(`${event.type} ${event.text}`);
      };
      await host.settle(read());
      expect(pieces).toEqual(['reasoning I think.', 'text The answer.']);
    }
  });
});
