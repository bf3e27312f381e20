import type { Caller } from '../../access/caller.ts';
import { digestOf, hashOf } from '../../protocol/content/digest.ts';
import { EngineError } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import { KeyedMutex } from '../../protocol/keyed-mutex.ts';
import { NO_USAGE } from '../gateway/answer/answer-event.ts';
import { readItemId, readResponseId, responseIdOf } from '../gateway/answer/wire-ids.ts';
import type { GatewayService, RequestConversation } from '../gateway/gateway-service.ts';
import type { LiveResponse, LiveResponses, MakeWriter } from '../gateway/live/response-feed.ts';
import { compactionItem, isKeptByCompaction } from '../gateway/request/compaction-items.ts';
import { compactedMembers } from '../gateway/request/field-table.ts';
import { type GatewayRequest, recordOf } from '../gateway/request/gateway-request.ts';
import {
  type FoundResponse,
  type ItemSpan,
  mayRetry,
  type RunResponses,
  type UnstoredChain,
} from '../gateway/runs/response-library.ts';
import type { RequestKey } from '../gateway/runs/response-spec.ts';
import { invalid, missing, ResponsesError } from '../openai-error.ts';
import { readCreateBody } from './request-body.ts';
import { ResponseWriter, usageObject, type WireEvent, writeResponse } from './response-writer.ts';
import { wireInputs } from './wire-input.ts';

export type WireResponse = LiveResponse<WireEvent, JsonObject>;

type Once = { key: RequestKey; runId: string };

type OpenConversation = (id: string, caller: Caller) => RequestConversation;

const writeEvents: MakeWriter<WireEvent, JsonObject> = (head, emit, firstNumber) =>
  new ResponseWriter(head, emit, firstNumber);

type CreateOptions = {
  chain?: UnstoredChain;
  ownRunId?: string;
  key?: string;
  signal?: AbortSignal;
  tellIgnored?: (fields: readonly string[]) => void;
};

export class Responses {
  readonly service: GatewayService;
  readonly #openConversation: OpenConversation;
  /** One request of a key at a time. */
  readonly #mutex = new KeyedMutex();

  constructor(service: GatewayService, openConversation: OpenConversation) {
    this.service = service;
    this.#openConversation = openConversation;
  }

