/**
 * A call that its server does not answer with a result at once: it asks people first, or begins a task. The process may end
 * in between; another one continues from what is kept.
 *
 * R1 What the server said is kept before anything follows from it.
 * R2 That answers are sent is kept before they are, until it is known that they did not arrive. An attempt that finds answers sent and no result does not know whether
 *    the call has happened: it is in doubt if it must happen once, and sends them again otherwise.
 * R3 `requestState` goes back unchanged, with the answers to the result that brought it and with no others.
 */
import type { CallToolResult, InputRequiredResult } from '@modelcontextprotocol/client';
import * as z from 'zod';
import { backOffMs } from '../../protocol/back-off.ts';
import { EngineError, isThrown, messageOf } from '../../protocol/error.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { ToolCallContext } from '../../protocol/tool.ts';
import { answersTo, type InputResponses, readQuestions } from './elicitation.ts';
import { isInputRequired, readResult } from './read-result.ts';
import type { McpSession } from './session.ts';
import {
  followTask,
  hasTask,
  type KeepingContext,
  keptTask,
  type ServerLine,
  type ServerTask,
  taskIn,
} from './tasks.ts';

/** What a request adds to the one before it. */
export type Again = { inputResponses?: InputResponses; requestState?: string };

type Answer = { result: CallToolResult | InputRequiredResult; session: McpSession };

export type CallLine = ServerLine & {
  /** Makes the call, or makes it again with answers. Rejects with an `EngineError` if it was not carried out. */
  call(again: Again): Promise<Answer>;
  isOnce: boolean;
};

const question = z.object({
  name: z.string(),
  question: z.object({
    key: z.string(),
    message: z.string(),
    schema: z.record(z.string(), z.json()),
    url: z.exactOptional(z.string()),
  }),
});

/** A result with `input_required`, the `round`-th one of the call; `sent`: its answers are on their way. */
const keptRound = z.object({
  type: z.enum(['asked', 'sent']),
  round: z.int(),
  questions: z.array(question),
  requestState: z.exactOptional(z.string()),
});

const keptState = z.discriminatedUnion('type', [keptRound, keptTask]);

type Round = z.infer<typeof keptRound>;
type Kept = z.infer<typeof keptState>;

const MOST_ROUNDS = 100;
/** In characters. */
const LONGEST_STATE = 100_000;
/** The wait before the second request, if the server asks for nothing but another one. */
const PAUSE: { baseMs: number; maxMs: number } = { baseMs: 250, maxMs: 5_000 };

/** Whether the engine can ask people for this call and keep how far it has come. */
export function isKeeping(context: ToolCallContext): context is KeepingContext {
  return context.keep !== undefined && context.askPeople !== undefined && context.wait !== undefined;
}

/** Returns the result of the call. Rejects with the errors of a call, and when people have to be asked. */
export async function completeCall(line: CallLine, context: ToolCallContext): Promise<JsonValue> {
  const { result, session } = isKeeping(context)
    ? await new CallCourse(line, context).complete()
    : await line.call({});
  if (!isInputRequired(result) && hasTask(result))
    throw line.doubt('began a task, although this call can follow none');
  return readResult(line.name, result, session.redact);
}

class CallCourse {
  readonly #line: CallLine;
  readonly #context: KeepingContext;

  constructor(line: CallLine, context: KeepingContext) {
    this.#line = line;
    this.#context = context;
  }

  async complete(): Promise<Answer> {
    const kept = this.#readKept();
    if (kept?.type === 'task') return await followTask(this.#line, kept, this.#context);
    if (kept?.type === 'sent' && this.#line.isOnce)
      throw this.#line.doubt('was sent the answers, and the process stopped before the result arrived');
    for (let round: Round | undefined = kept; ; ) {
      const { result, session }: Answer =
        round === undefined ? await this.#line.call({}) : await this.#callAgain(round);
      if (!isInputRequired(result)) return await this.#finish(result, session);
      round = this.#readRound(result, (round?.round ?? 0) + 1, session);
      await this.#context.keep(round);
    }
  }

  #readKept(): Kept | undefined {
    const { kept } = this.#context;
    if (kept === undefined) return undefined;
    const read = keptState.safeParse(kept);
    if (read.success) return read.data;
    throw this.#line.doubt('began the call, and how far it came cannot be read');
  }

  /** What the server did not carry out, it may be asked again by another attempt. */
  async #callAgain(round: Round): Promise<Answer> {
    const again = await this.#answer(round);
    try {
      return await this.#line.call(again);
    } catch (error) {
      if (isThrown(error, EngineError)) await this.#context.keep({ ...round, type: 'asked' });
      throw error;
    }
  }

  /** Waits for the answers. They are kept as sent when this returns. */
  async #answer(round: Round): Promise<Again> {
    const { questions, requestState, type } = round;
    const inputResponses = await answersTo(questions, this.#context.askPeople);
    if (questions.length === 0) await this.#context.wait(backOffMs(round.round, PAUSE));
    this.#context.signal.throwIfAborted();
    if (type === 'asked') await this.#context.keep({ ...round, type: 'sent' });
    return {
      ...(questions.length > 0 && { inputResponses }),
      ...omitUndefined({ requestState }),
    };
  }

  #readRound(result: InputRequiredResult, round: number, { redact }: McpSession): Round {
    const { name, server } = this.#line;
    const { inputRequests = {}, requestState } = result;
    try {
      if (round > MOST_ROUNDS) throw new Error(`asks for more input after ${MOST_ROUNDS} rounds of it`);
      if (requestState !== undefined && requestState.length > LONGEST_STATE)
        throw new Error(`asks to keep a state of more than ${LONGEST_STATE} characters, which is the limit`);
      const asked = JSON.parse(JSON.stringify(inputRequests));
      const questions = readQuestions(asked, { server, round: String(round), redact });
      return { type: 'asked', round, questions, ...omitUndefined({ requestState }) };
    } catch (error) {
      throw new Error(
        `"${name}": the MCP server "${server}" ${messageOf(error)}. The call ends without a result.`,
      );
    }
  }

  async #finish(result: CallToolResult, session: McpSession): Promise<Answer> {
    if (!hasTask(result)) return { result, session };
    const task = this.#readTask(result);
    const kept = { type: 'task' as const, taskId: task.taskId, answered: [] };
    await this.#context.keep(kept);
    return await followTask(this.#line, kept, this.#context, task);
  }

  #readTask(result: CallToolResult): ServerTask {
    try {
      return taskIn(result);
    } catch {
      throw this.#line.doubt('began a task that cannot be read');
    }
  }
}
