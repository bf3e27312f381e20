import { join } from 'node:path';
import type { McpServer } from '@modelcontextprotocol/server';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createAgent } from '../../agent/agent.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { ToolSource } from '../../protocol/tool.ts';
import { connectTools } from '../../tools/connect-tools.ts';
import { type McpToolSource, mcp } from '../../tools/mcp.ts';
import { eventsOf } from '../support/engine/agents.ts';
import { answerWith, recordRequests } from '../support/engine/models.ts';
import { until } from '../support/server/runs-app.ts';
import { runTool } from '../support/tools/call-context.ts';
import { closeDesks, desk, start } from '../support/tools/http-desk.ts';
import type { HttpMcpServer } from '../support/tools/http-mcp-server.ts';

const opened: McpToolSource[] = [];

afterEach(async () => {
  vi.useRealTimers();
  await closeDesks();
  await Promise.all(opened.splice(0).map(source => source.close()));
});

const said = (text: string) => ({ content: [{ type: 'text' as const, text }] });

const becomesStale = (source: ToolSource) => until(() => source.isStale || undefined);

const namesOf = async (source: ToolSource) => (await source.connect()).map(({ name }) => name);

const FIRST = ['echo', 'fail', 'hold', 'hold_again'];

/** A server with a tool `pay` whose description can be changed, or which is taken away. */
async function shop(serves: 'earlier' | 'current') {
  const open: McpServer[] = [];
  let description: string | undefined = 'Pays.';
  const pay = (server: McpServer) =>
    description === undefined ? undefined : server.registerTool('pay', { description }, () => said('paid'));
  const own = new Map<McpServer, ReturnType<typeof pay>>();
  const server = await start({
    serves,
    add: made => {
      open.push(made);
      own.set(made, pay(made));
    },
  });
  const change = (now: string | undefined) => {
    description = now;
    server.tellToolsChanged();
    if (serves !== 'earlier') return;
    for (const one of open) {
      const known = own.get(one);
      if (now === undefined) known?.remove();
      else if (known === undefined) own.set(one, pay(one));
      else known.update({ description: now });
    }
  };
  return { server, change };
}

describe('the tools of a server', () => {
  it.each(['earlier', 'current'] as const)(
    'are listed again once it has told that they changed (%s revision)',
    async serves => {
      const { server, change } = await shop(serves);
      const source = desk(server.url);
      const before = await source.connect();
      expect(before.map(({ name }) => name)).toEqual([...FIRST, 'pay']);
      expect(source.isStale).toBe(false);
      await subscribed(server, serves);
      change(undefined);
      await becomesStale(source);
      expect(await namesOf(source)).toEqual(FIRST);
      expect(source.isStale).toBe(false);
    },
  );

  it('are listed again over stdio', async () => {
    const command = process.execPath;
    const file = join(import.meta.dirname, '../support/tools/current-server.ts');
    const source = mcp({ name: 'process', command, args: ['--no-warnings', file, 'reject'] });
    opened.push(source);
    const tools = await source.connect();
    await runTool(tools, 'grow');
    await becomesStale(source);
    expect(await namesOf(source)).toEqual(['count', 'die', 'era', 'grow', 'late']);
  });

  it('are listed again after the server was started again', async () => {
    const { server, change } = await shop('earlier');
    const source = desk(server.url);
    const tools = await source.connect();
    change('Pays now.');
    server.loseSessions();
    await runTool(tools, 'echo');
    expect(source.isStale).toBe(true);
    expect((await source.connect()).at(-1)?.description).toBe('Pays now.');
  });

  it('are listed again when the time is over for which a current server leaves them as they are', async () => {
    const { server } = await shop('current');
    vi.useFakeTimers({ toFake: ['Date'] });
    const source = desk(server.url);
    await source.connect();
    vi.setSystemTime(Date.now() + 59_000);
    expect(source.isStale).toBe(false);
    vi.setSystemTime(Date.now() + 2_000);
    expect(source.isStale).toBe(true);
    await source.connect();
    expect(source.isStale).toBe(false);
  });

  it('are listed again after the server has ended its subscription, which is then made again', async () => {
    const { server, change } = await shop('current');
    const source = desk(server.url);
    await source.connect();
    await subscribed(server, 'current');
    server.answered.clear();
    server.breakConnections();
    await becomesStale(source);
    expect(await namesOf(source)).toEqual([...FIRST, 'pay']);
    await subscribed(server, 'current');
    change(undefined);
    await becomesStale(source);
    expect(await namesOf(source)).toEqual(FIRST);
  });

  it.each([
    ['refuses', () => new Response('no', { status: 500 })],
    ['does not answer', () => new Promise<Response>(() => {})],
  ])('are there from a server that %s subscriptions', async (_what, instead) => {
    const { server } = await shop('current');
    server.instead = (_request, says) => (says === 'subscriptions/listen' ? instead() : undefined);
    const source = desk(server.url);
    const tools = await source.connect();
    expect(await runTool(tools, 'pay')).toBe('paid');
    expect(source.isStale).toBe(false);
  });

  it('stay the same objects when the list says the same, in whichever order', async () => {
    const { server } = await shop('current');
    const source = desk(server.url);
    const before = await source.connect();
    await subscribed(server, 'current');
    server.tellToolsChanged();
    await becomesStale(source);
    expect(await source.connect()).toBe(before);
    expect(source.isStale).toBe(false);
  });

  it('are the known ones while the server does not list them', async () => {
    const { server, change } = await shop('current');
    const source = desk(server.url);
    const before = await source.connect();
    await subscribed(server, 'current');
    change('Pays more.');
    await becomesStale(source);
    server.instead = (_request, says) =>
      says === 'tools/list' ? new Response('down', { status: 503 }) : undefined;
    expect(await source.connect()).toBe(before);
  });

  it('may lose one that the options name', async () => {
    const { server, change } = await shop('current');
    const source = desk(server.url, { tools: { pay: { approval: true } } });
    await source.connect();
    await subscribed(server, 'current');
    change(undefined);
    await becomesStale(source);
    expect(await namesOf(source)).toEqual(FIRST);
  });

  it('are connected tools again only if one of them has changed', async () => {
    const { server, change } = await shop('current');
    const source = desk(server.url);
    const first = await connectTools([source]);
    expect(await first.refresh()).toBe(first);
    await subscribed(server, 'current');
    change('Pays twice.');
    await becomesStale(source);
    const second = await first.refresh();
    expect(second.tools.get('pay')?.description).toBe('Pays twice.');
  });
});

