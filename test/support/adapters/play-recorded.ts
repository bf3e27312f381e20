import { type Answer, replayFetch } from '../../../adapters/conformance.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../../protocol/turn.ts';
import { clientFor, openRecorded } from './recorded-adapters.ts';
import { exchangeOf, isStreamed, type RecordedTurn, readRecordedJson, readRecording } from './recordings.ts';
import { calling, collect, request } from './requests.ts';

/** The key of every call; no error may contain it. */
export const RECORDED_KEY = 'recorded-key-5d21';

/**
 * Makes a request that is answered as recorded. Returns the requests sent, and the turn if the response has
 * one. `body`: the recorded request, for the model and the options that decide which items go back.
 */
export async function playRecorded(
  recorded: RecordedTurn,
  body: JsonObject,
  modelRequest: ModelRequest,
): Promise<{ sent: JsonObject; turn: ModelTurn | undefined }> {
  const exchange = exchangeOf(recorded);
  const { fetch, requests } = replayFetch({
    status: recorded.status,
    headers: { ...recorded.headers, 'content-type': exchange.contentType ?? '' },
    chunks: [exchange.response],
  });
  const adapter = openRecorded(recorded, {
    model: String(body.model ?? /models\/([^:]+)/.exec(recorded.uri ?? '')?.[1] ?? 'recorded'),
    apiKey: RECORDED_KEY,
    baseURL: 'http://recorded.invalid',
    fetch,
    maxResponseBytes: 10_000_000,
    idleTimeoutMs: 60_000,
    providerOptions: optionsIn(body),
  });
  let turn: ModelTurn | undefined;
  try {
    if (isStreamed(recorded)) {
      const last = (await collect(adapter.stream(modelRequest, calling()))).at(-1);
      turn = last?.type === 'turn' ? last.turn : undefined;
    } else turn = await adapter.generate(modelRequest, calling());
  } catch (error) {
    if (recorded.expect.outcome !== 'http_error' && recorded.expect.finishReason !== 'error') throw error;
  }
  return { sent: requests[0]?.body ?? {}, turn };
}

/** The options that decide how a dialect sends reasoning back. */
function optionsIn(body: JsonObject): JsonObject {
  return Object.fromEntries(
    ['store', 'thinking'].flatMap(name => (body[name] === undefined ? [] : [[name, body[name]]])),
  );
}

type Played = { turn: ModelTurn; deltas: TurnDelta[] };
export type PlayRecorded = (
  chunks?: Answer['chunks'],
  as?: 'stream' | 'generate',
  deltas?: TurnDelta[],
) => Promise<Played>;

/**
 * Plays the recording through one adapter, streamed as recorded by default; `deltas` collects the streamed
 * deltas. `through` makes the requests.
 */
export function recordedPlayer(recorded: RecordedTurn, through: 'fetch' | 'client' = 'fetch'): PlayRecorded {
  let replay = replayFetch();
  const model = recorded.request
    ? String(readRecordedJson(recorded.request).model ?? 'recorded')
    : 'recorded';
  const settings = {
    apiKey: RECORDED_KEY,
    baseURL: 'http://recorded.invalid',
    fetch: (...modelRequest: Parameters<typeof fetch>) => replay.fetch(...modelRequest),
  };
  const client = through === 'client' ? clientFor(recorded, settings) : undefined;
  const adapter = openRecorded(recorded, {
    model,
    ...settings,
    ...(client && { client }),
    maxResponseBytes: 10_000_000,
    idleTimeoutMs: 60_000,
  });
  const { contentType = '' } = exchangeOf(recorded);
  return async (
    chunks = [readRecording(recorded.response)],
    as = isStreamed(recorded) ? 'stream' : 'generate',
    deltas = [],
  ) => {
    const headers = { ...recorded.headers, 'content-type': contentType };
    replay = replayFetch({ status: recorded.status, headers, chunks });
    if (as === 'generate') return { deltas: [], turn: await adapter.generate(request('hi'), calling()) };
    for await (const delta of adapter.stream(request('hi'), calling())) deltas.push(delta);
    const last = deltas.pop();
    if (last?.type !== 'turn') throw new Error('Expected the stream to end with a turn.');
    return { deltas, turn: last.turn };
  };
}