  /**
   * Throws a `ResponsesError` before doing anything if the request is refused. `chain` has the unstored responses of a
   * connection; `ownRunId` is the run of the response that the request may continue, if it is not the last of them. With a
   * `key` (`Idempotency-Key`), a request that was answered before gets its response again. `signal` is aborted when the
   * client leaves. `tellIgnored` gets the built-in tools that are left out, as the table of fields names them.
   */
  async create(
    request: GatewayRequest,
    caller: Caller,
    { chain, ownRunId, key: header, signal, tellIgnored }: CreateOptions = {},
  ): Promise<WireResponse> {
    const { tools: kept } = this.service.resolve(request).request;
    const left = request.tools.filter(tool => !kept.includes(tool));
    if (left.length > 0) tellIgnored?.(left.map(({ type }) => `tools[${type}]`));
    const how = { ...this.#placeOf(request, caller), ...omitUndefined({ chain, ownRunId, signal }) };
    const begin = (once?: Once) =>
      this.service.answer(request, caller, writeEvents, { ...how, ...omitUndefined({ once }) });
    if (header === undefined) return await begin();
    const key = readRequestKey(header, caller, request);
    return await this.#once(key, caller, begin, async () => {
      const joined = (await how.conversation?.runsWithKey(key)) ?? [];
      return [...joined, ...runsToContinue(request)];
    });
  }

  /**
   * The events of a response without output, whose input the client sends ahead. `at` is in ms since the epoch. Throws a
   * `ResponsesError` if the request is refused.
   */
  prepare(asked: GatewayRequest, { id, at }: { id: string; at: number }): WireEvent[] {
    const { request, model } = this.service.resolve(asked);
    const none = {
      lifetime: 'connection' as const,
      exposed: {},
      decisions: [],
      messages: [],
      lists: [],
      turnsBefore: 0,
    };
    const events: WireEvent[] = [];
    const head = { id, createdAt: at, spec: { request: recordOf(request), model, ...none } };
    const writer = writeEvents(head, event => events.push(event), 0);
    writer.take({ type: 'begun' });
    writer.take({ type: 'usage', usage: NO_USAGE });
    writer.take({ type: 'ended', at, end: { status: 'completed' }, retryAfter: null });
    return events;
  }

  /** Begins, unless a request with the key has begun. `continued`: the runs that may have it, besides its own. */
  async #once(
    key: RequestKey,
    caller: Caller,
    begin: (once: Once) => Promise<WireResponse>,
    continued: () => Promise<readonly string[]>,
  ): Promise<WireResponse> {
    return await this.#mutex.run(key.key, async () => {
      for (let tries = 1; ; tries += 1) {
        const known = await this.#findAnswered(key, await continued(), caller);
        if (!('key' in known)) return known;
        try {
          return await begin(known);
        } catch (error) {
          // Another process was first with the same key.
          if (!(error instanceof EngineError) || error.code !== 'run-exists' || tries > 3) throw error;
        }
      }
    });
  }

  /** The response to an earlier request with this key, except failures that the client may retry. */
  async #findAnswered(
    key: RequestKey,
    continued: readonly string[],
    caller: Caller,
  ): Promise<WireResponse | Once> {
    const { library, live, runs } = this.service;
    const visible = library.seenBy(caller);
    for (const runId of new Set(continued)) {
      const found = findKeyed(await visible.load(runId), key);
      if (found !== undefined && !mayRetry(found)) return await runs.repeat(found, writeEvents);
    }
    for (let attempt = 1; ; attempt += 1) {
      const runId = `run_${digestOf({ key: key.key, attempt: attempt - 1 })}`;
      const unstored = await findUnstored(live, runId, key);
      if (unstored !== undefined) return unstored;
      const found = findKeyed(await visible.loadAny(runId), key);
      // A run that requests do not find may have the id.
      const isFree = attempt >= MOST_ATTEMPTS || (await library.store.get(runId)) === undefined;
      if (found === undefined && isFree) return { key, runId };
      if (found === undefined) continue;
      if (attempt >= MOST_ATTEMPTS || !mayRetry(found)) return await runs.repeat(found, writeEvents);
    }
  }

  #placeOf({ conversation }: GatewayRequest, caller: Caller): { conversation?: RequestConversation } {
    return conversation === undefined ? {} : { conversation: this.#openConversation(conversation, caller) };
  }

  async countInput(request: GatewayRequest, caller: Caller): Promise<number> {
    return await this.service.countInput(request, caller, this.#placeOf(request, caller));
  }

  /** `result` makes the compaction of the finished response. Its keys (`Idempotency-Key`) are apart from those of responses. */
  async compact(
    value: unknown,
    caller: Caller,
    { key: header, ...session }: { key?: string } & Pick<GatewayRequest, 'session'> = {},
  ) {
    const request = { ...readCompactBody(value), ...session };
    this.service.resolve(request);
    const begin = (once?: Once) =>
      this.service.compact(request, caller, writeEvents, omitUndefined({ once }));
    const key = header === undefined ? undefined : readRequestKey(header, caller, request, 'compact');
    const live = key === undefined ? await begin() : await this.#once(key, caller, begin, async () => []);
    return { live, result: (response: JsonObject) => this.#compacted(live.runId, response) };
  }

  async #compacted(runId: string, { id, created_at, usage }: JsonObject): Promise<JsonObject> {
    const run = await this.service.library.load(runId);
    const kept = run?.started.input.filter(isKeptByCompaction) ?? [];
    return {
      id: id ?? null,
      object: 'response.compaction',
      created_at: created_at ?? null,
      output: [...wireInputs(kept, {}), compactionItem({ runId, count: 1 })] satisfies JsonValue[],
      usage: usage ?? usageObject(NO_USAGE),
    };
  }

  async retrieve(responseId: string, caller: Caller): Promise<JsonObject> {
    return writeResponse(await this.service.find(responseId, caller)).whole;
  }

  async resume(responseId: string, caller: Caller, startingAfter?: number) {
    const found = await this.service.find(responseId, caller);
    return await this.service.runs.resume(found, writeEvents, startingAfter);
  }
}

