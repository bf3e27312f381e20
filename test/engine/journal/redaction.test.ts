import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, type Tool } from '../../../agent/index.ts';
import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { redactContents } from '../../../engine/journal/redaction/redact-contents.ts';
import { pointerTo, redactRun, textsOf } from '../../../engine/journal/redaction/redact-run.ts';
import { exportBlobs, exportRun } from '../../../engine/replay/export-run.ts';
import { ExportedBlobs } from '../../../engine/replay/read-export.ts';
import { replayExport } from '../../../engine/replay/replay-export.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { readStory } from '../../../engine/story/read-story.ts';
import { statePath } from '../../../machines/step.ts';
import { EngineError } from '../../../protocol/error.ts';
import { isContent, type JournalEntry, type RunEvent } from '../../../protocol/event.ts';
import { toJson } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { recordRequests } from '../../support/engine/models.ts';
import { recipes, recordRun } from '../../support/engine/recorded-run.ts';
import { randomCases } from '../../support/sample.ts';

const SECRET = 'ann@example.org';
const MARK = expect.stringMatching(/^\[redacted sha256:[0-9a-f]{64}\]$/);

const PAYING: ScriptedTurn[] = [
  { text: `I pay ${SECRET}.`, ...calls(['pay', { to: SECRET, cents: 4200 }]) },
  { text: 'Done.' },
  { text: 'Once more.' },
];

function makePaying(options: { turns?: ScriptedTurn[]; pay?: Parameters<typeof makeTool>[1] } = {}) {
  const host = new ManualHost();
  const store = memory();
  const { model, requests } = recordRequests(scripted(options.turns ?? PAYING));
  const tools: Tool[] = [makeTool('pay', { approval: true, run: () => ({ paid: SECRET }), ...options.pay })];
  const agent = createAgent({ name: 'desk', host, store, model, tools });
  return { host, store, requests, agent };
}

/** A run that has paid and finished. */
async function paid(options: Parameters<typeof makePaying>[0] = {}) {
  const made = makePaying(options);
  const run = await made.agent.start(`Pay ${SECRET}`, { runId: 'r' });
  await made.host.settle(run.settled());
  await run.approve('call_0_0', { by: 'bob' });
  await made.host.settle(run.settled());
  return { ...made, run };
}

async function pathIn(store: Store, type: RunEvent['type'], rest: string): Promise<string> {
  const entry = (await store.read('r')).find(({ event }) => event.type === type);
  return `/${entry?.seq}${rest}`;
}

async function inputPath(store: Store): Promise<string> {
  return await pathIn(store, 'turn.completed', '/calls/0/input');
}

function eventsIn(journal: readonly JournalEntry[]) {
  return journal.map(({ seq, event }) => ({ seq, event }));
}

function textOfStore(journal: unknown): string {
  return JSON.stringify(journal);
}

