/**
 * Tasks of a server (`io.modelcontextprotocol/tasks`): work that it does after it has answered the call. Source:
 * https://github.com/modelcontextprotocol/ext-tasks. Its package for clients waits for the end of a task in memory, with
 * timers and callbacks of its own; here a question ends the function, and any process continues.
 *
 * T1 The id of a task is kept before the task is asked for.
 * T2 An answer is kept as sent once the server has it. It may be sent twice, which the server ignores by its key.
 * T3 A task that the server no longer knows may have done anything.
 * T4 The task is cancelled with the run only. A process that ends leaves it to the next one.
 */
import type { CallToolResult, Client, RequestOptions } from '@modelcontextprotocol/client';
import * as z from 'zod';
import { messageOf } from '../../protocol/error.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { ToolCallContext } from '../../protocol/tool.ts';
import { answersTo, readQuestions } from './elicitation.ts';
import { quoteServerText } from './redact-secrets.ts';
import { type McpSession, TASKS_EXTENSION } from './session.ts';

/** What a call needs that may take longer than its process. */
export type KeepingContext = ToolCallContext & Required<Pick<ToolCallContext, 'keep' | 'askPeople' | 'wait'>>;

/** How the requests of a call reach its server. */
export type ServerLine = {
  /** Of the tool. */
  name: string;
  server: string;
  /** Asks once more in a new session if the server has lost the one there was. */
  send<Answer>(request: ServerRequest<Answer>, signal: AbortSignal): Promise<Sent<Answer>>;
  /** An error for a call that may have acted: in doubt, if it must happen once. */
  doubt(why: string, cause?: unknown): Error;
};

export type ServerRequest<Answer> = (
  client: Client,
  options: RequestOptions,
  about: { _meta?: JsonObject },
) => Promise<Answer>;

export type Sent<Answer> = { session: McpSession } & ({ answer: Answer } | { error: unknown });

/** `answered`: the server's keys of what it has answers to. */
export const keptTask = z.object({
  type: z.literal('task'),
  taskId: z.string(),
  answered: z.array(z.string()),
});

type KeptTask = z.infer<typeof keptTask>;

const LONGEST_ID = 1_000;
const LONGEST_STATUS = 500;
const LONGEST_KEYS = 500;

const SHORTEST_POLL_MS = 100;
const LONGEST_POLL_MS = 300_000;
const DEFAULT_POLL_MS = 1_000;
const RETRY_POLL_MS = 1_000;
const CANCEL_MS = 2_000;

/** How long a server may give no answer about a task, in ms; less if it keeps the task for less. */
const PATIENCE_MS = 600_000;

/** How often the server may refuse answers to a task; an earlier request may have brought them. */
const MOST_REFUSALS = 5;

const INVALID_PARAMS = -32602;
const METHOD_NOT_FOUND = -32601;

const taskSchema = z.looseObject({
  taskId: z.string().min(1).max(LONGEST_ID),
  status: z.enum(['working', 'input_required', 'completed', 'failed', 'cancelled']),
  statusMessage: z.string().optional(),
  ttlMs: z.number().nullish(),
  pollIntervalMs: z.number().optional(),
  inputRequests: z.record(z.string().max(LONGEST_KEYS), z.json()).optional(),
  result: z.unknown().optional(),
  error: z.looseObject({ message: z.string() }).optional(),
});

/** Why there is no answer. `isAnswered`: the server says so itself; `isLost`: because it does not know the task. */
type Fault = { fault: string; isLost: boolean; isAnswered: boolean };

export type ServerTask = z.infer<typeof taskSchema>;

/** Whether the server began a task in place of a result. */
export function hasTask({ _meta }: Pick<CallToolResult, '_meta'>): boolean {
  return _meta?.[TASKS_EXTENSION] !== undefined;
}

/** That task. Throws if it cannot be read. */
export function taskIn({ _meta }: Pick<CallToolResult, '_meta'>): ServerTask {
  return taskSchema.parse(_meta?.[TASKS_EXTENSION]);
}

const pollMs = ({ pollIntervalMs = DEFAULT_POLL_MS }: Pick<ServerTask, 'pollIntervalMs'>) =>
  Math.min(Math.max(pollIntervalMs, SHORTEST_POLL_MS), LONGEST_POLL_MS);

/**
 * Asks for the task until it has ended, and returns its result. `begun`: the task as the call returned it. Rejects as a call
 * does, and when people have to be asked.
 */
export async function followTask(
  line: ServerLine,
  kept: KeptTask,
  context: KeepingContext,
  begun?: ServerTask,
): Promise<{ result: CallToolResult; session: McpSession }> {
  const { signal } = context;
  try {
    return await new TaskCourse(line, kept, context).follow(begun);
  } catch (error) {
    const isRefused = error instanceof Refused;
    if (isRefused || (signal.reason instanceof Error && signal.reason.name === 'Cancelled')) {
      const params = { taskId: kept.taskId };
      await line
        .send(makeRequest('tasks/cancel', params, z.unknown()), AbortSignal.timeout(CANCEL_MS))
        .catch(() => {});
    }
    throw error;
  }
}

/** The task would wait forever: for what people cannot be asked, or for other answers. */
class Refused extends Error {}