function readCompactBody(value: unknown): GatewayRequest {
  const body = isJsonObject(value) ? compactedMembers(value) : {};
  if (body.model === undefined) throw missing('model');
  const asked = readCreateBody(body);
  if (asked.input.length > 0 || asked.previousResponseId !== undefined) return asked;
  const message = "Missing required parameter: 'input'. Send the conversation, or a 'previous_response_id'.";
  throw invalid('input', 'missing_required_parameter', message);
}

function runsToContinue({ previousResponseId: previous, input }: GatewayRequest): string[] {
  const items = input.flatMap(item => (item.type === 'sent' ? item.items : []));
  const decided = items.map(item =>
    item.type === 'approval_response' ? readItemId(item.callId)?.runId : undefined,
  );
  const continued = previous === undefined ? undefined : readResponseId(previous)?.runId;
  return [continued, ...decided].filter(runId => runId !== undefined);
}

async function findUnstored(
  live: LiveResponses,
  runId: string,
  key: RequestKey,
): Promise<WireResponse | undefined> {
  const feed = live.find(responseIdOf(runId, 1));
  if (feed === undefined || feed.spec.request.store !== false || feed.spec.key === undefined)
    return undefined;
  assertSameRequest(key, { known: feed.spec.key, deleted: false });
  if (!feed.isWrittenBy(writeEvents)) return undefined;
  if (feed.isLeft) await feed.run.settled().catch(() => {});
  if (feed.isLeft) return undefined;
  const reader = feed.attach();
  if (reader.end()?.status !== 'failed') return reader;
  reader.leave();
  return undefined;
}

/** Of an `Idempotency-Key`, in characters. */
const LONGEST_KEY = 255;

/** Uses of a key after failures that the client may retry. */
const MOST_ATTEMPTS = 20;

/** Callers who see the same responses share keys. `of`: what the keys are for. Throws a `ResponsesError` for an unusable key. */
function readRequestKey(
  key: string,
  { name, labels }: Caller,
  request: GatewayRequest,
  of?: 'compact',
): RequestKey {
  if (key === '' || key.length > LONGEST_KEY) {
    const message = `The header Idempotency-Key is not valid: expected 1 to ${LONGEST_KEY} characters.`;
    throw invalid(null, 'invalid_idempotency_key', message);
  }
  const owner = Object.keys(labels).length > 0 ? { labels } : { name };
  const { verbatim = [], conversation = null } = request;
  const content = { ...recordOf(request), verbatim, conversation, stream: null, session: null };
  return { key: hashOf(toJson({ owner, key, ...omitUndefined({ of }) })), body: hashOf(toJson(content)) };
}

/** Throws a `ResponsesError` with status 409 if the key came with another body before, or its response was deleted. */
function assertSameRequest(
  key: RequestKey,
  { known, deleted }: { known: RequestKey; deleted: boolean },
): void {
  if (!deleted && known.body === key.body) return;
  throw new ResponsesError(
    deleted
      ? 'The response to the request with this Idempotency-Key was deleted. Use another key.'
      : 'This Idempotency-Key was used with another body. Use another key.',
    { status: 409, code: 'idempotency_key_reused' },
  );
}

function findKeyed(run: RunResponses | undefined, key: RequestKey): FoundResponse | undefined {
  const span = run?.spans.findLast(({ spec }: ItemSpan) => spec.key?.key === key.key);
  if (run === undefined || span?.spec.key === undefined) return undefined;
  assertSameRequest(key, { known: span.spec.key, deleted: span.deleted });
  return { run, span };
}
