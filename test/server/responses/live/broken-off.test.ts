import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { EngineError } from '../../../../protocol/error.ts';
import type { Store } from '../../../../protocol/store.ts';
import { testOwner } from '../../../../stores/conformance/check.ts';
import { memory } from '../../../../stores/memory.ts';
import { EventReader, idOf, saying } from '../../../support/responses/event-reader.ts';
import { GATE, GatedProvider, HANG } from '../../../support/responses/gated-provider.ts';
import { fastHost, Gateway, runOf, typesOf } from '../../../support/responses/gateway.ts';

let provider: GatedProvider;
let store: Store;
let gateway: Gateway;
/** What the store throws instead of appending or releasing a lease. */
let broken: { append?: EngineError; release?: EngineError } = {};

beforeAll(async () => {
  provider = await GatedProvider.listen();
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
  broken = {};
  const inner = memory();
  store = {
    ...inner,
    append: async (...args: Parameters<Store['append']>) => {
      if (broken.append !== undefined) throw broken.append;
      return await inner.append(...args);
    },
    release: async (...args: Parameters<Store['release']>) => {
      if (broken.release !== undefined) throw broken.release;
      await inner.release(...args);
    },
  };
  gateway = new Gateway({}, { host: fastHost, store });
});
afterEach(async () => await gateway.close());
afterAll(async () => await provider.close());

const ASK = { model: 'openai-chat:any', input: 'go' };
const AWAY = new EngineError('store-unavailable', '/srv/runs.db cannot be written.');

async function open(body: object = {}): Promise<EventReader> {
  const reader = new EventReader(await gateway.send('POST', '', { ...ASK, ...body, stream: true }));
  await reader.until(saying('one '));
  return reader;
}

describe('a stream whose server cannot go on with the run', () => {
  it('breaks off without a terminal event, names the response, and the run continues', async () => {
    provider.play(['one ', GATE, 'two']);
    const reader = await open();
    const id = idOf(reader.events[0]);
    broken.append = AWAY;
    provider.open();
    await reader.untilEnd();
    const last = reader.events.at(-1);
    expect(last).toMatchObject({ type: 'error', code: 'store_unavailable' });
    expect(last?.message).toContain(`GET /v1/responses/${id}`);
    expect(last?.message).not.toContain('/srv');
    expect(typesOf(reader.events).filter(type => /failed|completed$/.test(type))).toEqual([]);
    expect((await gateway.get(id)).status).toBe('in_progress');
    broken = {};
    await gateway.app.pickUp();
    await expect.poll(async () => (await gateway.get(id)).status).toBe('completed');
  });

  it('breaks off in the same way when its client is gone, and nothing cancels the run', async () => {
    provider.play(['one ', GATE, 'two']);
    const reader = await open();
    const id = idOf(reader.events[0]);
    await reader.leave();
    broken.append = AWAY;
    provider.open();
    await expect.poll(() => gateway.log.join()).toContain('cannot be written');
    broken = {};
    await gateway.app.pickUp();
    await expect.poll(async () => (await gateway.get(id)).status).toBe('completed');
  });

  it('ends as completed if only what follows the end of the run has failed', async () => {
    provider.play(['one ', GATE, 'two']);
    const reader = await open();
    broken.release = AWAY;
    provider.open();
    await reader.untilEnd();
    expect(reader.events.at(-1)).toMatchObject({ type: 'response.completed' });
  });

  it('goes on if another process has taken over the run', async () => {
    provider.play(['one ', GATE, 'two']);
    const reader = await open();
    const id = idOf(reader.events[0]);
    const claim = { owner: testOwner('other'), leaseMs: 1, now: fastHost.now(), isDead: () => true };
    expect(await store.claim(runOf({ id }), claim)).toMatchObject({ type: 'claimed' });
    provider.open();
    await reader.untilEnd();
    expect(reader.events.at(-1)).toMatchObject({ type: 'response.completed', response: { id } });
    expect((await gateway.get(id)).output).toMatchObject([{ content: [{ text: 'one two' }] }]);
  });
});

describe('a stream whose server shuts down', () => {
  it('says where to find a stored response', async () => {
    provider.play(['one ', HANG]);
    const reader = await open();
    gateway.service.live.close();
    await reader.untilEnd();
    expect(reader.events.at(-1)).toMatchObject({ type: 'error', code: 'shutting_down' });
    expect(reader.events.at(-1)?.message).toContain(`GET /v1/responses/${idOf(reader.events[0])}`);
  });

  it('says that nothing of an unstored response continues', async () => {
    provider.play(['one ', HANG]);
    const reader = await open({ store: false });
    gateway.service.live.close();
    await reader.untilEnd();
    expect(reader.events.at(-1)).toMatchObject({ type: 'error', code: 'shutting_down' });
    expect(reader.events.at(-1)?.message).toContain('nothing of it continues');
  });
});