class TaskCourse {
  readonly #line: ServerLine;
  readonly #context: KeepingContext;
  #kept: KeptTask;
  #shown = '';
  /** How often the server refused answers. */
  #refusals = 0;

  constructor(line: ServerLine, kept: KeptTask, context: KeepingContext) {
    this.#line = line;
    this.#kept = kept;
    this.#context = context;
  }

  async follow(begun?: ServerTask): Promise<{ result: CallToolResult; session: McpSession }> {
    const { name, server, doubt } = this.#line;
    const { taskId } = this.#kept;
    let pauseMs = begun === undefined ? 0 : pollMs(begun);
    let patienceMs = PATIENCE_MS;
    for (let silentMs = 0; ; ) {
      if (pauseMs > 0) await this.#context.wait(pauseMs);
      this.#context.signal.throwIfAborted();
      const seen = await this.#ask('tasks/get', { taskId }, taskSchema);
      if ('fault' in seen) {
        if (seen.isLost) throw doubt(`no longer knows the task that it began (${seen.fault})`);
        silentMs += pauseMs;
        if (silentMs >= patienceMs)
          throw doubt(`gave no answer about the task that it began for ${silentMs} ms (${seen.fault})`);
        pauseMs = Math.max(pauseMs, RETRY_POLL_MS);
        continue;
      }
      const { answer: task, session } = seen;
      silentMs = 0;
      patienceMs = Math.min(task.ttlMs ?? PATIENCE_MS, PATIENCE_MS);
      this.#show(task, session);
      switch (task.status) {
        case 'completed':
          return { result: await this.#read(task.result), session };
        case 'failed': {
          const why = quoteServerText(task.error?.message ?? 'no reason', LONGEST_STATUS, session.redact);
          throw new Error(`"${name}": the task of the MCP server "${server}" failed: ${why}`);
        }
        case 'cancelled':
          throw new Error(`"${name}": the MCP server "${server}" cancelled its task.`);
        case 'input_required':
          await this.#answer(task, session);
          break;
        case 'working':
          break;
      }
      pauseMs = pollMs(task);
    }
  }

  #show({ status, statusMessage }: ServerTask, { redact }: McpSession): void {
    const message =
      statusMessage === undefined ? undefined : quoteServerText(statusMessage, LONGEST_STATUS, redact);
    const shown = { status, ...omitUndefined({ message }) };
    const text = JSON.stringify(shown);
    if (text === this.#shown) return;
    this.#shown = text;
    this.#context.progress(shown);
  }

  /** A request that is still listed after it was answered needs nothing more. */
  async #answer({ inputRequests = {} }: ServerTask, { redact }: McpSession): Promise<void> {
    const { name, server } = this.#line;
    const { taskId, answered } = this.#kept;
    const open = Object.entries(inputRequests).filter(([key]) => !answered.includes(key));
    if (open.length === 0) return;
    const inputResponses = await answersTo(
      this.#questions(open, { name, server, redact }),
      this.#context.askPeople,
    );
    const sent = await this.#ask('tasks/update', { taskId, inputResponses }, z.unknown());
    if ('fault' in sent) return this.#countRefusal(sent);
    this.#kept = { ...this.#kept, answered: [...answered, ...open.map(([key]) => key)] };
    await this.#context.keep(this.#kept);
  }

  #countRefusal({ fault, isAnswered }: Fault): void {
    if (isAnswered) this.#refusals += 1;
    if (this.#refusals < MOST_REFUSALS) return;
    const { name, server } = this.#line;
    throw new Refused(
      `"${name}": the MCP server "${server}" does not take the answers it asked for (${fault}).`,
    );
  }

  #questions(
    open: [string, JsonValue][],
    { name, server, redact }: { name: string; server: string; redact(text: string): string },
  ) {
    try {
      return readQuestions(Object.fromEntries(open), { server, round: 'task', redact });
    } catch (error) {
      throw new Refused(`"${name}": the MCP server "${server}" ${messageOf(error)}.`);
    }
  }

  async #read(result: unknown): Promise<CallToolResult> {
    const { specTypeSchemas } = await import('@modelcontextprotocol/client');
    const read = await specTypeSchemas.CallToolResult['~standard'].validate(result);
    if (read.issues !== undefined)
      throw this.#line.doubt('completed its task without a result that can be read');
    return read.value;
  }

  /** Requests about a task have no effect that a second one would repeat. */
  async #ask<Answer>(
    method: string,
    params: JsonObject,
    schema: z.ZodType<Answer>,
  ): Promise<{ answer: Answer; session: McpSession } | Fault> {
    try {
      const sent = await this.#line.send(makeRequest(method, params, schema), this.#context.signal);
      if ('answer' in sent) return sent;
      const { error, session } = sent;
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      const isLost = code === INVALID_PARAMS || code === METHOD_NOT_FOUND;
      return { fault: session.reasonOf(error), isLost, isAnswered: typeof code === 'number' };
    } catch (error) {
      this.#context.signal.throwIfAborted();
      return { fault: messageOf(error), isLost: false, isAnswered: false };
    }
  }
}

function makeRequest<Answer>(
  method: string,
  params: JsonObject,
  schema: z.ZodType<Answer>,
): ServerRequest<Answer> {
  return (client, options, about) =>
    client.request({ method, params: { ...params, ...about } }, schema, options);
}
