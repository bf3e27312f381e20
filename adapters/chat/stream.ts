import { ProviderError } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { TurnDelta, Usage } from '../../protocol/turn.ts';
import { errorFromBody, malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { isBlank, isDone, type SseEvent } from '../http/read-sse.ts';
import { showJson } from '../http/redact-secrets.ts';
import { integerIn, jsonIn, nonEmpty, objectOf, objectsOf, shorten } from '../turn/json-access.ts';
import { isErrorBody } from '../turn/single-turn.ts';
import type { Answer } from './answer.ts';
import { isFailure } from './finish-reason.ts';
import { usageOf } from './usage.ts';

/** How an answer ended. `finish` is the provider's finish reason, empty if it sent none. */
export type Ending = { finish: string; usage: Usage | null; model: string | undefined };

/**
 * Yields the deltas of a streamed answer and returns how it ended. A stream ends at `[DONE]` or at its end,
 * and must have sent a finish reason; later chunks without one do not reset it. Throws a `ProviderError` for
 * an error in the stream and for a truncated stream.
 */
export async function* readChatStream(
  events: AsyncIterable<SseEvent>,
  answer: Answer,
  context: ProviderContext,
): AsyncGenerator<TurnDelta, Ending, undefined> {
  const ending: Ending = { finish: '', usage: null, model: undefined };
  let count = 0;
  for await (const { event, data } of events) {
    if (isDone(data)) break;
    if (isBlank(data)) continue;
    const chunk = jsonIn(data);
    if (event === 'error') throw errorFromBody(chunk ?? data, context);
    if (!isJsonObject(chunk)) throw malformedStream(`an event is not JSON: ${shorten(data, 80)}`, context);
    if (isErrorBody(chunk)) throw errorFromBody(chunk, context);
    count += 1;
    const choice = firstChoice(chunk);
    if (choice) {
      yield* answer.readDelta(objectOf(choice.delta));
      throwIfFailed(choice, context);
      ending.finish = nonEmpty(choice.finish_reason) ?? ending.finish;
    }
    ending.usage = usageIn(chunk, choice) ?? ending.usage;
    ending.model = nonEmpty(chunk.model) ?? ending.model;
  }
  if (ending.finish !== '') return ending;
  throw malformedStream(
    `truncated stream: it ended after ${count} events without a finish_reason or an error.`,
    context,
  );
}

/**
 * Reads a complete body and returns how it ended. Throws a `ProviderError` if it has no choices or reports a
 * failure.
 */
export function readChatBody(body: JsonObject, answer: Answer, context: ProviderContext): Ending {
  const choice = firstChoice(body);
  if (!choice) throw malformedStream('the response has no choices', context, body);
  throwIfFailed(choice, context);
  answer.readMessage(objectOf(choice.message));
  return {
    finish: nonEmpty(choice.finish_reason) ?? '',
    usage: usageIn(body, choice) ?? null,
    model: nonEmpty(body.model),
  };
}

/** Only the first of several choices is read. */
function firstChoice({ choices }: JsonObject): JsonObject | undefined {
  return objectsOf(choices).find(choice => (integerIn(choice.index) ?? 0) === 0);
}

/** Groq sends usage in `x_groq`, Moonshot in the choice. */
function usageIn(chunk: JsonObject, choice: JsonObject | undefined): Usage | null {
  return usageOf(chunk.usage) ?? usageOf(objectOf(chunk.x_groq).usage) ?? usageOf(choice?.usage);
}

/** Throws for a choice that contains an error or has a finish reason that means a failure. */
function throwIfFailed(choice: JsonObject, context: ProviderContext): void {
  if (isErrorBody({ error: choice.error ?? null })) {
    throw errorFromBody({ error: choice.error ?? null }, context);
  }
  const finish = nonEmpty(choice.finish_reason) ?? '';
  if (!isFailure(finish)) return;
  const code = finish === 'error' ? 'server_error' : finish;
  const error = { code, message: `the answer ended with the finish reason "${finish}"` };
  const { message, ...details } = errorFromBody({ error }, context);
  throw new ProviderError(message, { ...details, raw: showJson(choice, context.secrets) });
}
