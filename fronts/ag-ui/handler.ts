import type { Hono } from 'hono';
import * as z from 'zod';
import { type Caller, signCommand } from '../../access/caller.ts';
import { describeRole, mayCommand } from '../../access/role.ts';
import { type Agent, createAgent } from '../../agent/agent.ts';
import { EVENT_STREAM_HEADERS } from '../../engine/events/streamed-body.ts';
import { systemHost, warn } from '../../engine/host/host.ts';
import type { Run } from '../../engine/run/run.ts';
import { openCallsOf } from '../../machines/settled.ts';
import { hasEnded } from '../../machines/status.ts';
import type { Item } from '../../protocol/item.ts';
import { isJsonObject, omitUndefined } from '../../protocol/json.ts';
import { KeyedMutex } from '../../protocol/keyed-mutex.ts';
import { readThreadId } from '../../protocol/listing/label.ts';
import { type Answer, commandFor } from '../../protocol/open/answer.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import { isOpen, type RunRecord, type Store } from '../../protocol/store.ts';
import type { AgentTool, Tool } from '../../protocol/tool.ts';
import { type Agents, byPlainName, listAgents, partFor, pathBelow } from '../../server/agent-names.ts';
import { ApiError } from '../../server/error-envelope.ts';
import {
  HANDLER_NAMES,
  type Handler,
  type HandlerOptions,
  handlerOf,
  segmentsOf,
} from '../../server/handler.ts';
import { answerRunsError, type MountedApi } from '../../server/mounted-api.ts';
import { readBody } from '../../server/read-body.ts';
import { remember } from '../../server/remember.ts';
import type { RouteTable } from '../../server/route.ts';
import { type BeginRun, beginFreely } from '../../server/runs/begin-run.ts';
import { pauseAround } from '../../server/runs/commands/command-routes.ts';
import { findThread } from '../../server/runs/find-thread.ts';
import type { RunsEnv } from '../../server/runs-env.ts';
import { tool } from '../../tools/tool.ts';
import {
  beginThread,
  type Refused,
  readThread,
  resumeCommandOf,
  type StreamPlan,
  streamRun,
} from './stream-run.ts';
import { contextItems, threadItemsOf, threadOutputOf } from './thread.ts';
import type { Message } from './wire.ts';
import { type DeclaredTool, type RunInput, runInputSchema } from './wire.ts';

/**
 * Options of `createAgUiHandler`. A `viewer` may only read, an `approver` may also answer interrupts, and a `client` may do
 * neither.
 */
export type AgUiOptions = HandlerOptions & {
  /** The run context of a new run, for an agent that requires one. `input` is the request's body. */
  runContext?(input: RunInput, request: Request): unknown;
};

const NAMES: NamesOf<AgUiOptions> = { ...HANDLER_NAMES, runContext: true };

const HEADERS = { ...EVENT_STREAM_HEADERS, 'Cache-Control': 'no-store' };

const MOST_AGENTS = 100;

/** What a request may do depends on its body. @internal */
export const AG_UI_ROUTES = {
  'POST /ag-ui/:agent': { summary: 'Run an agent in a thread of AG-UI.', right: 'read', streams: true },
} as const satisfies RouteTable;

/**
 * Creates an AG-UI 1.0 endpoint for `HttpAgent` of `@ag-ui/client`, at any path; of several agents, each is at `…/NAME`.
 * A thread of AG-UI is a thread of the caller: see `agent.thread`. Any process with the agent and its store can answer the
 * thread's next request. Closing a request does not cancel its run. An error before the first event is a JSON response
 * with a status; later errors are RUN_ERROR events.
 *
 * @example
 * const handler = createAgUiHandler(agent);
 * app.post('/agent', c => handler(c.req.raw));
 */
export function createAgUiHandler(agents: Agents, options: AgUiOptions = {}): Handler {
  refuseUnknownOptions('createAgUiHandler', options, NAMES);
  const { log = warn } = options;
  const pathOf = (request: Request) => pathBelow('/ag-ui', agents, segmentsOf(request), 0);
  return handlerOf([createAgUiApi(agents, { ...options, log })], options, { log, pathOf });
}

type AgUiApiOptions = Pick<AgUiOptions, 'runContext'> & { begin?: BeginRun; log(line: string): void };

