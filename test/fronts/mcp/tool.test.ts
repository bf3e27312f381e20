import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { memory } from '../../../stores/memory.ts';
import { closeAfterTests } from '../../support/fronts/close-after-tests.ts';
import { DONE, earlierClient, makeDesk, mcpServer, textOf } from '../../support/fronts/mcp.ts';

const used = closeAfterTests();

const input = { input: 'Refund A-1' };

describe('an agent as a tool', () => {
  it('returns the output of its schema as structured content', async () => {
    const output = z.object({ city: z.string(), population: z.number() });
    const agent = makeDesk([{ text: '{"city":"Paris","population":2}' }], [], { output });
    const client = used(await earlierClient(used(mcpServer([agent]))));

    expect((await client.listTools()).tools[0]?.outputSchema).toMatchObject({
      required: ['city', 'population'],
    });
    expect(await client.callTool({ name: 'desk', arguments: input })).toMatchObject({
      structuredContent: { city: 'Paris', population: 2 },
    });
  });

  it('is one tool of several, one for each agent', async () => {
    const store = memory();
    const [desk, clerk] = ['Done by the desk.', 'Done by the clerk.'].map((text, index) =>
      createAgent({ name: ['desk', 'clerk'][index] ?? '', model: scripted([{ text }]), store }),
    );
    if (desk === undefined || clerk === undefined) throw new Error('Two agents expected.');
    const client = used(await earlierClient(used(mcpServer([desk, clerk]))));
    expect((await client.listTools()).tools.map(({ name }) => name).sort()).toEqual(['clerk', 'desk']);
    expect(textOf(await client.callTool({ name: 'clerk', arguments: input }))).toBe('Done by the clerk.');
    expect(textOf(await client.callTool({ name: 'desk', arguments: input }))).toBe('Done by the desk.');
  });

  it('has the description of the agent', async () => {
    const described = makeDesk([DONE], [], { description: 'Refunds orders.' });
    const plain = makeDesk([DONE], [], { name: 'plain', store: described.store });
    const client = used(await earlierClient(used(mcpServer([described, plain]))));
    expect((await client.listTools()).tools.map(({ description }) => description)).toEqual([
      'Refunds orders.',
      'Gives a task to the agent "plain" and returns its answer.',
    ]);
    expect(() => makeDesk([DONE], [], { description: '' })).toThrow('description');
  });

  it('returns at most a megabyte of an answer', async () => {
    const long = makeDesk([{ text: 'ä'.repeat(700_000) }]);
    const client = used(await earlierClient(used(mcpServer([long]))));
    const text = textOf(await client.callTool({ name: 'desk', arguments: input }));
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(1024 * 1024 + 200);
    expect(text.startsWith('äää')).toBe(true);
  });

  it('with a run context takes it as an argument', async () => {
    const agent = createAgent({
      name: 'greeter of all',
      model: scripted([{ text: 'Hello.' }]),
      runContext: z.object({ user: z.string() }),
    });
    const server = used(mcpServer([agent]));
    const client = used(await earlierClient(server));

    const call = (given: object) =>
      client.callTool({ name: 'greeter_of_all', arguments: { ...input, ...given } });
    expect(textOf(await call({ runContext: { user: 'ada' } }))).toBe('Hello.');
    expect(await call({ runContext: { user: 7 } })).toMatchObject({ isError: true });
    expect(textOf(await call({}))).toContain('runContext');
    expect(textOf(await call({ runContext: { user: 'ada' }, more: 1 }))).toContain('more');
  });

  it('with a run context that is no object takes any JSON for it', async () => {
    const agent = createAgent({
      name: 'desk',
      model: scripted([{ text: 'Hello.' }]),
      runContext: z.string(),
    });
    const client = used(await earlierClient(used(mcpServer([agent]))));
    const result = await client.callTool({ name: 'desk', arguments: { ...input, runContext: 'ada' } });
    expect(textOf(result)).toBe('Hello.');
  });

  it('says why its run failed', async () => {
    const agent = makeDesk([{ error: { code: 'authentication', message: 'wrong key' } } as never]);
    const client = used(await earlierClient(used(mcpServer([agent]))));

    const result = await client.callTool({ name: 'desk', arguments: input });

    expect(result.isError).toBe(true);
    expect(textOf(result)).toContain('wrong key');
  });
});

describe('the server', () => {
  it('refuses foreign hosts and origins, and bodies that are not JSON, in the envelope of JSON-RPC', async () => {
    const server = used(mcpServer([makeDesk([DONE])]));
    const post = (headers: Record<string, string>, body = '{}') =>
      server.send(server.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body,
      });

    for (const [response, status, code] of [
      [await post({ host: 'evil.example' }), 403, -32600],
      [await post({ origin: 'https://evil.example' }), 403, -32600],
      [await post({}, '{'), 400, -32700],
      [await post({ 'content-type': 'text/plain' }), 415, -32600],
    ] as const) {
      expect(response.status).toBe(status);
      expect(await response.json()).toMatchObject({ jsonrpc: '2.0', id: null, error: { code } });
    }
  });
});
