import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, clientTool, eventsOf, makeTool, resultsIn } from '../../support/engine/agents.ts';
import { recordRequests } from '../../support/engine/models.ts';

function makeRefunds() {
  const store = memory();
  const host = new ManualHost();
  const paid: unknown[] = [];
  const { model, requests } = recordRequests(
    scripted([
      calls(['refund', { cents: 500 }]),
      calls(['refund', { cents: 100 }], 'show'),
      { text: 'done' },
    ]),
  );
  const refund = tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ cents: z.number().int().positive() }),
    approval: true,
    run: input => {
      paid.push(input);
      if (input.cents === 13) throw new Error('unlucky');
      return 'paid';
    },
  });
  const agent = createAgent({ name: 'a', host, store, model, tools: [refund, clientTool('show')] });
  return { agent, store, host, paid, requests };
}

describe('an approval', () => {
  test.each([undefined, null, 42, {}])(
    'of %j is input-invalid, and so are the other decisions',
    async nothing => {
      const { agent } = makeRefunds();
      const run = await agent.start('go');
      await run.settled();
      const call = nothing as unknown as string;
      for (const decide of [
        () => run.approve(call),
        () => run.reject(call),
        () => run.answer(call, { output: 1 }),
        () => run.resolve(call, { retry: true }),
        () => run.editCall(call, { input: {} }),
      ])
        await expect(decide()).rejects.toMatchObject({ code: 'input-invalid' });
    },
  );

  test('with an input that JSON cannot represent is refused, and so is such an answer', async () => {
    const { agent } = makeRefunds();
    const run = await agent.start('go');
    await run.settled();
    const refused = { accepted: false, code: 'input-invalid' };
    expect(await run.approve('call_0_0', { input: { cents: 5n } })).toMatchObject(refused);
    expect(await run.answer('call_0_0', { output: new Map() })).toMatchObject(refused);
    expect(await run.settled()).toMatchObject({ status: 'waiting', approvals: [{ callId: 'call_0_0' }] });
  });

  test('answered with an error has an error as its result', async () => {
    const { agent, host } = makeRefunds();
    const run = await agent.start('go');
    await run.settled();
    expect(await run.answer('call_0_0', { output: 'the desk is closed', isError: true })).toEqual({
      accepted: true,
    });
    await host.settle(run.settled());
    expect(run.context.transcript).toContainEqual(
      expect.objectContaining({ callId: 'call_0_0', output: 'the desk is closed', isError: true }),
    );
  });

  test('with an edited input runs that input, and the model reads about the edit', async () => {
    const { agent, store, paid, requests, host } = makeRefunds();
    const run = await agent.start('go');
    await run.settled();
    expect(await run.approve('call_0_0', { input: { cents: 300 }, by: 'ann' })).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(paid).toEqual([{ cents: 300 }]);
    const shown = resultsIn(requests[1]?.transcript ?? []).call_0_0;
    expect(shown).toBe('[A person changed the input to {"cents":300}.]\npaid');
    const decided = (await eventsOf(store, run.id)).find(({ type }) => type === 'approval.decided');
    expect(decided).toMatchObject({ decision: { type: 'approve', input: { cents: 300 } }, by: 'ann' });
  });

  test('with an edited input that fails shows the model the edit and the error', async () => {
    const { agent, requests, host } = makeRefunds();
    const run = await agent.start('go');
    await run.settled();
    await run.approve('call_0_0', { input: { cents: 13 } });
    await host.settle(run.settled());
    expect(resultsIn(requests[1]?.transcript ?? []).call_0_0).toBe(
      '[A person changed the input to {"cents":13}.]\nunlucky',
    );
  });

  test.each([{ cents: -1 }, { cents: 'many' }, {}, [], null])(
    'with an invalid input is refused, and the call stays open: %j',
    async input => {
      const { agent, paid } = makeRefunds();
      const run = await agent.start('go');
      const waiting = await run.settled();
      expect(await run.approve('call_0_0', { input })).toMatchObject({
        accepted: false,
        code: 'input-invalid',
      });
      expect(await run.settled()).toEqual(waiting);
      expect(paid).toEqual([]);
    },
  );

  test('with an edited input is refused when the agent lacks the tool to validate it', async () => {
    const { agent, store, host } = makeRefunds();
    const run = await agent.start('go');
    await run.settled();
    const other = createAgent({ name: 'a', host, store, model: scripted([{ text: 'x' }]) });
    const opened = await other.open(run.id);
    expect(await opened.approve('call_0_0', { input: { cents: 1 } })).toMatchObject({
      code: 'input-invalid',
    });
    expect((await run.settled()).status).toBe('waiting');
  });

  test('that is sticky covers later calls of the tool', async () => {
    const { agent, paid, host } = makeRefunds();
    const run = await agent.start('go');
    await run.settled();
    await run.approve('call_0_0', { sticky: true });
    const settled = await host.settle(run.settled());
    expect(settled).toMatchObject({ status: 'waiting', open: [{ kind: 'result', callId: 'call_1_1' }] });
    expect(paid).toEqual([{ cents: 500 }, { cents: 100 }]);
  });

  test('that is a sticky rejection refuses later calls, each with the reason', async () => {
    const { agent, paid, host, requests } = makeRefunds();
    const run = await agent.start('go');
    await run.settled();
    await run.reject('call_0_0', { reason: 'not today', sticky: true });
    await host.settle(run.settled());
    await run.answer('call_1_1', { output: 'seen' });
    await host.settle(run.settled());
    expect(paid).toEqual([]);
    const results = resultsIn(requests.at(-1)?.transcript ?? []);
    expect(results.call_0_0).toBe('Not run: the call was rejected: not today');
    expect(results.call_1_0).toBe('Not run: the call was rejected: not today');
  });

  test('may be an answer, which the model reads as the result', async () => {
    const { agent, paid, requests, host } = makeRefunds();
    const run = await agent.start('go');
    await run.settled();
    expect(await run.answer('call_0_0', { output: { already: 'paid' } })).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(paid).toEqual([]);
    expect(resultsIn(requests[1]?.transcript ?? []).call_0_0).toEqual({ already: 'paid' });
  });

  test('keeps a message waiting until it is decided, by default; or is superseded by it', async () => {
    for (const onMessage of ['supersede', undefined] as const) {
      const { agent, requests, host } = makeRefunds();
      const other = createAgent({ ...agent.options, ...omitUndefined({ onMessage }) });
      const run = await other.start('go');
      await run.settled();
      await run.send('Wait, what?');
      const settled = await host.settle(run.settled());
      if (onMessage === 'supersede') {
        expect(resultsIn(requests[1]?.transcript ?? []).call_0_0).toContain('superseded by a new message');
        continue;
      }
      expect(settled).toMatchObject({ approvals: [{ callId: 'call_0_0' }] });
      await run.approve('call_0_0');
      await host.settle(run.settled());
      expect(requests[1]?.transcript.map(({ type }) => type)).toEqual([
        ...['message', 'tool_call', 'tool_result', 'message'],
      ]);
    }
  });

  test('is required when the predicate throws, with the error as the reason', async () => {
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      model: scripted([calls('act'), { text: 'done' }]),
      tools: [
        makeTool('act', {
          approval: () => {
            throw new Error('no rules');
          },
        }),
      ],
    });
    expect(await agent.run('go')).toMatchObject({
      approvals: [{ reason: expect.stringContaining('no rules') }],
    });
  });
});