/** @internal */
export function createAgUiApi(agents: Agents, { log, ...options }: AgUiApiOptions): MountedApi {
  const named = byPlainName(listAgents(agents));
  const endpoints = new Map([...named].map(([name, agent]) => [name, new Endpoint(agent, options)]));
  return {
    prefix: '/ag-ui',
    paths: ['/ag-ui'],
    area: 'runs',
    routes: AG_UI_ROUTES,
    add(app: Hono<RunsEnv>) {
      app.post('/ag-ui/:agent', async c => {
        const endpoint = partFor(endpoints, c.req.param('agent'));
        const input = await readBody(c.req.raw, runInputSchema, c.get('requestLimits'));
        return endpoint.answer(input, c.get('caller'), c.req.raw);
      });
    },
    answerError: (c, error) => answerRunsError(c, error, log),
  };
}

/**
 * H1 The requests of one thread are planned one after the other here. Two processes cannot both start a run either: the
 *    second message goes to the first one's run.
 * H2 A running run is kept open once and shared, so that all its readers get its deltas.
 */
class Endpoint {
  readonly #agent: Agent;
  readonly #options: Omit<AgUiApiOptions, 'log'>;
  /** By the tools that clients declare and run themselves. */
  readonly #agents = new Map<string, Agent>();
  readonly #past = new PastRuns();
  readonly #working = new Map<string, Run>();
  readonly #planning = new KeyedMutex();

  constructor(agent: Agent, options: Omit<AgUiApiOptions, 'log'>) {
    this.#agent = agent;
    this.#options = options;
  }

  answer(input: RunInput, caller: Caller, request: Request): Response {
    const key = JSON.stringify([readThreadId(input.threadId), caller.labels]);
    const makePlan = () => this.#plan(input, caller, request);
    const plan = () => this.#planning.run(key, makePlan);
    const host = this.#agent.options.host ?? systemHost;
    return new Response(streamRun(input, plan, host), { headers: HEADERS });
  }

