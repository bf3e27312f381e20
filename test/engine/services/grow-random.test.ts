import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { ModelAdapter, SetupChange } from '../../../protocol/adapter.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { keepLast } from '../../../text/trim-transcript.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';
import { randomCases } from '../../support/sample.ts';

/** What one turn of the model does, and what happens to the run when it rests or ends after that. */
const anyStep = fc.record({
  says: fc.constantFrom('look', 'look', 'pay', 'pay', 'say'),
  trim: fc.constantFrom('all', 'all', 'all', 'last', 'first'),
  tools: fc.constantFrom(
    ['look', 'pay', 'other'],
    ['look', 'pay', 'other'],
    ['look', 'pay'],
    ['pay', 'look'],
  ),
  instructions: fc.constantFrom('Be brief.', 'Be brief.', 'Be loud.'),
  isOverloaded: fc.constantFrom(true, false, false, false),
  atRest: fc.constantFrom('approve', 'edit', 'edit turn', 'restart', 'fork', 'restore'),
});
type Step = typeof anyStep extends fc.Arbitrary<infer One> ? One : never;

const anyScene = fc.record({
  steps: fc.array(anyStep, { minLength: 2, maxLength: 12 }),
  binds: fc.boolean(),
  appends: fc.constantFrom('all', 'instructions', 'nothing'),
});
type Scene = typeof anyScene extends fc.Arbitrary<infer One> ? One : never;

type Turn = Extract<RunEvent, { type: 'turn.completed' | 'turn.failed' }>;
type Sent = { provider: string; request: ModelRequest; wanted: string };
/** An edit of what had been sent, before the turn with that number. */
type Played = { sent: Sent[]; turns: Turn[]; edits: Set<number> };

async function play({ steps, binds, appends }: Scene): Promise<Played> {
  const sent: Sent[] = [];
  const turns: Turn[] = [];
  const edits = new Set<number>();
  const seen = new Set<string>();
  let done = 0;
  const step = (): Step | undefined => steps[done];

  const append = (change: SetupChange): Item[] | undefined => {
    if (appends === 'nothing') return undefined;
    if (appends === 'instructions' && Object.keys(change).some(name => name !== 'instructions'))
      return undefined;
    const data = JSON.parse(JSON.stringify(change));
    return [{ type: 'provider_item', kind: 'setup', opaque: { provider: 'p', data } }];
  };
  const modelOf = (provider: string): ModelAdapter => {
    const answering = answerWith(
      () => {
        const now = step();
        if (provider === 'p' && now?.isOverloaded)
          throw new ProviderError('Overloaded.', { provider, model: 'p-1', code: 'overloaded' });
        const number = done++;
        const thought: Item = {
          type: 'reasoning',
          id: `thought ${number}`,
          text: '',
          opaque: { provider, data: number },
        };
        const name = now?.says ?? 'say';
        if (name === 'say') {
          const said: Item = {
            type: 'message',
            role: 'assistant',
            content: [{ type: 'text', text: `said ${number}` }],
          };
          return { text: `said ${number}`, items: [thought, said] };
        }
        const callId = `call_${number}`;
        const call: Item = { type: 'tool_call', callId, name, arguments: '{}' };
        return { toolCalls: [{ callId, name }], items: [thought, call] };
      },
      { provider, model: `${provider}-1` },
    );
    const { model, requests } = recordRequests(answering);
    const keep: typeof requests.push = (...given) =>
      sent.push(
        ...given.map(request => ({ provider, request, wanted: step()?.instructions ?? 'Be brief.' })),
      );
    requests.push = keep;
    return { ...model, append, capabilities: { ...model.capabilities, bindsReasoning: binds } };
  };
  const models: [ModelAdapter, ModelAdapter] = [modelOf('p'), modelOf('q')];
  const tools = ['look', 'pay', 'other'].map(name =>
    makeTool(name, { sideEffect: 'none', approval: name === 'pay' }),
  );
  let hosts = 0;
  const open = (store = memory()) => {
    hosts += 1;
    const host = new ManualHost({ name: `h${hosts}.` });
    const prepareTurn: AgentOptions['prepareTurn'] = ({ transcript }) => {
      const { trim, tools: names } = step() ?? { trim: 'all', tools: ['look', 'pay', 'other'] };
      const chosen = { last: keepLast(6)(transcript), first: transcript.slice(1), all: transcript };
      return { tools: names, transcript: chosen[trim as keyof typeof chosen] };
    };
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: models,
      tools,
      prepareTurn,
      retry: { attempts: 1 },
      instructions: () => step()?.instructions ?? 'Be brief.',
    });
    return { agent, host, store };
  };

  let place = open();
  let isRestored = false;
  let run: Run = await place.agent.start('go');
  for (let round = 0; done < steps.length && round < 40; round += 1) {
    const { agent, host, store } = place;
    await host.settle(run.settled());
    await collect(run, store);
    const [call] = run.context.calls;
    if (call === undefined) {
      // A store without a run's first entries cannot continue or fork it.
      if (isRestored) break;
      run = await agent.start('more', { continues: run.id });
      continue;
    }
    switch (steps[done - 1]?.atRest) {
      case 'edit': {
        const at = run.context.transcript.findIndex(item => item.type === 'message');
        const items = run.context.transcript.map(
          (item, index): Item =>
            index === at && item.type === 'message'
              ? { ...item, content: [{ type: 'text', text: `edited ${round}` }] }
              : item,
        );
        const { accepted } = await run.editTranscript(items);
        expect(accepted).toBe(true);
        edits.add(turns.length);
        break;
      }
      case 'edit turn':
        await run.editTurn({ text: 'I pay.' });
        break;
      case 'restart':
        await run.yield();
        place = open(store);
        run = await place.agent.open(run.id);
        break;
      case 'fork': {
        if (isRestored) break;
        const at = (await store.read(run.id, 0)).at(-1)?.seq ?? 0;
        run = await run.fork({ at });
        for (const { seq } of await store.read(run.id, 0)) seen.add(`${run.id} ${seq}`);
        break;
      }
      case 'restore': {
        const snapshot = JSON.parse(JSON.stringify(run.snapshot()));
        await run.yield();
        place = open();
        run = await place.agent.restore(snapshot);
        isRestored = true;
        break;
      }
    }
    const [gated] = run.context.calls;
    await run.approve(gated?.callId ?? '');
  }
  return { sent, turns, edits };

  async function collect({ id }: Run, store: ReturnType<typeof memory>) {
    for (const { seq, event } of await store.read(id, 0)) {
      if (event.type !== 'turn.completed' && event.type !== 'turn.failed') continue;
      if (seen.has(`${id} ${seq}`)) continue;
      seen.add(`${id} ${seq}`);
      turns.push(event);
    }
  }
}

