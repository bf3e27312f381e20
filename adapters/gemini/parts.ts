import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { ToolCall, TurnDelta } from '../../protocol/turn.ts';
import type { CallIds } from '../turn/call-ids.ts';
import { nonEmpty } from '../turn/json-access.ts';
import { toolCall } from '../turn/tool-call.ts';
import { CallReader } from './call.ts';
import { imageURL } from './media.ts';
import { keep, PROVIDER, type Span, signed } from './wire-part.ts';

/** The content of a turn, from all its parts. */
type ReadParts = { text: string; reasoning: string; toolCalls: ToolCall[]; items: Item[] };

type Run = { type: 'text' | 'reasoning'; pieces: string[]; spans: Span[] };
type Piece = Run | { type: 'call'; call: CallReader } | { type: 'part'; part: JsonObject };

/**
 * Reads the parts of a model turn in order.
 *
 * P1 Consecutive texts form one item, as do consecutive thoughts. A signed part keeps its extent in the item;
 *    unsigned parts are joined, so that the result does not depend on how a stream was split.
 * P2 A call whose arguments arrive in pieces is open until its last piece, or until another call starts.
 * P3 Parts without a portable form are kept unchanged.
 */
export class PartReader {
  readonly #pieces: Piece[] = [];
  #open: CallReader | undefined;
  #calls = 0;

  /** Adds a part. Returns the deltas to show to a reader of the stream. */
  read(part: JsonObject): TurnDelta[] {
    if (typeof part.text === 'string') return this.#readText(part, part.text);
    if (isJsonObject(part.functionCall)) return this.#readCall(part, part.functionCall);
    if (kindOf(part) !== undefined) this.#pieces.push({ type: 'part', part });
    return [];
  }

  /** Returns the content of the turn. A call that is still open is included as it is. */
  result(ids: CallIds): ReadParts {
    const read: ReadParts = { text: '', reasoning: '', toolCalls: [], items: [] };
    for (const piece of this.#pieces) {
      if (piece.type === 'call') addCall(read, piece.call, ids);
      else if (piece.type === 'part') read.items.push(partItem(piece.part));
      else addRun(read, piece);
    }
    return read;
  }

  #readText(part: JsonObject, text: string): TurnDelta[] {
    const thoughtSignature = nonEmpty(part.thoughtSignature);
    if (text === '' && thoughtSignature === undefined) return [];
    const type = part.thought === true ? 'reasoning' : 'text';
    const run = this.#run(type);
    run.pieces.push(text);
    const last = run.spans.at(-1);
    if (last && thoughtSignature === undefined && last.thoughtSignature === undefined) {
      last.length += text.length;
    } else run.spans.push({ length: text.length, ...signed(thoughtSignature) });
    return text === '' ? [] : [{ type, text }];
  }

  #run(type: Run['type']): Run {
    const last = this.#pieces.at(-1);
    if (last?.type === type) return last;
    const run: Run = { type, pieces: [], spans: [] };
    this.#pieces.push(run);
    return run;
  }

  #readCall(part: JsonObject, source: JsonObject): TurnDelta[] {
    const name = nonEmpty(source.name);
    const deltas = name === undefined ? [] : this.#close();
    if (name !== undefined) {
      this.#open = new CallReader(this.#calls++, name);
      this.#pieces.push({ type: 'call', call: this.#open });
      deltas.push({ type: 'call_started', index: this.#open.index, name });
    }
    this.#open?.push(part, source);
    return source.willContinue === true ? deltas : [...deltas, ...this.#close()];
  }

  #close(): TurnDelta[] {
    const call = this.#open;
    this.#open = undefined;
    return call ? [{ type: 'call_arguments', index: call.index, text: call.arguments() }] : [];
  }
}

function addRun(read: ReadParts, { type, pieces, spans }: Run): void {
  const text = pieces.join('');
  const kept = keep(spans.some(span => span.thoughtSignature !== undefined) ? { spans } : {});
  read[type] += text;
  if (type === 'reasoning') read.items.push({ type, text, ...kept });
  else if (text !== '') {
    read.items.push({ type: 'message', role: 'assistant', content: [{ type, text }], ...kept });
  } else {
    for (const { thoughtSignature } of spans)
      read.items.push(partItem({ text, ...signed(thoughtSignature) }));
  }
}

function addCall(read: ReadParts, call: CallReader, ids: CallIds): void {
  const { name, id, thoughtSignature } = call;
  const callId = ids.name(id, read.toolCalls.length);
  const made = toolCall(callId, name, call.arguments());
  const kept = keep({ ...signed(thoughtSignature), ...(id === undefined ? {} : { hasId: true }) });
  read.toolCalls.push(made);
  read.items.push({ type: 'tool_call', callId, name, arguments: made.arguments, ...kept });
}

function partItem(part: JsonObject): Item {
  const url = isJsonObject(part.inlineData) && part.thought !== true ? imageURL(part.inlineData) : undefined;
  if (url !== undefined) {
    const kept = { opaque: { provider: PROVIDER, data: signed(nonEmpty(part.thoughtSignature)) } };
    return { type: 'message', role: 'assistant', content: [{ type: 'image', url }], ...kept };
  }
  return {
    type: 'provider_item',
    kind: kindOf(part) ?? 'part',
    opaque: { provider: PROVIDER, data: { part } },
  };
}

/** Returns the member that identifies the kind of a part; `undefined` for an empty part. */
function kindOf(part: JsonObject): string | undefined {
  return Object.keys(part).find(name => !SECONDARY_MEMBERS.has(name)) ?? Object.keys(part)[0];
}

const SECONDARY_MEMBERS = new Set([
  'thought',
  'thoughtSignature',
  'partMetadata',
  'videoMetadata',
  'mediaResolution',
]);
