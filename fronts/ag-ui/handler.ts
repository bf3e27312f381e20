import type { Hono } from 'hono';
import { byOf, type Caller } from '../../access/caller.ts';
import { describeRole, mayCommand } from '../../access/role.ts';
import { systemHost } from '../../engine/driver/host.ts';
import { EVENT_STREAM_HEADERS } from '../../engine/run/readers/streamed-body.ts';
import type { Run } from '../../engine/run/run.ts';
import { warn } from '../../engine/warn.ts';
import { openCallsOf } from '../../machines/settled.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { chatLabels } from '../../protocol/listing/reserved-label.ts';
import { type Answer, commandFor } from '../../protocol/open/answer.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
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
import type { RouteTable } from '../../server/route.ts';
import { type BeginRun, beginFreely } from '../../server/runs/begin-run.ts';
import type { RunsEnv } from '../../server/runs-env.ts';
import type { Agent } from '../../tools/agent/agent.ts';
import type { StartOptions } from '../../tools/agent/begin-journal.ts';
import { findLatestRun } from '../chat/find-chat.ts';
import { AgentsByTools } from './client-tools.ts';
import type { Message } from './events.ts';
import { commandOf } from './interrupts.ts';
import { contextItems, itemsOf, outputOf } from './read-messages.ts';
import { type RunInput, runInputSchema } from './run-input.ts';
import { familyOf, type Plan, type Refused, streamRun } from './stream-run.ts';
import { Thread } from './thread.ts';
import { StoryWriter } from './write-story.ts';

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

/** The route of AG-UI on `agentchart serve`. What a request may do depends on its body. */
export const AG_UI_ROUTES = {
  'POST /ag-ui/:agent': { summary: 'Run an agent in a thread of AG-UI.', right: 'read', streams: true },
} as const satisfies RouteTable;

/**
 * Creates an AG-UI 1.0 endpoint for `HttpAgent` of `@ag-ui/client`, at any path; of several agents, each is at `…/NAME`. The
 * runs of a thread have the thread's id as the label `chat`. Any process with the agent and its store can answer the thread's next request.
 * Closing a request does not cancel its run. An error before the first event is a JSON response with a status; later
 * errors are RUN_ERROR events.
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

/** AG-UI of the agents at `/ag-ui/NAME`. */
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
 * H1 The requests of one thread are planned one after the other, so that two requests cannot both start a run.
 * H2 A running run is kept open once and shared, so that all its readers get its deltas.
 */
class Endpoint {
  readonly #agent: Agent;
  readonly #options: Omit<AgUiApiOptions, 'log'>;
  readonly #agents: AgentsByTools;
  readonly #past = new PastRuns();
  readonly #working = new Map<string, Run>();
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(agent: Agent, options: Omit<AgUiApiOptions, 'log'>) {
    this.#agent = agent;
    this.#options = options;
    this.#agents = new AgentsByTools(agent);
  }

  answer(input: RunInput, caller: Caller, request: Request): Response {
    const labels = chatLabels(input.threadId, caller.labels);
    const plan = () => this.#inOrder(JSON.stringify(labels), () => this.#plan(input, caller, request));
    const host = this.#agent.options.host ?? systemHost;
    return new Response(streamRun(input, plan, host), { headers: HEADERS });
  }

  /** Applies the request's commands and returns the plan of its response stream. */
  async #plan(input: RunInput, caller: Caller, request: Request): Promise<Plan> {
    const agent = this.#agents.for(input.tools);
    const labels = chatLabels(input.threadId, caller.labels);
    const latest = await findLatestRun(agent.store, labels, record => record.agent === agent.name);
    const chain = latest === undefined ? [] : await agent.store.chain(latest.runId);
    const earlier: Message[] = [];
    for (const record of chain.slice(0, -1)) earlier.push(...(await this.#past.messagesOf(agent, record)));
    const before = latest && (await this.#hold(agent, latest.runId));
    const known = new Set([...earlier.map(({ id }) => id), ...itemIdsOf(before)]);
    const fresh = input.messages.filter(({ id, role }) => !known.has(id) && isInput(role, before));
    const plan = { agent, earlier, fresh };
    const items = itemsOf(fresh);
    if (before !== undefined && !hasEnded(before)) {
      const seen = await seqsOf(agent.store, before);
      const refused = await this.#command(before, input, items, caller);
      this.#keep(before);
      return { ...plan, run: before, seen, refused };
    }
    const refused = before === undefined ? [] : await this.#command(before, input, [], caller);
    if (before !== undefined && items.length > 0)
      earlier.push(...(await this.#past.messagesOf(agent, { runId: before.id, seq: before.durable.seq })));
    if (items.length === 0) {
      const seen = before === undefined ? new Map() : await seqsOf(agent.store, before);
      return { ...plan, run: before, seen, refused };
    }
    if (!mayCommand(caller, 'start')) throw forbidden(caller);
    const run = await this.#begin(agent, caller, [...contextItems(input), ...items], {
      chat: input.threadId,
      runContext: await this.#options.runContext?.(input, request),
      continues: before?.id,
    });
    return { ...plan, run, seen: new Map([[run.id, 0]]), refused };
  }

  /** Submits the answers to interrupts, the results of client tools, and the messages. Returns the refused answers. */
  async #command(run: Run, input: RunInput, items: Item[], caller: Caller): Promise<Refused[]> {
    const by = byOf(caller);
    const answers = (input.resume ?? []).map(entry => ({
      id: entry.interruptId,
      command: commandOf(entry, by),
    }));
    const refused: Refused[] = [];
    const given: { id: string; command: RunCommand }[] = [];
    for (const { id, command } of answers) {
      if (command === 'unknown')
        refused.push({ interruptId: id, code: 'call-unknown', message: 'No interrupt has this id.' });
      else if (command !== null) given.push({ id, command });
    }
    for (const open of openCallsOf(run.context, 'result')) {
      const { callId } = open;
      const result = input.messages.find(message => message.role === 'tool' && message.toolCallId === callId);
      if (result?.role !== 'tool') continue;
      if (given.some(other => 'callId' in other.command && other.command.callId === callId)) continue;
      const isError = result.error !== undefined;
      const answer: Answer = { type: 'result', output: outputOf(result), isError };
      given.push({ id: callId, command: commandFor(open, answer, { by }) });
    }
    if (items.length > 0)
      given.push({ id: '', command: { type: 'send', message: items, ...omitUndefined({ by }) } });
    if (!given.every(({ command }) => mayCommand(caller, command.type))) throw forbidden(caller);
    return [...refused, ...(await submit(run, given))];
  }

  async #begin(
    agent: Agent,
    caller: Caller,
    items: Item[],
    {
      continues,
      runContext,
      ...start
    }: Pick<StartOptions, 'chat'> & {
      continues: string | undefined;
      runContext: unknown;
    },
  ): Promise<Run> {
    const { begin = beginFreely } = this.#options;
    const options = { ...start, labels: caller.labels, ...omitUndefined({ runContext, continues }) };
    const run = await begin(caller, agent, more => agent.start(items, { ...options, ...more }));
    this.#keep(run);
    return run;
  }