const startsWith = (items: readonly unknown[], first: readonly unknown[]) =>
  first.every((item, at) => isDeepStrictEqual(item, items[at]));

/** Without what is left out after a break. */
const portable = (items: readonly Item[]) =>
  items.flatMap(item => {
    if (item.type === 'provider_item') return [];
    return [item.type === 'reasoning' ? { ...item, opaque: undefined } : item];
  });

test('each request extends the one before, or its turn says why not', async () => {
  const causes = new Set<string>();
  await fc.assert(
    fc.asyncProperty(anyScene, async scene => {
      const { sent, turns, edits } = await play(scene);
      const seals = new Map<string, string>();
      let gone = new Set<string>();
      let before: Sent | undefined;
      let newest: string | undefined;
      let isEdited = false;
      for (const [at, turn] of turns.entries()) {
        const now = sent[at];
        expect(now).toBeDefined();
        if (now === undefined) return;
        isEdited ||= edits.has(at);
        const { request, provider } = now;
        const thoughts = request.transcript.filter(item => item.type === 'reasoning');
        if (before !== undefined) {
          const old = before.request;
          const hasSameHead =
            request.instructions === old.instructions && isDeepStrictEqual(request.tools, old.tools);
          const extendsOld =
            provider === before.provider && hasSameHead && startsWith(request.transcript, old.transcript);
          expect([extendsOld, turn.broken?.by]).toEqual([turn.broken === undefined, turn.broken?.by]);
          if (turn.broken) {
            const { by, lost } = turn.broken;
            causes.add(by);
            const kept = startsWith(portable(request.transcript), portable(old.transcript));
            if (provider !== before.provider) expect(by).toBe('fallback');
            else if (!kept) expect(by).toBe(isEdited ? 'edit' : 'trim');
            else expect(by).toBe(now.wanted === before.wanted ? 'tools' : 'instructions');
            const own = thoughts.flatMap(({ id = '' }) => (seals.get(id) === provider ? id : []));
            // What an earlier request did not have, and this one has again, may be listed or not.
            const listed = own.filter(id => {
              const sentBefore = old.transcript.find(item => item.type === 'reasoning' && item.id === id);
              if (id === newest) return true;
              return sentBefore === undefined ? lost.includes(id) : 'opaque' in sentBefore;
            });
            expect(lost).toEqual(scene.binds ? listed : []);
          }
        }
        // Also those that the request does not have. A failed request breaks nothing for the next.
        const left = turn.broken ? new Set(seals.keys()) : gone;
        for (const { id = '', opaque } of thoughts)
          expect([id, opaque === undefined]).toEqual([id, scene.binds && left.has(id)]);
        if (turn.type === 'turn.failed') continue;
        gone = left;
        const { appended = [], items } = turn;
        expect(request.transcript.slice(request.transcript.length - appended.length)).toEqual(appended);
        for (const item of items) if (item.type === 'reasoning') seals.set(item.id ?? '', provider);
        before = now;
        newest = items.find(item => item.type === 'reasoning')?.id;
        isEdited = false;
      }
    }),
    { numRuns: randomCases(60) },
  );
  expect([...causes].toSorted()).toEqual(['edit', 'fallback', 'instructions', 'tools', 'trim']);
});