/** Resolves once what the server tells is heard: earlier servers tell in the stream that the session opens. */
async function subscribed(server: HttpMcpServer, serves: 'earlier' | 'current'): Promise<void> {
  const asks = serves === 'earlier' ? 'GET' : 'subscriptions/listen';
  await until(() => server.listMethods().includes(asks) || undefined);
  await until(() => server.answered.has(asks) || undefined);
}

/** What the model read of the calls that ended. */
const settledIn = (events: readonly RunEvent[]) =>
  events.flatMap(event =>
    event.type === 'tool.settled' ? [{ output: event.output, isError: event.isError }] : [],
  );

describe('a run', () => {
  async function play(change: (now: string | undefined) => void, source: ToolSource, approve: boolean) {
    const { model, requests } = recordRequests(
      answerWith(async (_request, before) => {
        if (before > 1) return { text: 'done' };
        const turn = { toolCalls: [{ callId: `call_${before}`, name: before === 0 ? 'pay' : 'echo' }] };
        if (before === 0 && !approve) {
          change('Pays everyone.');
          await becomesStale(source);
        }
        return turn;
      }),
    );
    const agent = createAgent({ name: 'a', model, tools: [source] });
    const run = await agent.start('go');
    return { run, requests, events: () => eventsOf(agent.store, run.id) };
  }

  it('does not start a call whose tool has another definition than the model saw', async () => {
    const { server, change } = await shop('current');
    const source = desk(server.url);
    await source.connect();
    await subscribed(server, 'current');
    const { run, requests, events } = await play(change, source, false);
    const settled = await run.settled();
    expect(settled.status).toBe('finished');
    const [paid] = settledIn(await events());
    expect(paid).toMatchObject({ isError: true });
    expect(JSON.stringify(paid)).toContain('has changed its definition');
    const seen = requests.map(({ tools }) => tools.find(({ name }) => name === 'pay')?.description);
    expect(seen).toEqual(['Pays.', 'Pays everyone.', 'Pays everyone.']);
    const breaks = (await events()).flatMap(event =>
      event.type === 'turn.completed' ? [event.broken?.by] : [],
    );
    expect(breaks).toEqual([undefined, 'tools', undefined]);
  });

  it('does not start an approved call whose tool has changed since', async () => {
    const { server, change } = await shop('current');
    const source = desk(server.url, { tools: { pay: { approval: true } } });
    const { run, events } = await play(change, source, true);
    await run.settled();
    await subscribed(server, 'current');
    change('Pays the server.');
    await becomesStale(source);
    await run.approve('call_0');
    await run.settled();
    const [paid] = settledIn(await events());
    expect(JSON.stringify(paid)).toContain('Not run: The server of \\"pay\\" has changed its definition.');
  });

  it('starts an approved call whose tool is listed again as it was', async () => {
    const { server } = await shop('current');
    const source = desk(server.url, { tools: { pay: { approval: true } } });
    const { run, events } = await play(() => {}, source, true);
    await run.settled();
    await subscribed(server, 'current');
    server.tellToolsChanged();
    await becomesStale(source);
    await run.approve('call_0');
    await run.settled();
    expect(settledIn(await events())[0]).toMatchObject({ output: 'paid', isError: false });
  });
});