describe('a call that the client runs', () => {
  test('gets a result or an error, once', async () => {
    const { requests, ...rest } = recordRequests(scripted([calls('show', 'show'), { text: 'done' }]));
    const host = new ManualHost();
    const agent = createAgent({ name: 'a', host, model: rest.model, tools: [clientTool('show')] });
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({ open: [{ callId: 'call_0_0' }, { callId: 'call_0_1' }] });
    expect(await run.answer('call_0_0', { output: { ok: true }, by: 'web' })).toEqual({ accepted: true });
    expect(await run.answer('call_0_0', { output: 2, by: 'app' })).toMatchObject({
      code: 'already-decided',
      by: 'web',
    });
    expect(await run.answer('call_0_1', { output: 'broken', isError: true })).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(resultsIn(requests[1]?.transcript ?? [])).toEqual({ call_0_0: { ok: true }, call_0_1: 'broken' });
  });

  test('that is also gated is approved first, and then waits for its result', async () => {
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('show'), { text: 'done' }]),
      tools: [clientTool('show', { approval: true })],
    });
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({ open: [{ kind: 'approval', callId: 'call_0_0' }] });
    await run.approve('call_0_0');
    expect(await run.settled()).toMatchObject({ open: [{ kind: 'result', callId: 'call_0_0' }] });
    await run.answer('call_0_0', { output: 'shown' });
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: 'shown' }],
    });
  });
});
