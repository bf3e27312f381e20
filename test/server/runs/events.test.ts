import { describe, expect, test } from 'vitest';
import type { RunView } from '../../../protocol/run-view.ts';
import { memory } from '../../../stores/memory.ts';
import { PacedModel } from '../../support/server/paced-model.ts';
import {
  countTo,
  DONE,
  errorOf,
  idsOf,
  makeApp,
  parseEvents,
  REFUND,
  type SentEvent,
  type TestApp,
  until,
} from '../../support/server/runs-app.ts';

/** Reads a stream as a client that can stop reading. */
class Reader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  text = '';
  ended = false;

  constructor(response: Response) {
    if (response.body === null) throw new Error('no body');
    this.#reader = response.body.getReader();
  }

  static async open({ send }: TestApp, path: string, headers: Record<string, string> = {}): Promise<Reader> {
    return new Reader(await send('GET', path, undefined, headers));
  }

  get events(): SentEvent[] {
    return parseEvents(this.text);
  }

  async read(): Promise<void> {
    const { done, value } = await this.#reader.read();
    this.ended = done;
    this.text += this.#decoder.decode(value, { stream: !done });
  }

  async readUntil(holds: (events: SentEvent[]) => boolean): Promise<SentEvent[]> {
    while (!holds(this.events)) {
      if (this.ended) throw new Error(`ended before it held: ${this.text}`);
      await this.read();
    }
    return this.events;
  }

  async readToEnd(): Promise<SentEvent[]> {
    while (!this.ended) await this.read();
    return this.events;
  }

  async leave(): Promise<void> {
    await this.#reader.cancel();
  }
}

/** The text of a running turn as far as a reader knows it. */
function textOf(events: readonly SentEvent[]): string {
  let text = '';
  for (const { event, data } of events) {
    if (event === 'text') text = String(data.text);
    if (event === 'delta' && data.type === 'text.delta') text += String(data.text);
  }
  return text;
}

async function start(test: TestApp): Promise<string> {
  return ((await (await test.send('POST', '/runs', { input: 'go' })).json()) as RunView).runId;
}

