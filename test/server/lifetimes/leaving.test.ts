import { afterEach, describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import { responseIdOf } from '../../../server/gateway/answer/wire-ids.ts';
import { tool } from '../../../tools/tool.ts';
import { ClientSocket } from '../../support/responses/client-socket.ts';
import { EventReader, saying } from '../../support/responses/event-reader.ts';
import { GATE, HANG } from '../../support/responses/gated-provider.ts';
import { APIS, ServedGateway } from '../../support/responses/served-gateway.ts';
import { until } from '../../support/server/runs-app.ts';

const LEFT = { type: 'run.cancelled', by: 'responses', reason: 'The client left.' };

let served: ServedGateway;
afterEach(async () => await served.close());

/** A tool that waits for its gate, and says when it has begun. */
function gatedTool() {
  const gate = Promise.withResolvers<string>();
  const begun = Promise.withResolvers<void>();
  let isAborted = false;
  const look = tool({
    name: 'look',
    description: 'Looks.',
    input: z.object({}),
    run: async (_input, { signal }) => {
      signal.addEventListener('abort', () => {
        isAborted = true;
      });
      begun.resolve();
      return await gate.promise;
    },
  });
  return { look, begun: begun.promise, open: () => gate.resolve('seen'), isAborted: () => isAborted };
}

/** The one slot of the server is free: another request is answered. */
async function expectFreeSlot(): Promise<void> {
  served.provider.play(['hi']);
  const status = await until(async () => {
    const { answer } = served.askAs('Messages');
    const { status } = await answer;
    return status === 429 ? undefined : status;
  });
  expect(status).toBe(200);
}

const ONE_SLOT = { limits: { concurrent_runs: 1 } };

describe.each(APIS)('a client of %s that leaves', api => {
  it.each([
    ['in the middle of a stream', true, 'one '],
    ['before its stream has begun', true, GATE],
    ['without a stream', false, GATE],
  ] as const)('ends the model call upstream and the run, %s', async (_where, stream, step) => {
    served = await ServedGateway.open({ config: ONE_SLOT });
    served.provider.play([step, HANG]);
    const { leave, answer } = served.askAs(api, { stream });
    await served.provider.asked();
    if (step !== GATE) await (await answer).body?.getReader().read();
    leave();
    await served.provider.wasLeft();
    expect((await served.ended()).events.at(-1)).toMatchObject(LEFT);
    await expectFreeSlot();
  });

  it('ends the run while it waits to try a model call again', async () => {
    const { look, open } = gatedTool();
    open();
    served = await ServedGateway.open({ config: ONE_SLOT, tools: [look] });
    served.provider.play([{ call: 'look' }], [{ status: 429, headers: { 'retry-after': '600' } }]);
    const { leave } = served.askAs(api, { stream: true });
    await until(async () => {
      const { events } = await served.run().catch(() => ({ events: [] }));
      return events.some(({ type }) => type === 'turn.failed') || undefined;
    });
    leave();
    expect((await served.ended()).events.at(-1)).toMatchObject(LEFT);
    expect(served.provider.requests).toBe(2);
    await expectFreeSlot();
  });

  it.each([true, false])(
    'lets a started tool finish, without a model call after it, with stream: %s',
    async stream => {
      const { look, begun, open, isAborted } = gatedTool();
      served = await ServedGateway.open({ config: ONE_SLOT, tools: [look] });
      served.provider.play([{ call: 'look' }], ['done']);
      const { leave } = served.askAs(api, { stream });
      await begun;
      leave();
      const id = responseIdOf((await served.run()).runId, 1);
      await until(() => served.gateway.service.live.find(id)?.isLeft || undefined);
      expect(isAborted()).toBe(false);
      open();
      const { events } = await served.ended();
      expect(events.slice(-2)).toMatchObject([{ type: 'tool.settled', output: 'seen' }, LEFT]);
      expect(served.provider.requests).toBe(1);
      await expectFreeSlot();
    },
  );

  it.each([true, false])(
    'begins nothing while its tools are being connected, with stream: %s',
    async stream => {
      let connecting = 0;
      const never = {
        connect: () => {
          connecting += 1;
          return new Promise<never>(() => {});
        },
        close: async () => {},
      };
      served = await ServedGateway.open({ config: ONE_SLOT, tools: [never] });
      const { leave } = served.askAs(api, { stream });
      await until(() => connecting === 1 || undefined);
      leave();
      // The slot is free once another request comes as far as this one.
      await until(async () => {
        const { answer } = served.askAs(api);
        return await Promise.race([answer.then(() => undefined), until(() => connecting === 2 || undefined)]);
      });
      expect([await served.countRuns(), served.provider.requests]).toEqual([0, 0]);
    },
  );

  it('leaves a run that rests waiting for its results', async () => {
    served = await ServedGateway.open();
    served.provider.play([{ call: 'ask' }]);
    const parameters = { type: 'object', properties: {} };
    const tools = {
      Messages: [{ name: 'ask', input_schema: parameters }],
      'Chat Completions': [{ type: 'function', function: { name: 'ask', parameters } }],
      'Responses with store: false': [{ type: 'function', name: 'ask', parameters, strict: false }],
    }[api];
    const { answer, leave } = served.askAs(api, { stream: true, tools });
    await (await answer).text();
    leave();
    expect((await served.run()).status).toBe('waiting');
  });
});

describe('a response outside any store', () => {
  const open = async () => {
    served = await ServedGateway.open({
      config: { ...ONE_SLOT, keep_unstored: false, models: { talk: 'openai-chat:any' } },
    });
    vi.stubEnv('OPENAI_BASE_URL', served.provider.url);
    vi.stubEnv('OPENAI_API_KEY', 'sk-test');
  };
  const ask = (stream: boolean) => served.askAs('Responses with store: false', { model: 'talk', stream });

  it.each([
    ['in the middle of a stream', true, 'one '],
    ['before its stream has begun', true, GATE],
    ['without a stream', false, GATE],
  ] as const)('ends its model call when its client leaves, %s', async (_where, stream, step) => {
    await open();
    served.provider.play([step, HANG]);
    const { leave, answer } = ask(stream);
    await served.provider.asked();
    if (step !== GATE) await (await answer).body?.getReader().read();
    leave();
    await served.provider.wasLeft();
    expect((await served.store.list()).runs).toEqual([]);
    await expectFreeSlot();
  });

  it.each([true, false])('is broken off when the server stops, with stream: %s', async stream => {
    await open();
    served.provider.play(stream ? ['one ', HANG] : [GATE, HANG]);
    const { answer } = ask(stream);
    if (stream) await answer;
    await served.provider.asked();
    served.gateway.service.live.close();
    await served.provider.wasLeft();
    expect(await (await answer).text()).toContain('shutting_down');
    expect((await served.store.list()).runs).toEqual([]);
  });

  it('is no run of the store, and leaves its slot', async () => {
    await open();
    for (const stream of [true, false]) {
      served.provider.play(['one ', 'two']);
      expect(await (await ask(stream).answer).text()).toContain('one two');
    }
    expect((await served.store.list()).runs).toEqual([]);
  });
});

describe.each(['stored', 'background'])('a client of a %s response that leaves', kind => {
  it('stops nothing', async () => {
    served = await ServedGateway.open();
    served.provider.play(['one ', GATE, 'two']);
    const body = { model: 'desk', input: 'go', stream: true, background: kind === 'background' };
    const { answer, leave } = served.ask('/v1/responses', body);
    await (await answer).body?.getReader().read();
    await served.provider.asked();
    leave();
    served.provider.open();
    expect(await served.ended()).toMatchObject({ status: 'finished' });
    expect(served.provider.left).toBe(0);
  });
});

describe('requests with the same Idempotency-Key', () => {
  const KEY = { 'idempotency-key': 'once' };
  const API = 'Responses with store: false';

  it('share an answer that ends with the last of their connections', async () => {
    served = await ServedGateway.open();
    served.provider.play(['one ', GATE, 'two']);
    const first = served.askAs(API, { stream: true }, KEY);
    await (await first.answer).body?.getReader().read();
    const second = new EventReader(await served.askAs(API, { stream: true }, KEY).answer);
    await second.until(saying('one '));
    first.leave();
    await until(() => served.answered.length === 1 || undefined);
    served.provider.open();
    await second.untilEnd();
    expect(second.events.at(-1)).toMatchObject({ type: 'response.completed' });
    expect([served.provider.requests, await served.countRuns()]).toEqual([1, 1]);
  });

  it('begin anew after all of them have left', async () => {
    served = await ServedGateway.open();
    served.provider.play(['one ', HANG], ['two']);
    const first = served.askAs(API, { stream: true }, KEY);
    await (await first.answer).body?.getReader().read();
    first.leave();
    await served.provider.wasLeft();
    const again = await served.askAs(API, {}, KEY).answer;
    expect(JSON.stringify(await again.json())).toContain('two');
  });
});

describe('a WebSocket that is closed', () => {
  it.each([
    [false, 'ends'],
    [true, 'does not end'],
  ])('with store: %s %s its request', async store => {
    served = await ServedGateway.open();
    served.provider.play(['one ', GATE, 'two']);
    const socket = await ClientSocket.open(`${served.url}/v1/responses`);
    socket.send(JSON.stringify({ type: 'response.create', model: 'desk', input: 'go', store }));
    await socket.next();
    await served.provider.asked();
    socket.close();
    if (store) served.provider.open();
    else await served.provider.wasLeft();
    expect((await served.ended()).status).toBe(store ? 'finished' : 'cancelled');
  });
});

describe('a server that stops', () => {
  it.each(APIS)('ends the requests of %s', async api => {
    served = await ServedGateway.open();
    served.provider.play(['one ', HANG]);
    const { answer } = served.askAs(api, { stream: true });
    await (await answer).body?.getReader().read();
    await served.provider.asked();
    served.gateway.service.live.close();
    await served.provider.wasLeft();
    expect((await served.ended()).events.at(-1)).toMatchObject({
      ...LEFT,
      reason: expect.stringContaining('stopped'),
    });
  });
});