  /** Applies the request's commands and returns the plan of its response stream; `null` for a thread without a run. */
  async #plan(input: RunInput, caller: Caller, request: Request): Promise<StreamPlan | null> {
    const agent = this.#agentWith(input.tools);
    const thread = await findThread(agent, input.threadId, caller);
    const found = await thread.latest();
    const isOther = found !== undefined && found.agent !== agent.name && !isOpen(found);
    const latest = isOther ? undefined : found;
    const chain = latest === undefined ? [] : await agent.store.chain(latest.runId);
    const earlier: Message[] = [];
    for (const record of chain.slice(0, -1)) earlier.push(...(await this.#past.messagesOf(agent, record)));
    const before = latest && (this.#working.get(latest.runId) ?? (await agent.open(latest.runId)));
    const read = ({ id }: Run) => readThread(beginThread(agent, id, earlier));
    const open = before && !hasEnded(before.durable.state) ? await read(before) : undefined;
    const ended = before && { runId: before.id, seq: before.durable.seq };
    const past = open || !ended ? [] : await this.#past.messagesOf(agent, ended);
    const shown = open?.thread.snapshot.messages ?? [...earlier, ...past];
    const known = new Set(shown.map(({ id }) => id));
    const fresh = input.messages.filter(({ id, role }) => !known.has(id) && isInput(role, before));
    const items = threadItemsOf(fresh);
    if (before !== undefined && (open !== undefined || items.length === 0)) {
      const story = open ?? (await read(before));
      const refused = await this.#command(before, input, items, caller);
      this.#keep(before);
      return { agent, run: before, story, fresh, refused, caller };
    }
    if (items.length === 0) return null;
    const refused = before === undefined ? [] : await this.#command(before, input, [], caller);
    if (!mayCommand(caller, { type: 'start' })) throw forbidden(caller);
    const { runContext, begin = beginFreely } = this.#options;
    const start = {
      labels: thread.labels,
      thread: thread.id,
      // The request has the messages of the other agent's runs too.
      ...(isOther && { continues: null }),
      ...omitUndefined({ runContext: await runContext?.(input, request) }),
    };
    const startItems = [...contextItems(input), ...items];
    const run = await begin(caller, agent, more => agent.start(startItems, { ...start, ...more }));
    this.#keep(run);
    return { agent, run, story: beginThread(agent, run.id, shown), fresh, refused, caller };
  }

  async #command(run: Run, input: RunInput, items: Item[], caller: Caller): Promise<Refused[]> {
    const refused: Refused[] = [];
    const given: { id: string; command: RunCommand }[] = [];
    for (const entry of input.resume ?? []) {
      const { interruptId } = entry;
      const command = resumeCommandOf(entry);
      if (command === 'unknown')
        refused.push({ interruptId, code: 'call-unknown', message: 'No interrupt has this id.' });
      else if (command !== null) given.push({ id: interruptId, command });
    }
    for (const open of openCallsOf(run.context, 'result')) {
      const { callId } = open;
      const result = input.messages.find(message => message.role === 'tool' && message.toolCallId === callId);
      if (result?.role !== 'tool') continue;
      if (given.some(other => 'callId' in other.command && other.command.callId === callId)) continue;
      const isError = result.error !== undefined;
      const answer: Answer = { type: 'result', output: threadOutputOf(result), isError };
      given.push({ id: callId, command: commandFor(open, answer) });
    }
    if (items.length > 0) given.push({ id: '', command: { type: 'send', message: items } });
    if (!given.every(({ command }) => mayCommand(caller, command))) throw forbidden(caller);
    const own = given.map(({ id, command }) => ({ id, command: signCommand(command, caller) }));
    return [...refused, ...(await submit(run, own))];
  }

  /** A client's tool cannot replace one of the agent. Throws `agent-invalid` for one without a usable name or schema. */
  #agentWith(declared: readonly DeclaredTool[]): Agent {
    if (declared.length === 0) return this.#agent;
    const key = JSON.stringify(declared);
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    const { options, store } = this.#agent;
    const own: readonly AgentTool[] = options.tools ?? [];
    const taken = new Set(own.flatMap(one => ('name' in one ? [one.name] : [])));
    const added = declared.filter(({ name }) => !taken.has(name)).map(clientToolOf);
    const agent = createAgent({ ...options, store, tools: [...own, ...added] });
    remember(this.#agents, key, agent, MOST_AGENTS);
    return agent;
  }

  #keep(run: Run): void {
    this.#working.set(run.id, run);
    const release = () => {
      if (this.#working.get(run.id) === run) this.#working.delete(run.id);
    };
    run.settled().then(release, release);
  }
}

/** A new thread takes all messages of the client. Later requests add only messages of the user. */
function isInput(role: string, before: Run | undefined): boolean {
  if (role === 'user') return true;
  return before === undefined && role !== 'reasoning' && role !== 'activity';
}

/** In one append, so that approved calls run in parallel; one by one if other runs have commands too. */
async function submit(run: Run, given: readonly { id: string; command: RunCommand }[]): Promise<Refused[]> {
  const own = given.filter(({ command }) => !('runId' in command) || command.runId === run.id);
  const isPaused = run.context.paused || own.some(({ command }) => command.type === 'unpause');
  if (own.length > 1 && own.length === given.length && !isPaused) {
    const commands = own.map(({ command }) => command);
    if ((await run.submit(pauseAround(commands))).accepted) return [];
  }
  const refused: Refused[] = [];
  for (const { id, command } of given) {
    const result = await run.submit([command]);
    if (result.accepted) continue;
    const { code, message, by } = result;
    refused.push({ interruptId: id, code, message, ...omitUndefined({ by }) });
  }
  return refused;
}

function forbidden(caller: Caller): ApiError {
  return new ApiError('forbidden', describeRole(caller));
}

function clientToolOf({ name, description, parameters }: DeclaredTool): Tool {
  const given = isJsonObject(parameters) ? parameters : { properties: {} };
  const inputSchema = { type: 'object', ...given };
  return tool({ name, description: description || name, input: z.looseObject({}), inputSchema });
}

const MOST_CHARS = 32_000_000;

/** `seqs`: the last seqs of the run and of its sub-agents' runs when they were read. */
type Past = { seqs: ReadonlyMap<string, number>; messages: readonly Message[]; chars: number };

/** The journal of an ended run is read again only if it or a sub-agent's has a new entry, as after a redaction. */
class PastRuns {
  readonly #known = new Map<string, Past>();
  #chars = 0;

  async messagesOf(agent: Agent, record: Pick<RunRecord, 'runId' | 'seq'>): Promise<readonly Message[]> {
    const { runId } = record;
    const past = (await this.#find(agent.store, record)) ?? (await readPast(agent, runId));
    this.#chars += past.chars - (this.#known.get(runId)?.chars ?? 0);
    this.#known.delete(runId);
    this.#known.set(runId, past);
    for (const [oldest, { chars }] of this.#known) {
      if (this.#chars <= MOST_CHARS) break;
      this.#known.delete(oldest);
      this.#chars -= chars;
    }
    return past.messages;
  }

  async #find(store: Store, { runId, seq }: Pick<RunRecord, 'runId' | 'seq'>): Promise<Past | undefined> {
    const past = this.#known.get(runId);
    for (const [id, last] of past?.seqs ?? [])
      if ((id === runId ? seq : (await store.get(id))?.seq) !== last) return undefined;
    return past;
  }
}

async function readPast(agent: Agent, runId: string): Promise<Past> {
  const { family, thread } = await readThread(beginThread(agent, runId));
  const { messages } = thread.snapshot;
  return { seqs: family.seqs, messages, chars: JSON.stringify(messages).length };
}