describe('the events of a run', () => {
  test('are its journal entries, each once and in order, then the end', async () => {
    const desk = makeApp({ turns: [DONE] });
    const { runId, seq } = await desk.begin();
    const response = await desk.send('GET', `/runs/${runId}/events`);
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const events = await new Reader(response).readToEnd();
    expect(idsOf(events)).toEqual(countTo(seq));
    expect(events.at(-1)).toEqual({ event: 'end', data: { status: 'finished' } });
    const journal = await desk.store.read(runId);
    expect(events.slice(0, -1).map(({ data }) => data)).toEqual(
      journal.map(({ seq, event }) => ({ ...event, runId, seq })),
    );
  });

  test('begin with the text so far for a client that connects in the middle of a turn', async () => {
    const model = new PacedModel(['Hel', 'lo', 'gate', ', world']);
    const desk = makeApp({ model });
    const runId = await start(desk);
    await model.reached;
    const early = await Reader.open(desk, `/runs/${runId}/events`);
    const [first, second] = await early.readUntil(events => events.length > 1);
    expect(first).toEqual({ event: 'text', data: { turn: 1, attempt: 1, text: 'Hello' } });
    expect(second).toMatchObject({ id: '1', event: 'journal', data: { type: 'run.started' } });
    model.open();
    const events = await early.readToEnd();
    expect(textOf(events)).toBe('Hello, world');
    expect(idsOf(events)).toEqual(countTo((await desk.store.get(runId))?.seq ?? 0));
    const late = await (await Reader.open(desk, `/runs/${runId}/events`)).readToEnd();
    expect(late[0]).toMatchObject({ id: '1' });
  });

  test('are the same for two clients, and for one that reconnects in the middle of a turn', async () => {
    const model = new PacedModel(['Hel', 'lo', 'gate', ', world']);
    const desk = makeApp({ model });
    const runId = await start(desk);
    await model.reached;
    const path = `/runs/${runId}/events`;
    const [one, left] = [await Reader.open(desk, path), await Reader.open(desk, path)];
    for (const reader of [one, left]) await reader.readUntil(events => events.length > 1);
    await left.leave();
    const last = String(idsOf(left.events).at(-1));
    const back = await Reader.open(desk, path, { 'last-event-id': last });
    expect((await back.readUntil(events => events.length > 0))[0]).toEqual({
      event: 'text',
      data: { turn: 1, attempt: 1, text: 'Hello' },
    });
    model.open();
    await Promise.all([one.readToEnd(), back.readToEnd()]);
    for (const { events } of [one, back]) expect(textOf(events)).toBe('Hello, world');
    expect([...idsOf(left.events), ...idsOf(back.events)]).toEqual(idsOf(one.events));
    expect(back.events.at(-1)).toEqual(one.events.at(-1));
  });

  test('show decisions and reasons next to the journal', async () => {
    const desk = makeApp();
    const { runId } = await desk.begin();
    const reader = await Reader.open(desk, `/runs/${runId}/events`);
    await reader.readUntil(events => events.length >= 4);
    await desk.send('POST', `/runs/${runId}/approve`, { callId: 'call_0_0' });
    const decided = (await reader.readToEnd()).filter(({ data }) => data.type === 'decided');
    expect(decided.map(({ event, id }) => [event, id])).toContainEqual(['delta', undefined]);
    expect(decided.map(({ data }) => data.next)).toContainEqual(
      expect.objectContaining({ type: 'callModel' }),
    );
  });

  test.each([
    ['the Last-Event-ID header', '', { 'last-event-id': '3' }],
    ['?after', '?after=3', {}],
    ['the header rather than ?after', '?after=1', { 'last-event-id': '3' }],
  ])('continue after %s', async (_, query, headers) => {
    const desk = makeApp({ turns: [DONE] });
    const { runId, seq } = await desk.begin();
    const events = await (await Reader.open(desk, `/runs/${runId}/events${query}`, headers)).readToEnd();
    expect(idsOf(events)).toEqual(countTo(seq).slice(3));
    expect(events.at(-1)?.event).toBe('end');
  });

  test.each(['x', '-1', '1.5', '99999999999999999999'])(
    'are refused for the invalid position "%s"',
    async place => {
      const desk = makeApp();
      const { runId } = await desk.begin();
      for (const [path, headers] of [
        [`/runs/${runId}/events?after=${place}`, {}],
        [`/runs/${runId}/events`, { 'last-event-id': place }],
      ] as const)
        expect(await errorOf(await desk.send('GET', path, undefined, headers))).toMatchObject({
          status: 400,
          code: 'input-invalid',
        });
    },
  );

  test('stay open while the run rests, with keep-alives', async () => {
    const desk = makeApp({ streamBounds: { keepAliveMs: 10 } });
    const { runId, seq } = await desk.begin();
    const reader = await Reader.open(desk, `/runs/${runId}/events`);
    while (!reader.text.includes(': here\n\n: here\n\n')) await reader.read();
    expect(reader.ended).toBe(false);
    expect(idsOf(reader.events)).toEqual(countTo(seq));
    await reader.leave();
  });

  test('caused by another server on the same store arrive soon', async () => {
    const store = memory();
    const [desk, other] = [makeApp({ store }), makeApp({ store })];
    const { runId } = await desk.begin();
    const reader = await Reader.open(desk, `/runs/${runId}/events`);
    await reader.readUntil(events => events.length >= 4);
    const before = performance.now();
    await other.send('POST', `/runs/${runId}/approve`, { callId: 'call_0_0', by: 'ada' });
    await reader.readUntil(events => events.some(({ data }) => data.type === 'approval.decided'));
    expect(performance.now() - before).toBeLessThan(1_000);
    const events = await reader.readToEnd();
    expect(idsOf(events)).toEqual(countTo((await store.get(runId))?.seq ?? 0));
  });

  test('end with their server, while the run continues', async () => {
    const model = new PacedModel(['Hello', 'gate', '.']);
    const desk = makeApp({ model });
    const runId = await start(desk);
    await model.reached;
    const reader = await Reader.open(desk, `/runs/${runId}/events`);
    await reader.readUntil(events => events.length > 1);
    desk.app.close();
    expect((await reader.readToEnd()).map(({ event }) => event)).not.toContain('end');
    expect(await errorOf(await desk.send('POST', `/runs/${runId}/pause`))).toMatchObject({
      status: 503,
      code: 'shutting-down',
    });
    expect((await desk.store.get(runId))?.status).toBe('running');
    model.open();
  });
});

