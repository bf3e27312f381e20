import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { addUp } from '../../../support/responses/add-up.ts';
import { EventReader, idOf, saying } from '../../../support/responses/event-reader.ts';
import { GATE, GatedProvider } from '../../../support/responses/gated-provider.ts';
import { endOf, Gateway, typesOf } from '../../../support/responses/gateway.ts';

let provider: GatedProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await GatedProvider.listen();
  gateway = new Gateway({ hello: [{ text: 'Hello.' }] }, { model: 'openai-chat:any' });
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
});
afterAll(async () => {
  await gateway.close();
  await provider.close();
});

const ASK = { model: 'any', input: 'go', stream: true };

async function ask(body: object = {}): Promise<EventReader> {
  return new EventReader(await gateway.send('POST', '', { ...ASK, ...body }));
}

async function again(id: string, query = '', from = gateway): Promise<EventReader> {
  return new EventReader(await from.send('GET', `/${id}?stream=true${query}`));
}

/** A gateway of another process: it has the runs, and none of the streams. */
async function elsewhere<Result>(use: (other: Gateway) => Promise<Result>): Promise<Result> {
  const other = new Gateway({}, { store: gateway.store, model: 'openai-chat:any' });
  try {
    return await use(other);
  } finally {
    await other.close();
  }
}

describe('a response in progress that is streamed again', () => {
  it('gives every reader the same events with the same numbers', async () => {
    provider.play(['one ', 'two ', GATE, 'three']);
    const first = await ask();
    const [created] = await first.until(saying('two '));
    const id = idOf(created);
    const second = await again(id);
    const third = await again(id, '&starting_after=3');
    await second.until(saying('two '));
    await third.until(saying('two '));
    provider.open();
    await Promise.all([first.untilEnd(), second.untilEnd(), third.untilEnd()]);
    expect(second.events).toEqual(first.events);
    expect(third.events).toEqual(first.events.slice(4));
    expect(addUp(first.events)).toEqual(endOf(first.events).output);
    expect([first.isDone, second.isDone, third.isDone]).toEqual([true, true, true]);
  });

  it('continues after the last event that a client saw whose connection broke', async () => {
    provider.play(['one ', GATE, 'two ', 'three']);
    const first = await ask();
    await first.until(saying('one '));
    const seen = first.events.at(-1)?.sequence_number ?? -1;
    const id = idOf(first.events[0]);
    await first.leave();
    provider.open();
    const second = await again(id, `&starting_after=${seen}`);
    await second.untilEnd();
    const events = [...first.events, ...second.events];
    expect(addUp(events)).toEqual(endOf(events).output);
    expect(endOf(events).output).toEqual((await gateway.get(id)).output);
    expect((await gateway.get(id)).status).toBe('completed');
  });

  it('is followed by another process from its journal', async () => {
    provider.play(['one ', 'two ', GATE, 'three']);
    const first = await ask();
    const [created] = await first.until(saying('one '));
    const id = idOf(created);
    await elsewhere(async other => {
      const second = await again(id, '&starting_after=4', other);
      expect(typesOf(await second.until(({ type }) => type === 'response.in_progress'))).toEqual([
        'response.created',
        'response.in_progress',
      ]);
      provider.open();
      await second.untilEnd();
      expect(addUp(second.events, 1_000_000)).toEqual((await gateway.get(id)).output);
      const third = await again(id, '&starting_after=1000004', other);
      await third.untilEnd();
      expect(third.events).toEqual(second.events.slice(5));
    });
    await first.untilEnd();
  });
});

describe('a response that has ended and is streamed again', () => {
  it('has the events that were streamed', async () => {
    provider.play(['one ', 'two']);
    const first = await ask();
    await first.untilEnd();
    const { id } = endOf(first.events);
    const second = await again(id, '&starting_after=4');
    await second.untilEnd();
    expect(second.events).toEqual(first.events.slice(5));
    const last = first.events.length - 1;
    expect(await (await again(id, `&starting_after=${last}`)).untilEnd()).toEqual([]);
  });

  it('has the events of its journal where nothing of the stream is left', async () => {
    provider.play(['one ', 'two']);
    const first = await ask();
    await first.untilEnd();
    const { id, output } = endOf(first.events);
    await elsewhere(async other => {
      const second = await again(id, '&starting_after=4', other);
      await second.untilEnd();
      expect(addUp(second.events, 1_000_000)).toEqual(output);
    });
  });

  it('has numbers from 0 if no reader can know others', async () => {
    const { id, output } = await gateway.create({ model: 'hello', input: 'x' });
    const here = await (await again(id)).untilEnd();
    expect(addUp(here)).toEqual(output);
    await elsewhere(async other => {
      expect(addUp(await (await again(id, '', other)).untilEnd())).toEqual(output);
    });
  });
});

describe('a request to stream again', () => {
  it('is refused for a number that is none, and for a response that there is not', async () => {
    const { id } = await gateway.create({ model: 'hello', input: 'x' });
    for (const number of ['-1', 'x', '1.5', '']) {
      const response = await gateway.send('GET', `/${id}?stream=true&starting_after=${number}`);
      expect([number, response.status]).toEqual([number, 400]);
      expect(await response.json()).toMatchObject({ error: { param: 'starting_after' } });
    }
    expect((await gateway.send('GET', '/resp_none?stream=true')).status).toBe(404);
    await gateway.send('DELETE', `/${id}`);
    expect((await gateway.send('GET', `/${id}?stream=true`)).status).toBe(404);
  });
});

describe('the openai client', () => {
  it('streams a response again from where it was, and from the start', async () => {
    provider.play(['one ', GATE, 'two']);
    const client = gateway.client();
    const numbers: number[] = [];
    let id = '';
    for await (const event of await client.responses.create({ ...ASK, stream: true, background: true })) {
      numbers.push(event.sequence_number);
      if (event.type === 'response.created') id = event.response.id;
      if (event.type === 'response.output_text.delta') break;
    }
    provider.open();
    let text = 'one ';
    const starting_after = numbers.at(-1) ?? 0;
    for await (const event of await client.responses.retrieve(id, { stream: true, starting_after })) {
      numbers.push(event.sequence_number);
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    expect(text).toBe('one two');
    expect(numbers).toEqual(numbers.map((_number, at) => at));
    const helper = client.responses.stream({ response_id: id, starting_after });
    const heard: number[] = [];
    helper.on('event', event => heard.push(event.sequence_number));
    expect((await helper.finalResponse()).output_text).toBe('one two');
    expect(heard).toEqual(numbers.slice(starting_after + 1));
  });

  it('loses no text with its helper when the stream is gone: all events come again, with higher numbers', async () => {
    provider.play(['one ', 'two']);
    const first = await ask({ background: true });
    await first.untilEnd();
    const { id } = endOf(first.events);
    await elsewhere(async other => {
      const helper = other.client().responses.stream({ response_id: id, starting_after: 5 });
      let text = '';
      helper.on('response.output_text.delta', ({ delta }) => {
        text += delta;
      });
      expect((await helper.finalResponse()).output_text).toBe('one two');
      expect(text).toBe('one two');
    });
  });
});
