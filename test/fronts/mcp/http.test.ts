import { describe, expect, it } from 'vitest';
import { closeAfterTests } from '../../support/fronts/close-after-tests.ts';
import {
  ASK,
  callDesk,
  currentClient,
  DONE,
  earlierClient,
  type Form,
  type Ledger,
  makeDesk,
  makeOffice,
  mcpServer,
  REFUND,
  textOf,
} from '../../support/fronts/mcp.ts';

const used = closeAfterTests();

const input = { input: 'Refund A-1' };

describe('a client of revision 2025-11-25', () => {
  it('is asked about a gated call while its own call is open, and gets the answer of the run', async () => {
    const ledger: Ledger = [];
    const server = used(mcpServer([makeDesk([REFUND, DONE], ledger)]));
    const forms: Form[] = [];
    const client = used(
      await earlierClient(server, form => {
        forms.push(form);
        return { action: 'accept', content: {} };
      }),
    );
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['desk']);
    expect(tools[0]?.inputSchema).toMatchObject({
      required: ['input'],
      properties: { input: { type: 'string' } },
    });

    const result = await client.callTool({ name: 'desk', arguments: input });

    expect(textOf(result)).toBe('Done.');
    expect(forms.map(({ message }) => message)).toEqual([
      expect.stringContaining('refund {"orderId":"A-1","cents":4200}'),
    ]);
    expect(ledger).toEqual([4200]);
  });

  it('rejects a call by declining the form', async () => {
    const ledger: Ledger = [];
    const server = used(mcpServer([makeDesk([REFUND, DONE], ledger)]));
    const client = used(await earlierClient(server, () => ({ action: 'decline' })));

    expect(textOf(await client.callTool({ name: 'desk', arguments: input }))).toBe('Done.');
    expect(ledger).toEqual([]);
  });

  it('edits the input of a call in the form, and is asked again if the edit is not valid', async () => {
    const ledger: Ledger = [];
    const server = used(mcpServer([makeDesk([REFUND, DONE], ledger)]));
    const edits = ['{', '{"orderId":"A-1","cents":"all"}', '{"orderId":"A-1","cents":100}'];
    const messages: string[] = [];
    const client = used(
      await earlierClient(server, ({ message }) => {
        messages.push(message);
        return { action: 'accept', content: { input: edits[messages.length - 1] ?? '' } };
      }),
    );

    expect(textOf(await client.callTool({ name: 'desk', arguments: input }))).toBe('Done.');
    expect(ledger).toEqual([100]);
    expect(messages.map(message => message.split('\n')[0])).toEqual([
      expect.stringContaining('desk asks to call refund'),
      'The field "input" is not JSON.',
      expect.stringContaining('cents'),
    ]);
  });

  it('leaves a call undecided by cancelling the form, and gets the run and how to decide', async () => {
    const server = used(mcpServer([makeDesk([REFUND, DONE])]));
    const client = used(await earlierClient(server, () => ({ action: 'cancel' })));

    const text = textOf(await client.callTool({ name: 'desk', arguments: input }));

    const { runs } = await server.store.list({ status: 'waiting' });
    expect(text).toContain(`agentchart approve ${runs[0]?.runId} call_0_0`);
  });

  it('without elicitation gets the run that waits and how to decide', async () => {
    const server = used(mcpServer([makeDesk([REFUND, DONE])]));
    const client = used(await earlierClient(server));

    const text = textOf(await client.callTool({ name: 'desk', arguments: input }));

    const { runs } = await server.store.list({ status: 'waiting' });
    expect(text).toContain(`Run ${runs[0]?.runId} is not finished`);
    expect(text).toContain(`agentchart reject ${runs[0]?.runId} call_0_0`);
  });

  it('decides some calls of a turn, and gets the ones that are left', async () => {
    const ledger: Ledger = [];
    const both = { toolCalls: [...(REFUND.toolCalls ?? []), ...(ASK.toolCalls ?? [])] };
    const server = used(mcpServer([makeDesk([both, DONE], ledger)]));
    const client = used(
      await earlierClient(server, ({ message }) => ({
        action: message.includes('refund') ? 'accept' : 'cancel',
      })),
    );

    const text = textOf(await client.callTool({ name: 'desk', arguments: input }));

    expect(ledger).toEqual([4200]);
    expect(text).toContain('agentchart answer run_');
    expect(text).not.toContain('agentchart approve');
  });

  it('answers the question of a client tool', async () => {
    const server = used(mcpServer([makeDesk([ASK, DONE])]));
    const client = used(
      await earlierClient(server, () => ({ action: 'accept', content: { output: 'The blue one.' } })),
    );

    expect(textOf(await client.callTool({ name: 'desk', arguments: input }))).toBe('Done.');
    const { runs } = await server.store.list({});
    const entries = await server.store.read(runs[0]?.runId ?? '');
    expect(entries.map(({ event }) => event)).toContainEqual(
      expect.objectContaining({ type: 'result.received', output: 'The blue one.', by: 'mcp:earlier' }),
    );
  });

  it('has its form withdrawn when another process decides the call', async () => {
    const agent = makeDesk([REFUND, DONE]);
    const server = used(mcpServer([agent]));
    const asked = Promise.withResolvers<void>();
    const client = used(
      await earlierClient(server, () => {
        asked.resolve();
        return new Promise(() => {});
      }),
    );
    const result = client.callTool({ name: 'desk', arguments: input });
    await asked.promise;
    const { runs } = await agent.store.list({});
    const run = await agent.open(runs[0]?.runId ?? '');
    expect(await run.approve('call_0_0')).toEqual({ accepted: true });

    expect(textOf(await result)).toBe('Done.');
  });

  it("has the form about a sub-agent's call withdrawn when another process decides it", async () => {
    const agent = makeOffice([]);
    const server = used(mcpServer([agent]));
    const asked = Promise.withResolvers<void>();
    const client = used(
      await earlierClient(server, () => {
        asked.resolve();
        return new Promise(() => {});
      }),
    );
    const result = client.callTool({ name: 'desk', arguments: input });
    await asked.promise;
    const child = (await agent.store.list({})).runs.find(({ parent }) => parent !== undefined);
    const run = await agent.open(child?.runId ?? '');
    expect(await run.approve('call_0_0')).toEqual({ accepted: true });

    expect(textOf(await result)).toBe('The clerk did it.');
  });

  it('gets progress notifications, and a call it cancels leaves the run alone', async () => {
    const server = used(mcpServer([makeDesk([REFUND, DONE])]));
    const stop = new AbortController();
    const progress: string[] = [];
    const client = used(
      await earlierClient(server, () => {
        stop.abort();
        return new Promise(() => {});
      }),
    );
    const onprogress = ({ message }: { message?: string | undefined }) => void progress.push(message ?? '');
    await expect(
      client.callTool({ name: 'desk', arguments: input }, { signal: stop.signal, onprogress }),
    ).rejects.toThrow();

    expect(progress).toEqual(['The model calls tools.']);
    const { runs } = await server.store.list({});
    expect(runs.map(({ status }) => status)).toEqual(['waiting']);
  });

  it('cannot use the session of another caller', async () => {
    const tokens = {
      ann: { token: 'a'.repeat(32), role: 'operator' },
      bea: { token: 'b'.repeat(32), role: 'operator' },
    };
    const server = used(mcpServer([makeDesk([DONE])], { tokens: tokens as never }));
    const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
    await expect(earlierClient(server)).rejects.toThrow();
    const ann = used(await earlierClient(server, undefined, as(tokens.ann.token)));
    const session = (ann.transport as { sessionId?: string }).sessionId ?? '';

    const headers = {
      ...as(tokens.bea.token).headers,
      'mcp-session-id': session,
      accept: 'text/event-stream',
    };
    expect((await server.send(server.url, { headers })).status).toBe(404);
  });
});