describe('a redaction', () => {
  test('replaces a text by its digest, is journaled, and the run still replays', async () => {
    const { host, store } = await paid();
    const before = await store.read('r');
    const path = '/1/input/0/content/0/text';
    const redacted = await redactRun(store, 'r', { paths: [path], by: 'eve', host });
    expect(redacted).toMatchObject({ runId: 'r', values: 1 });
    const journal = await store.read('r');
    expect(journal[0]?.event).toMatchObject({ input: [{ content: [{ type: 'text', text: MARK }] }] });
    expect(eventsIn(journal.slice(1, -1))).toEqual(eventsIn(before.slice(1)));
    expect(journal.at(-1)?.event).toMatchObject({ type: 'run.redacted', paths: [path], by: 'eve' });
    expect(textOfStore(await store.loadSnapshot('r'))).not.toContain(`Pay ${SECRET}`);
    expect(await replayRun(store, 'r')).toMatchObject({ equal: true, redacted: 1, entries: journal.length });
    const exported = await exportRun(store, 'r');
    expect(replayExport(exported)).toMatchObject({ equal: true, redacted: 1 });
    expect((await store.get('r'))?.status).toBe('finished');
  });

  test('lists other occurrences of the text, also inside arguments and other texts', async () => {
    const { host, store } = await paid();
    const input = await inputPath(store);
    const { elsewhere } = await redactRun(store, 'r', { paths: [`${input}/to`], host });
    const turn = input.split('/')[1];
    expect(elsewhere).toContain('/1/input/0/content/0/text');
    expect(elsewhere).toContain(`/${turn}/text`);
    expect(elsewhere).toContain(await pathIn(store, 'tool.settled', '/output/paid'));
    expect(elsewhere.some(path => path.endsWith('/arguments'))).toBe(true);
    const again = await redactRun(store, 'r', { paths: elsewhere, host });
    expect(again.elsewhere).toEqual([]);
    expect(textOfStore([await store.read('r'), await exportRun(store, 'r')])).not.toContain(SECRET);
    expect(await replayRun(store, 'r')).toMatchObject({ equal: true, redacted: elsewhere.length + 1 });
  });

  test("of an approved call's input keeps the digest that was approved", async () => {
    const { host, store } = await paid();
    const input = await inputPath(store);
    const digests = async () =>
      (await store.read('r')).flatMap(({ event }) =>
        event.type === 'turn.completed' ? event.calls.map(({ digest }) => digest) : [],
      );
    const before = await digests();
    await redactRun(store, 'r', { paths: [input], host });
    expect(await digests()).toEqual(before);
    expect(await replayRun(store, 'r')).toMatchObject({ equal: true, redacted: 1 });
    await expect(exportRun(store, 'r')).resolves.toMatchObject({ end: { status: 'finished' } });
  });

  describe('of an answer that people review', () => {
    const ANSWERS = [{ text: `Write to ${SECRET}.` }, { text: `Ask ${SECRET}.` }];

    async function reviewed() {
      const host = new ManualHost();
      const store = memory();
      const agent = createAgent({
        name: 'desk',
        host,
        store,
        model: scripted(ANSWERS),
        guardrails: { answer: () => ({ type: 'ask', reason: `it names ${SECRET}`, by: 'editors' }) },
      });
      const run = await agent.start('Whom do I ask?', { runId: 'r' });
      await host.settle(run.settled());
      const as = { name: 'mia', groups: ['editors'] };
      const open = async () => {
        const settled = await host.settle(run.settled());
        const [review] = settled.status === 'waiting' ? settled.reviews : [];
        if (review === undefined) throw new Error(`no review: ${settled.status}`);
        return review;
      };
      const search = async () => {
        const told = await readStory(store, { runId: 'r' });
        return textOfStore([
          await store.read('r'),
          await store.loadSnapshot('r'),
          await exportRun(store, 'r'),
          told,
        ]);
      };
      return { host, store, run, as, open, search };
    }

    test('reaches the answer, the remark with which it was sent back, and the answer in its place', async () => {
      const { host, store, run, as, open, search } = await reviewed();
      await run.reject(await open(), { reason: `leave out ${SECRET}`, as });
      await run.approve(await open(), { answer: `Ask us, or ${SECRET}.`, as });
      expect(await host.settle(run.settled())).toMatchObject({ text: `Ask us, or ${SECRET}.` });
      const path = await pathIn(store, 'turn.completed', '/text');
      const { elsewhere } = await redactRun(store, 'r', { paths: [path], host });
      const decided = await pathIn(store, 'review.decided', '/decision/reason');
      const requested = await pathIn(store, 'review.requested', '/reason');
      const paths = (await store.read('r')).flatMap(({ seq, event }) => {
        if (event.type === 'turn.completed') return [`/${seq}/text`, `/${seq}/items/0/content/0/text`];
        if (event.type === 'review.requested') return [`/${seq}/reason`];
        if (event.type !== 'review.decided') return [];
        return [`/${seq}/decision/${event.decision.type === 'reject' ? 'reason' : 'text'}`];
      });
      expect(paths).toEqual(expect.arrayContaining([decided, requested, ...elsewhere]));
      await redactRun(store, 'r', { paths, host });
      expect(await search()).not.toContain(SECRET);
      expect(await replayRun(store, 'r')).toMatchObject({ equal: true });
      expect(replayExport(await exportRun(store, 'r'))).toMatchObject({ equal: true });
      expect((await store.get('r'))?.status).toBe('finished');
    });

    test('leaves the review open, with the digest of what was seen', async () => {
      const { host, store, run, as, open, search } = await reviewed();
      const before = await open();
      const turn = await pathIn(store, 'turn.completed', '');
      const paths = [
        `${turn}/text`,
        `${turn}/items/0/content/0/text`,
        await pathIn(store, 'review.requested', '/reason'),
      ];
      await redactRun(store, 'r', { paths, host });
      expect(await search()).not.toContain(SECRET);
      expect(await replayRun(store, 'r')).toMatchObject({ equal: true });
      const after = await open();
      expect(after).toEqual({ ...before, answer: MARK, reason: MARK });
      expect(await run.approve(after, { answer: 'Ask us.', as })).toEqual({ accepted: true });
      expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'Ask us.' });
      expect(await replayRun(store, 'r')).toMatchObject({ equal: true });
    });
  });

  test('of a large result also removes its blob and the part that the model read', async () => {
    const large = { rows: `${SECRET} `.repeat(500) };
    const { host, store, run } = await paid({
      pay: { approval: true, maxResultBytes: 1000, run: () => large },
    });
    expect(await run.output('call_0_0')).toEqual(large);
    const settled = await pathIn(store, 'tool.settled', '');
    const digest = (await store.read('r')).flatMap(({ event }) =>
      event.type === 'tool.settled' && event.blob ? [event.blob.digest] : [],
    )[0];
    await redactRun(store, 'r', { paths: [`${settled}/output`], host });
    expect(await store.readBlob('r', digest ?? '', 0, 1)).toBeUndefined();
    const entry = (await store.read('r')).find(({ event }) => event.type === 'tool.settled');
    expect(entry?.event).toMatchObject({ output: MARK, blob: { digest } });
    expect(textOfStore(entry)).not.toContain(SECRET);
    expect(await replayRun(store, 'r')).toMatchObject({ equal: true });
    const exported = await exportRun(store, 'r');
    const blobs = new ExportedBlobs();
    for await (const part of exportBlobs(store, exported)) blobs.take(JSON.stringify(part), 'it');
    expect(replayExport(exported, undefined, { blobs })).toMatchObject({ equal: true });
  });

  test('is idempotent', async () => {
    const { host, store } = await paid();
    const paths = ['/1/input/0/content/0/text'];
    await redactRun(store, 'r', { paths: [...paths, ...paths], host });
    const journal = await store.read('r');
    expect(await redactRun(store, 'r', { paths, host })).toMatchObject({ values: 0, elsewhere: [] });
    expect(await store.read('r')).toEqual(journal);
  });

  test.each([
    ['input-invalid', '/1/input/7/content/0/text'],
    ['input-invalid', '/99/text'],
    ['input-invalid', '1/input/0/content/0/text'],
    ['input-invalid', '/1/input/length'],
    ['input-invalid', '/1/__proto__'],
    ['refused', '/1'],
    ['refused', '/1/type'],
    ['refused', '/1/at'],
    ['refused', '/1/runId'],
    ['refused', '/1/agent/name'],
    ['refused', '/1/config/limits'],
    ['refused', '/1/input'],
    ['refused', '/1/input/0/role'],
    ['refused', '/2/by'],
    ['refused', 'turn.completed/model'],
    ['refused', 'turn.completed/calls/0/callId'],
    ['refused', 'turn.completed/calls/0/digest'],
    ['refused', 'turn.completed/calls/0/name'],
    ['refused', 'turn.completed/items/0/role'],
    ['refused', 'tool.started/key'],
    ['refused', 'tool.settled/isError'],
    ['refused', 'approval.decided/decision'],
    ['refused', 'approval.decided/digest'],
  ])('is refused as %s at %s, and changes nothing', async (code, named) => {
    const { host, store } = await paid();
    const before = await store.read('r');
    const [type = '', ...rest] = named.split('/');
    const path = named.includes('.')
      ? await pathIn(store, type as RunEvent['type'], `/${rest.join('/')}`)
      : named;
    const paths = ['/1/input/0/content/0/text', path];
    await expect(redactRun(store, 'r', { paths, host })).rejects.toMatchObject({ code });
    expect(await store.read('r')).toEqual(before);
  });

  test("of a call's input is refused before the call has a result, and allowed after", async () => {
    const { host, store, agent } = makePaying();
    const run = await agent.start(`Pay ${SECRET}`, { runId: 'r' });
    await host.settle(run.settled());
    const paths = [`${await inputPath(store)}/to`];
    await expect(redactRun(store, 'r', { paths, host })).rejects.toMatchObject({ code: 'refused' });
    await run.approve('call_0_0');
    await host.settle(run.settled());
    expect(await redactRun(store, 'r', { paths, host })).toMatchObject({ values: 1 });
  });

  test('is refused while a process drives the run', async () => {
    const { host, store } = await paid();
    const owner = { id: 'other', host: 'elsewhere', pid: 7, startedAt: '1' };
    await store.claim('r', { owner, now: host.now(), leaseMs: 1000, isDead: () => false });
    const before = await store.read('r');
    const paths = ['/1/input/0/content/0/text'];
    await expect(redactRun(store, 'r', { paths, host })).rejects.toMatchObject({ code: 'refused' });
    expect(await store.read('r')).toEqual(before);
  });

  test('applies to a fork, to a continuing run and to a process that holds the run at rest', async () => {
    const { host, store, requests, agent, run } = await paid();
    const paths = ['/1/input/0/content/0/text', `${await inputPath(store)}/to`];
    const { elsewhere } = await redactRun(store, 'r', { paths, host });
    await redactRun(store, 'r', { paths: elsewhere, host });
    requests.length = 0;
    const later = await agent.start('And now?', { continues: 'r' });
    await host.settle(later.settled());
    const end = (await store.get('r'))?.seq ?? 0;
    const forked = await agent.open('r').then(opened => opened.fork({ at: end }));
    expect(textOfStore([requests, await store.read(forked.id)])).not.toContain(SECRET);
    expect(await replayRun(store, forked.id)).toMatchObject({
      equal: true,
      redacted: paths.length + elsewhere.length,
    });
    const settledAt = Number((await pathIn(store, 'tool.settled', '')).slice(1));
    await expect(run.fork({ at: settledAt - 1 })).rejects.toMatchObject({ code: 'refused' });
  });

  test('reaches a process that holds the run at rest before it continues', async () => {
    const { host, store, requests, agent } = makePaying();
    const run = await agent.start(`Pay ${SECRET}`, { runId: 'r' });
    await host.settle(run.settled());
    await redactRun(store, 'r', { paths: ['/1/input/0/content/0/text'], host });
    requests.length = 0;
    await run.reject('call_0_0');
    await host.settle(run.settled());
    const [read] = requests[0]?.transcript ?? [];
    expect(read).toMatchObject({ type: 'message', content: [{ text: MARK }] });
    expect(await replayRun(store, 'r')).toMatchObject({ equal: true, redacted: 1 });
    const snapshot = await store.loadSnapshot('r');
    expect(textOfStore(snapshot)).not.toContain(`Pay ${SECRET}`);
  });

  test('reaches continuing runs, also in a process that has already read the run', async () => {
    const turns = [...PAYING, calls('pay'), { text: 'Later.' }, { text: 'Last.' }];
    const { host, store, requests, agent } = await paid({ turns: turns.filter((_, place) => place !== 2) });
    const later = await agent.start('And now?', { continues: 'r' });
    expect((await host.settle(later.settled())).status).toBe('waiting');
    await redactRun(store, 'r', { paths: ['/1/input/0/content/0/text'], host });
    requests.length = 0;
    await later.reject((await later.settled()).status === 'waiting' ? 'call_2_0' : '');
    expect((await host.settle(later.settled())).status).toBe('finished');
    const last = await agent.start('And then?', { continues: 'r' });
    await host.settle(last.settled());
    expect(requests).toHaveLength(2);
    expect(textOfStore(requests)).not.toContain(`Pay ${SECRET}`);
  });

  test('of an input that a breakpoint compared keeps the course, and names the copy in the condition', async () => {
    const { host, store, agent } = makePaying();
    const run = await agent.start('Pay.', { runId: 'r' });
    await run.setBreakpoints([
      { id: 'b', next: 'interruptForApproval', where: { path: 'input.to', op: '=', value: SECRET } },
    ]);
    await host.settle(run.settled());
    expect(run.context.next).toMatchObject({ type: 'pause', breakpoint: 'b' });
    const value = await pathIn(store, 'breakpoints.set', '/breakpoints/0/where/value');
    await expect(redactRun(store, 'r', { paths: [value], host })).rejects.toThrow(/future turn needs them/);
    await run.unpause();
    await host.settle(run.settled());
    await run.approve('call_0_0');
    await host.settle(run.settled());
    const { elsewhere } = await redactRun(store, 'r', { paths: [await inputPath(store)], host });
    expect(elsewhere).toContain(value);
    expect(await replayRun(store, 'r')).toMatchObject({ equal: true });
    await redactRun(store, 'r', { paths: [value], host });
    expect(await replayRun(store, 'r')).toMatchObject({ equal: true });
    const set = (await store.read('r')).find(({ event }) => event.type === 'breakpoints.set');
    expect(set?.event).toMatchObject({ breakpoints: [{ where: { value: MARK } }] });
  });

  test('of any content of any run is refused, or keeps the final state', async () => {
    const property = fc.asyncProperty(recipes, fc.nat(), fc.nat(), async (recipe, first, second) => {
      const { store, run, host } = await recordRun(recipe);
      const content = (await store.read(run.id)).flatMap(({ seq, event }) =>
        [...textsOf(toJson(event))].flatMap(([, path]) =>
          isContent(event.type, path) ? [pointerTo({ seq, path })] : [],
        ),
      );
      const paths = [first, second].flatMap(place => content[place % content.length] ?? []);
      const before = await replayRun(store, run.id);
      const redacted = await redactRun(store, run.id, { paths, host }).catch((error: unknown) => {
        if (error instanceof EngineError && error.code === 'refused') return undefined;
        throw error;
      });
      const after = await replayRun(store, run.id);
      expect(after).toMatchObject({ equal: true, redacted: redacted?.values ?? 0 });
      expect(after.end?.state.value).toEqual(before.end?.state.value);
    });
    await fc.assert(property, { numRuns: randomCases(20) });
  });
});

test('a copy without contents of any run takes the course of the run', async () => {
  const property = fc.asyncProperty(recipes, async recipe => {
    const { store, run } = await recordRun(recipe);
    const journal = await store.read(run.id);
    const [states, copied] = [journal, redactContents(journal)].map(coursesOf);
    expect(copied).toEqual(states);
  });
  await fc.assert(property, { numRuns: randomCases(20) });
});

/** The chart's states after each entry. */
function coursesOf([first, ...rest]: readonly JournalEntry[]) {
  if (first?.event.type !== 'run.started') throw new Error('The journal has no start.');
  const states = [beginFold(first.event)];
  for (const entry of rest) states.push(foldEntry(states.at(-1) ?? expect.fail(), entry, first.event.runId));
  return states.map(statePath);
}