  async #hold(agent: Agent, runId: string): Promise<Run> {
    const held = this.#working.get(runId);
    if (held !== undefined) return held;
    return await agent.open(runId);
  }

  /** Keeps the run open until it rests or has ended. */
  #keep(run: Run): void {
    this.#working.set(run.id, run);
    const release = () => {
      if (this.#working.get(run.id) === run) this.#working.delete(run.id);
    };
    run.settled().then(release, release);
  }

  async #inOrder<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const mine = (this.#last.get(key) ?? Promise.resolve()).then(work, work);
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }
}

/** A new thread takes all messages of the client. Later requests add only messages of the user. */
function isInput(role: string, before: Run | undefined): boolean {
  if (role === 'user') return true;
  return before === undefined && role !== 'reasoning' && role !== 'activity';
}

/** Returns the ids of a run's items, to recognize messages that the run already has. */
function itemIdsOf(run: Run | undefined): string[] {
  if (run === undefined) return [];
  const { transcript, inbox } = run.context;
  return [...transcript, ...inbox].flatMap(({ id }) => id ?? []);
}

/**
 * Submits the run's own commands in one append, so that approved calls run in parallel. The commands of other runs are
 * submitted one by one.
 */
async function submit(run: Run, given: readonly { id: string; command: RunCommand }[]): Promise<Refused[]> {
  const own = given.filter(({ command }) => !('runId' in command) || command.runId === run.id);
  const isPaused = run.context.paused || own.some(({ command }) => command.type === 'unpause');
  if (own.length > 1 && own.length === given.length && !isPaused) {
    const commands = own.map(({ command }) => command);
    const around: RunCommand[] = [{ type: 'pause' }, ...commands, { type: 'unpause' }];
    if ((await run.submit(around)).accepted) return [];
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

function hasEnded({ durable }: Run): boolean {
  return durable.state.status !== 'active';
}

function forbidden(caller: Caller): ApiError {
  return new ApiError('forbidden', describeRole(caller));
}

/** Returns the last seq of a run and of each of its sub-agents' runs, by run id. */
async function seqsOf(store: Store, run: Run): Promise<Map<string, number>> {
  const seqs = new Map([[run.id, run.durable.seq]]);
  const add = async (parent: string): Promise<void> => {
    for (const { runId, seq } of (await store.list({ parent, limit: 1_000 })).runs) {
      seqs.set(runId, seq);
      await add(runId);
    }
  };
  await add(run.id);
  return seqs;
}

/** The size limit of the cached messages, in characters of their JSON. */
const MOST_CHARS = 32_000_000;

/** `seqs`: the last seqs of the run and of its sub-agents' runs when they were read. */
type Past = { seqs: ReadonlyMap<string, number>; messages: readonly Message[]; chars: number };

/**
 * Caches the messages of ended runs, including their sub-agents' runs. The journal of an ended run is read once, and
 * again only if it has a new entry, as after a redaction. The least recently used runs are evicted.
 */
class PastRuns {
  readonly #known = new Map<string, Past>();
  #chars = 0;

  /** The messages of an ended run. */
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
  const thread = new Thread();
  const writer = new StoryWriter(runId, thread);
  const family = familyOf(agent, runId);
  for await (const told of family.read()) for (const event of told) writer.add(event);
  const { list } = thread;
  return { seqs: family.seqs, messages: list, chars: JSON.stringify(list).length };
}
