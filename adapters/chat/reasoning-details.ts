import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { nonEmpty, textIn } from '../turn/json-access.ts';

/**
 * OpenRouter's `reasoning_details`, put together from pieces.
 *
 * R1 Pieces of one type, index and id are one detail; without an index, a piece belongs to the last
 *    detail if that is of its type and id.
 * R2 Text, summary and data are joined; of all else, such as the signature, the last that was said counts.
 */
export class ReasoningDetails {
  #details: JsonObject[] = [];

  /** Takes a detail that is whole. */
  add(detail: JsonObject): void {
    this.#details.push({ ...detail });
  }

  push(piece: JsonObject): void {
    const detail = this.#find(piece);
    if (!detail) {
      this.add(piece);
      return;
    }
    for (const [name, value] of Object.entries(piece)) {
      if (value === null) continue;
      detail[name] = JOINED.has(name) ? joined(detail[name], value) : value;
    }
  }

  /** In the order in which they began. */
  all(): JsonObject[] {
    return this.#details;
  }

  #find(piece: JsonObject): JsonObject | undefined {
    if (typeof piece.index !== 'number') {
      const last = this.#details.at(-1);
      return last && typeof last.index !== 'number' && isSame(last, piece) ? last : undefined;
    }
    return this.#details
      .slice(-LOOKED_AT)
      .find(detail => detail.index === piece.index && isSame(detail, piece));
  }
}

/** A piece belongs to one of the latest details: older ones are not looked through for every piece. */
const LOOKED_AT = 64;

const JOINED: ReadonlySet<string> = new Set(['text', 'summary', 'data']);

function isSame(detail: JsonObject, piece: JsonObject): boolean {
  const [known, said] = [nonEmpty(detail.id), nonEmpty(piece.id)];
  return detail.type === piece.type && (known === undefined || said === undefined || known === said);
}

function joined(known: JsonValue | undefined, piece: JsonValue): JsonValue {
  if (typeof piece !== 'string') return piece;
  const text = textIn(known);
  return text + newSuffix(text, piece);
}

/** The readable text of a detail; encrypted ones have none. */
export function detailText(detail: JsonObject): string {
  return detail.type === 'reasoning.summary' ? textIn(detail.summary) : textIn(detail.text);
}

/** Whether a detail is taken back: Anthropic's text only with its signature. */
export function isReplayable({ type, format, signature }: JsonObject): boolean {
  const anthropic = nonEmpty(format)?.startsWith('anthropic') === true;
  return !(anthropic && type === 'reasoning.text' && nonEmpty(signature) === undefined);
}

/**
 * What a piece adds to the text so far, for streams that send the whole text again. A text too short
 * to tell may well repeat itself, and stays as it is.
 */
export function newSuffix(known: string, piece: string): string {
  const telling = piece.length > known.length || (piece.length === known.length && known.length > 20);
  return telling && piece.startsWith(known) && WORD.test(known) ? piece.slice(known.length) : piece;
}

const WORD = /\p{L}{3}/u;