describe('a client of revision 2026-07-28', () => {
  it('answers a question through a new client of a restarted server', async () => {
    const ledger: Ledger = [];
    const agent = makeDesk([REFUND, DONE], ledger);
    const before = mcpServer([agent]);
    const asked = await callDesk(await currentClient(before));
    expect(asked.resultType).toBe('input_required');
    const [key = ''] = Object.keys(asked.inputRequests ?? {});
    before.close();
    const kept = JSON.parse(JSON.stringify(asked));

    const client = used(await currentClient(used(mcpServer([agent]))));
    const reply = await callDesk(client, kept, { [key]: { action: 'accept', content: {} } });

    expect(textOf(reply)).toBe('Done.');
    expect(ledger).toEqual([4200]);
    const repeated = await callDesk(client, kept, { [key]: { action: 'decline' } });
    expect(textOf(repeated)).toContain('was already decided elsewhere');
    expect(ledger).toEqual([4200]);
  });

  it('cannot decide with a state that it changed, nor with one of another run or tool', async () => {
    const ledger: Ledger = [];
    const agent = makeDesk([REFUND, DONE], ledger);
    const other = makeDesk([REFUND, DONE], ledger, { name: 'other', store: agent.store });
    const client = used(await currentClient(used(mcpServer([agent, other]))));
    const asked = await callDesk(client);
    const answers = { call_0_0: { action: 'accept' } } as const;
    const [version, body = '', mac] = (asked.requestState ?? '').split('.');
    const state = JSON.parse(Buffer.from(body, 'base64url').toString());
    const forged = Buffer.from(JSON.stringify({ ...state, p: { ...state.p, runId: 'run_other' } })).toString(
      'base64url',
    );

    await expect(
      callDesk(client, { requestState: [version, forged, mac].join('.') }, answers),
    ).rejects.toThrow('Invalid or expired requestState');
    const params = {
      name: 'other',
      arguments: input,
      requestState: asked.requestState,
      inputResponses: answers,
    };
    expect(textOf(await client.callTool(params as never))).toContain('belongs to the tool "desk"');
    const unasked = await callDesk(client, asked, { call_0_1: { action: 'accept' } });
    expect(unasked.resultType).toBe('input_required');
    expect(ledger).toEqual([]);
  });

  it('is asked again when the input that it edited is not text', async () => {
    const ledger: Ledger = [];
    const client = used(await currentClient(used(mcpServer([makeDesk([REFUND, DONE], ledger)]))));
    const asked = await callDesk(client);
    const edits = { call_0_0: { action: 'accept', content: { input: ['{}'] as never } } } as const;
    const again = await callDesk(client, asked, edits);
    expect(again.inputRequests?.call_0_0?.params.message).toContain('The field "input" is not text.');
    expect(ledger).toEqual([]);
  });

  it('is asked about the call of a sub-agent, which it leaves open and then approves', async () => {
    const ledger: Ledger = [];
    const client = used(await currentClient(used(mcpServer([makeOffice(ledger)]))));
    const asked = await callDesk(client);
    const [key = ''] = Object.keys(asked.inputRequests ?? {});
    expect(key).toMatch(/^run_\w+\/call_0_0$/);

    const left = await callDesk(client, asked, { [key]: { action: 'cancel' } });
    expect(textOf(left)).toContain('agentchart approve run_');
    const reply = await callDesk(client, asked, { [key]: { action: 'accept' } });
    expect(textOf(reply)).toBe('The clerk did it.');
    expect(ledger).toEqual([4200]);
  });

  it('without elicitation gets the run that waits', async () => {
    const server = used(mcpServer([makeDesk([REFUND, DONE])]));
    const client = used(await currentClient(server, {}));

    const { runs } = await callDesk(client).then(async reply => {
      const found = await server.store.list({ status: 'waiting' });
      expect(textOf(reply)).toContain(found.runs[0]?.runId);
      return found;
    });
    expect(runs).toHaveLength(1);
  });
});
