import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import { CallIds } from '../turn/call-ids.ts';
import { nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { finishReasonOf } from './finish-reason.ts';
import { PartReader } from './parts.ts';
import { PROVIDER } from './wire-part.ts';

/** Members of a candidate that describe its sources. They are not content and are never sent back. */
const METADATA = ['groundingMetadata', 'urlContextMetadata', 'citationMetadata'];

/**
 * Reads the turn of a response, complete or streamed.
 *
 * T1 Only the first candidate is read.
 * T2 The last finish reason and the last usage with counts win; metadata of one kind is merged.
 */
export class TurnReader {
  readonly #parts = new PartReader();
  readonly #ids: CallIds;
  #model: string;
  #hasCandidate = false;
  #finishReason: string | undefined;
  #blockReason: string | undefined;
  #usage: JsonObject | undefined;
  readonly #metadata = new Map<string, JsonObject>();

  constructor(transcript: readonly Item[], model: string) {
    this.#ids = new CallIds(transcript);
    this.#model = model;
  }

  /** Whether there is a candidate or a block reason. */
  get answered(): boolean {
    return this.#hasCandidate || this.ended;
  }

  /** Whether there is a finish reason or a block reason. */
  get ended(): boolean {
    return this.#finishReason !== undefined || this.#blockReason !== undefined;
  }

  /** Reads a response or an event of a stream. Returns the deltas to show to a reader of the stream. */
  read(response: JsonObject): TurnDelta[] {
    this.#model = nonEmpty(response.modelVersion) ?? this.#model;
    this.#blockReason = nonEmpty(objectOf(response.promptFeedback).blockReason) ?? this.#blockReason;
    if (isJsonObject(response.usageMetadata)) this.#readUsage(response.usageMetadata);
    const candidate = objectsOf(response.candidates).find(({ index }) => (index ?? 0) === 0);
    if (!candidate) return [];
    this.#hasCandidate = true;
    this.#finishReason = nonEmpty(candidate.finishReason) ?? this.#finishReason;
    for (const name of METADATA) this.#readMetadata(name, objectOf(candidate[name]));
    return objectsOf(objectOf(candidate.content).parts).flatMap(part => this.#parts.read(part));
  }

  /** Returns the turn. */
  turn(): ModelTurn {
    const { text, reasoning, toolCalls, items } = this.#parts.result(this.#ids);
    const sources = this.#metadata
      .entries()
      .map(([kind, data]): Item => ({ type: 'provider_item', kind, opaque: { provider: PROVIDER, data } }));
    return {
      text,
      reasoning,
      toolCalls,
      finishReason: finishReasonOf(this.#finishReason, this.#blockReason, { hasCalls: toolCalls.length > 0 }),
      usage: usageOf(this.#usage),
      model: this.#model,
      items: [...items, ...sources],
    };
  }

  #readUsage(usage: JsonObject): void {
    if (this.#usage === undefined || COUNTS.some(name => usage[name] !== undefined)) this.#usage = usage;
  }

  #readMetadata(kind: string, metadata: JsonObject): void {
    if (Object.keys(metadata).length === 0) return;
    this.#metadata.set(kind, { ...this.#metadata.get(kind), ...metadata });
  }
}

const COUNTS = ['promptTokenCount', 'candidatesTokenCount', 'thoughtsTokenCount', 'totalTokenCount'];

/** The API omits counts of 0, as usual for JSON converted from protobuf. */
function usageOf(usage: JsonObject | undefined): Usage | null {
  if (!usage) return null;
  return normalizeUsage({
    input: sum(usage.promptTokenCount, usage.toolUsePromptTokenCount),
    output: sum(usage.candidatesTokenCount, usage.thoughtsTokenCount),
    cachedInput: usage.cachedContentTokenCount,
    reasoning: usage.thoughtsTokenCount,
  });
}

function sum(...counts: (JsonValue | undefined)[]): number {
  return counts.reduce<number>((total, count) => total + (typeof count === 'number' ? count : 0), 0);
}
