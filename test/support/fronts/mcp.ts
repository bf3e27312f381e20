import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as SdkClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as SdkTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, tool } from '../../../agent/index.ts';
import { createMcpApi } from '../../../fronts/mcp/mcp-api.ts';
import { ServedRuns } from '../../../fronts/served/served-runs.ts';
import { createRunsApp, type RunsAppOptions } from '../../../server/app.ts';
import { memory } from '../../../stores/memory.ts';

const ORIGIN = 'http://127.0.0.1:4100';
const KEY = new Uint8Array(32).fill(7);

/** The answer of a person to a form. */
export type FormAnswer = { action: 'accept' | 'decline' | 'cancel'; content?: Record<string, string> };
/** What a client was asked: the message of the form and its fields. */
export type Form = { message: string; requestedSchema: { properties: Record<string, { default?: string }> } };

/** A form about a task. */
export type TaskForm = Form & { _meta?: Record<string, unknown> };

export const REFUND: ScriptedTurn = {
  toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1', cents: 4200 } }],
};
export const ASK: ScriptedTurn = { toolCalls: [{ name: 'ask_customer', arguments: { question: 'Which?' } }] };
export const DONE: ScriptedTurn = { text: 'Done.' };

/** What the tools of a desk have done. */
export type Ledger = number[];

/** An agent with a gated tool, which writes to the ledger, and one that the client answers. */
export function makeDesk(
  turns: readonly ScriptedTurn[],
  ledger: Ledger = [],
  more: Partial<Agent['options']> = {},
): Agent {
  return createAgent({
    name: 'desk',
    model: scripted(turns),
    tools: [
      tool({
        name: 'refund',
        description: 'Pays back.',
        input: z.object({ orderId: z.string(), cents: z.number().int() }),
        approval: () => ({ required: true, reason: 'money leaves the house' }),
        run: ({ cents }) => {
          ledger.push(cents);
          return { refunded: cents };
        },
      }),
      tool({ name: 'ask_customer', description: 'Asks.', input: z.object({ question: z.string() }) }),
    ],
    store: memory(),
    ...more,
  });
}

/** An MCP server in this process, over the agents' store. A second one is the same server after a restart. */
export function mcpServer(agents: readonly Agent[], options: Partial<RunsAppOptions> = {}) {
  const byName = new Map(agents.map(agent => [agent.name, agent]));
  const store = agents[0]?.store ?? memory();
  const log: string[] = [];
  const runs = new ServedRuns({ store, agents: byName, log: line => log.push(line) });
  const mcp = createMcpApi({ runs, key: () => KEY, version: '1.0.0', log: line => log.push(line) });
  const app = createRunsApp({ store, agents: byName, mounted: [mcp], ...options });
  const send: typeof fetch = async (url, init) => {
    const headers = new Headers(init?.headers);
    if (!headers.has('host')) headers.set('host', '127.0.0.1:4100');
    return await app.request(new Request(url instanceof Request ? url.url : url, { ...init, headers }));
  };
  return { runs, store, log, send, url: new URL(`${ORIGIN}/mcp`), close: () => app.close() };
}
export type McpServer = ReturnType<typeof mcpServer>;

/** A client of revision 2025-11-25. `answer`: what the person answers to forms; without it, there is no elicitation. */
export async function earlierClient(
  { url, send }: Pick<McpServer, 'url' | 'send'>,
  answer?: (form: Form) => FormAnswer | Promise<FormAnswer>,
  requestInit: RequestInit = {},
): Promise<Client> {
  const client = new Client(
    { name: 'earlier', version: '1' },
    { capabilities: answer ? { elicitation: {} } : {} },
  );
  if (answer)
    client.setRequestHandler(
      'elicitation/create',
      async ({ params }) => await answer(params as unknown as Form),
    );
  await client.connect(new StreamableHTTPClientTransport(url, { fetch: send, requestInit }));
  return client;
}

/** A client of the SDK's version 1, which has the tasks of revision 2025-11-25. `answer` as for `earlierClient`. */
export async function taskClient(
  { url, send }: Pick<McpServer, 'url' | 'send'>,
  answer?: (form: TaskForm) => FormAnswer | Promise<FormAnswer>,
): Promise<SdkClient> {
  const client = new SdkClient(
    { name: 'tasks', version: '1' },
    { capabilities: answer ? { elicitation: {} } : {} },
  );
  if (answer)
    client.setRequestHandler(
      ElicitRequestSchema,
      async ({ params }) => await answer(params as unknown as TaskForm),
    );
  await client.connect(new SdkTransport(url, { fetch: send }) as Transport);
  await client.listTools();
  return client;
}

/** A client of revision 2026-07-28 that hands questions to its caller instead of answering them. */
export async function currentClient(
  { url, send }: Pick<McpServer, 'url' | 'send'>,
  capabilities: Record<string, object> = { elicitation: { form: {} } },
): Promise<Client> {
  const client = new Client(
    { name: 'current', version: '1' },
    { capabilities, versionNegotiation: { mode: 'auto' }, inputRequired: { autoFulfill: false } },
  );
  await client.connect(new StreamableHTTPClientTransport(url, { fetch: send }));
  return client;
}

/** What a call returned to a current client that asked to see questions. */
export type Reply = {
  resultType?: string;
  requestState?: string;
  inputRequests?: Record<string, { params: Form }>;
  content?: { text: string }[];
  structuredContent?: unknown;
  isError?: boolean;
};

/** Calls the tool `desk`, or asks again with the answers to the questions of an earlier reply. */
export async function callDesk(
  client: Client,
  again?: Reply,
  answers?: Record<string, FormAnswer>,
): Promise<Reply> {
  const params = {
    name: 'desk',
    arguments: { input: 'Refund A-1' },
    ...(again && { requestState: again.requestState, inputResponses: answers }),
  };
  return (await client.callTool(params as never, { allowInputRequired: true } as never)) as Reply;
}

/** The text of a reply. */
export function textOf(reply: unknown): string {
  return ((reply as Reply).content ?? []).map(({ text }) => text).join('\n');
}

/** The desk as a sub-agent of an agent named `desk` too, whose only call asks it. */
export function makeOffice(ledger: Ledger): Agent {
  const below = makeDesk([REFUND, DONE], ledger, { name: 'clerk' });
  const ask: ScriptedTurn = { toolCalls: [{ name: 'ask_clerk', arguments: { input: 'Refund A-1' } }] };
  return createAgent({
    name: 'desk',
    model: scripted([ask, { text: 'The clerk did it.' }]),
    tools: [below.asTool({ name: 'ask_clerk', description: 'Asks the clerk.' })],
    store: memory(),
  }) as unknown as Agent;
}
