import { ProviderError } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { TurnDelta, Usage } from '../../protocol/turn.ts';
import { errorFromBody, malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { isDone, type SseEvent, saysNothing } from '../http/read-sse.ts';
import { showJson } from '../http/redact-secrets.ts';
import { integerIn, jsonIn, nonEmpty, objectOf, objectsOf, shorten } from '../turn/json-access.ts';
import { isErrorBody } from '../turn/single-turn.ts';
import type { Answer } from './answer.ts';
import { isFailure } from './finish-reason.ts';
import { usageOf } from './usage.ts';

/** How an answer ended. `finish` is the provider's word; empty where it said none. */
export type Ending = { finish: string; usage: Usage | null; model: string | undefined };

/**
 * Yields the deltas of a streamed answer and returns how it ended: at `[DONE]`, or where the stream
 * ends behind a finish reason. What comes without one later resets nothing. Throws a `ProviderError` for
 * an error anywhere in the stream, and for a stream that just stops.
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
    if (saysNothing(data)) continue;
    const chunk = jsonIn(data);
    if (event === 'error') throw errorFromBody(chunk ?? data, context);
    if (!isJsonObject(chunk)) throw malformedStream(`an event is not JSON: ${shorten(data, 80)}`, context);
    if (isErrorBody(chunk)) throw errorFromBody(chunk, context);
    count += 1;
    const choice = firstChoice(chunk);
    if (choice) {
      yield* answer.readDelta(objectOf(choice.delta));
      refuseFailed(choice, context);
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

/** How a whole body ended. Throws a `ProviderError` for one without a message. */
export function readChatBody(body: JsonObject, answer: Answer, context: ProviderContext): Ending {
  const choice = firstChoice(body);
  if (!choice) throw malformedStream('the response has no choices', context, body);
  refuseFailed(choice, context);
  answer.readMessage(objectOf(choice.message));
  return {
    finish: nonEmpty(choice.finish_reason) ?? '',
    usage: usageIn(body, choice) ?? null,
    model: nonEmpty(body.model),
  };
}

/** Of several answers only the first is read. */
function firstChoice({ choices }: JsonObject): JsonObject | undefined {
  return objectsOf(choices).find(choice => (integerIn(choice.index) ?? 0) === 0);
}

/** Groq and Moonshot have places of their own for it. */
function usageIn(chunk: JsonObject, choice: JsonObject | undefined): Usage | null {
  return usageOf(chunk.usage) ?? usageOf(objectOf(chunk.x_groq).usage) ?? usageOf(choice?.usage);
}

/** A choice with an error of its own, or one that only says that it failed. */
function refuseFailed(choice: JsonObject, context: ProviderContext): void {
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