describe('a client that disconnects', () => {
  test('does not stop the run, and leaves no resources behind', async () => {
    const model = new PacedModel(['Hello', 'gate', '.']);
    const desk = makeApp({ model });
    const runId = await start(desk);
    await model.reached;
    const readers = await Promise.all([1, 2, 3].map(() => Reader.open(desk, `/runs/${runId}/events`)));
    for (const reader of readers) await reader.readUntil(events => events.length > 1);
    for (const reader of readers) await reader.leave();
    model.open();
    expect((await desk.rest(runId)).answer).toBe('Hello.');
    await until(() => (desk.app.countHeld() === 0 ? true : undefined));
  });

  test('from a resting run releases it', async () => {
    const desk = makeApp();
    const { runId } = await desk.begin();
    const reader = await Reader.open(desk, `/runs/${runId}/events`);
    await reader.readUntil(events => events.length >= 4);
    expect(desk.app.countHeld()).toBe(1);
    await reader.leave();
    await until(() => (desk.app.countHeld() === 0 ? true : undefined));
  });

  test('before it reads, or that only sends HEAD, holds nothing', async () => {
    const desk = makeApp();
    const { runId } = await desk.begin();
    await until(() => (desk.app.countHeld() === 0 ? true : undefined));
    expect((await desk.send('HEAD', `/runs/${runId}/events`)).status).toBe(200);
    await (await desk.send('GET', `/runs/${runId}/events`)).body?.cancel();
    expect(desk.app.countHeld()).toBe(0);
  });
});

describe('a slow client', () => {
  const CHUNK = 'x'.repeat(1_000);
  const flood = () => new PacedModel(['begin ', 'gate', ...Array.from({ length: 3_000 }, () => CHUNK)]);

  test('misses deltas but no entry, gets the text so far instead, and buffers no more than its bound', async () => {
    const model = flood();
    const desk = makeApp({ model, streamBounds: { waiting: 20_000, missed: 1e9 } });
    const runId = await start(desk);
    await model.reached;
    const slow = await Reader.open(desk, `/runs/${runId}/events`);
    await slow.readUntil(events => events.length > 1);
    model.open();
    await desk.rest(runId);
    const seen = slow.text.length;
    const events = await slow.readToEnd();
    expect(idsOf(events)).toEqual(countTo((await desk.store.get(runId))?.seq ?? 0));
    expect(events.at(-1)?.event).toBe('end');
    const deltas = events.filter(({ event }) => event === 'delta');
    expect(deltas.length).toBeLessThan(100);
    const completed = events.find(({ data }) => data.type === 'turn.completed');
    expect(slow.text.length - seen).toBeLessThan(2 * JSON.stringify(completed).length + 40_000);
  });

  test('that reads again in the middle of the turn has the complete text', async () => {
    const chunks = Array.from({ length: 200 }, (_, index) => `${index} `.padEnd(1_000, '.'));
    const model = new PacedModel([...chunks.slice(0, 100), 'gate', ...chunks.slice(100)]);
    const desk = makeApp({ model, streamBounds: { waiting: 10_000, missed: 1e9 } });
    const runId = await start(desk);
    const slow = await Reader.open(desk, `/runs/${runId}/events`);
    await slow.read();
    await slow.read();
    await model.reached;
    await slow.readUntil(events => textOf(events).length === 100_000);
    expect(textOf(slow.events)).toBe(chunks.slice(0, 100).join(''));
    model.open();
    const events = await slow.readToEnd();
    expect(idsOf(events)).toEqual(countTo((await desk.store.get(runId))?.seq ?? 0));
  });

  test('is disconnected beyond the larger bound, and the run continues', async () => {
    const model = flood();
    const desk = makeApp({ model, streamBounds: { waiting: 10_000, missed: 100_000 } });
    const runId = await start(desk);
    await model.reached;
    const slow = await Reader.open(desk, `/runs/${runId}/events`);
    const before = await slow.readUntil(events => events.length > 1);
    model.open();
    expect((await desk.rest(runId)).answer).toBe(model.text);
    const events = await slow.readToEnd();
    expect(events.slice(before.length)).toEqual([]);
    const again = await Reader.open(desk, `/runs/${runId}/events?after=${idsOf(events).at(-1)}`);
    const rest = await again.readToEnd();
    expect(idsOf([...events, ...rest])).toEqual(countTo((await desk.store.get(runId))?.seq ?? 0));
    await until(() => (desk.app.countHeld() === 0 ? true : undefined));
  });

  test('gets a long journal completely, in parts no larger than its bound', async () => {
    const desk = makeApp({ turns: [REFUND, DONE], streamBounds: { waiting: 2_000 } });
    const { runId } = await desk.begin();
    for (let count = 0; count < 60; count += 1) {
      await desk.send('POST', `/runs/${runId}/pause`);
      await desk.send('POST', `/runs/${runId}/unpause`);
    }
    const seq = (await desk.store.get(runId))?.seq ?? 0;
    expect(seq).toBeGreaterThan(100);
    const reader = await Reader.open(desk, `/runs/${runId}/events`);
    let largest = 0;
    while (idsOf(reader.events).length < seq) {
      const before = reader.text.length;
      await reader.read();
      largest = Math.max(largest, reader.text.length - before);
    }
    expect(idsOf(reader.events)).toEqual(countTo(seq));
    expect(largest).toBeLessThan(5_000);
    await reader.leave();
  });
});
