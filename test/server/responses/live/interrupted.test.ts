import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Desk } from '../../../support/cli/desk.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { ClientSocket } from '../../../support/responses/client-socket.ts';
import { EventReader, idOf, saying } from '../../../support/responses/event-reader.ts';
import { GatedProvider, HANG } from '../../../support/responses/gated-provider.ts';
import { endOf, type Resource } from '../../../support/responses/gateway.ts';
import { ServedDesk } from '../../../support/server/served-desk.ts';

let provider: GatedProvider;
let desk: Desk;
let served: ServedDesk;

beforeAll(async () => {
  provider = await GatedProvider.listen();
  desk = new Desk([], {
    AGENTCHART_MODEL: 'openai-chat:any',
    OPENAI_BASE_URL: provider.url,
    OPENAI_API_KEY: 'sk-test',
  });
  served = await start();
});
afterAll(async () => {
  await served.stop();
  await provider.close();
});

const ASK = { model: 'any', input: 'go' };
const BACKGROUND = { ...ASK, background: true, stream: true };

async function start(): Promise<ServedDesk> {
  return await ServedDesk.start(desk, { args: [] }, {});
}

async function open(body: object): Promise<EventReader> {
  const reader = new EventReader(await served.post('/v1/responses', body));
  await reader.until(saying('one '));
  return reader;
}

async function get(id: string): Promise<Resource> {
  return (await (await fetch(`${served.url}/v1/responses/${id}`)).json()) as Resource;
}

async function completed(id: string): Promise<Resource> {
  await expect.poll(async () => (await get(id)).status).toBe('completed');
  return await get(id);
}

describe('a server that is asked to stop', () => {
  it('ends its streams with an error that names the reason, and the next one continues with the responses', async () => {
    const hanging = ['one ', HANG];
    provider.play(hanging, hanging, hanging, hanging, ['alpha ', 'beta']);
    const background = await open(BACKGROUND);
    const foreground = await open({ ...ASK, stream: true });
    const waiting = served.post('/v1/responses', ASK);
    await expect.poll(() => provider.requests).toBe(3);
    const socket = await ClientSocket.open(`${served.url}/v1/responses`);
    const onSocket = socket.create(ASK);
    await expect.poll(() => provider.requests).toBe(4);
    const ended = served.stop();
    for (const reader of [background, foreground]) {
      await reader.untilEnd();
      const seen = reader.events.at(-2)?.sequence_number ?? Number.NaN;
      expect(reader.events.at(-1)).toMatchObject({
        type: 'error',
        sequence_number: seen + 1,
        code: 'shutting_down',
        error: { type: 'server_error', code: 'shutting_down' },
      });
      expect(reader.isDone).toBe(true);
    }
    const refused = await waiting;
    expect([refused.status, refused.headers.get('x-should-retry')]).toEqual([503, 'false']);
    expect((await onSocket).at(-1)).toMatchObject({
      type: 'error',
      status: 503,
      error: { code: 'shutting_down' },
    });
    expect(await socket.closed).toBe(1001);
    expect((await ended).code).toBe(0);
    served = await start();
    for (const { events } of [background, foreground]) {
      const { output } = await completed(idOf(events[0]));
      expect(output).toMatchObject([{ status: 'completed', content: [{ text: 'alpha beta' }] }]);
    }
  });
});

describe('a server that is killed in the middle of a stream and of responses in the background', () => {
  it('continues the responses in the next one, where a client gets all of a stream again with higher numbers', async () => {
    const hanging = ['one ', HANG];
    provider.play(hanging, hanging, hanging, ['alpha ', 'beta']);
    const reader = await open(BACKGROUND);
    const foreground = await open({ ...ASK, stream: true });
    const polled = await served.post('/v1/responses', { ...ASK, background: true });
    const others = [idOf(foreground.events[0]), ((await polled.json()) as Resource).id];
    await expect.poll(() => provider.requests).toBe(3);
    const id = idOf(reader.events[0]);
    const seen = reader.events.at(-1)?.sequence_number ?? 0;
    await served.stop('SIGKILL');
    served = await start();
    const url = `${served.url}/v1/responses/${id}?stream=true&starting_after=${seen}`;
    const again = new EventReader(await fetch(url));
    await again.untilEnd();
    expect(again.events[0]).toMatchObject({ type: 'response.created', response: { id } });
    expect(again.events[0]?.sequence_number).toBeGreaterThan(seen);
    expect(addUp(again.events, 1_000_000)).toEqual(endOf(again.events).output);
    expect(endOf(again.events)).toEqual(await get(id));
    expect(endOf(again.events).output).toMatchObject([{ content: [{ text: 'alpha beta' }] }]);
    const client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: 'unused' });
    const helper = client.responses.stream({ response_id: id, starting_after: seen });
    let text = '';
    helper.on('response.output_text.delta', ({ delta }) => {
      text += delta;
    });
    expect((await helper.finalResponse()).output_text).toBe('alpha beta');
    expect(text).toBe('alpha beta');
    for (const other of others)
      expect((await completed(other)).output).toMatchObject([{ content: [{ text: 'alpha beta' }] }]);
  });
});
