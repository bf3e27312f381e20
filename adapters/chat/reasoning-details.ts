import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { nonEmpty, textIn } from '../turn/json-access.ts';

/**
 * Assembles OpenRouter's `reasoning_details` from pieces.
 *
 * R1 Pieces with the same type, index and id form one detail. A piece without an index belongs to the last
 *    detail if type and id match.
 * R2 `text`, `summary` and `data` are concatenated; for all other members, such as the signature, the last
 *    value wins.
 */
export class ReasoningDetails {
  #details: JsonObject[] = [];

  /** Adds a complete detail. */
  add(detail: JsonObject): void {
    this.#details.push({ ...detail });
  }

  /** Adds a piece of a detail. */
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

  /** Returns the details in the order in which they began. */
  all(): JsonObject[] {
    return this.#details;
  }

  #find(piece: JsonObject): JsonObject | undefined {
    if (typeof piece.index !== 'number') {
      const last = this.#details.at(-1);
      return last && typeof last.index !== 'number' && isSame(last, piece) ? last : undefined;
    }
    return this.#details
      .slice(-SEARCHED)
      .find(detail => detail.index === piece.index && isSame(detail, piece));
  }
}

/** A piece belongs to one of the latest details; older ones are not searched. */
const SEARCHED = 64;

const JOINED: ReadonlySet<string> = new Set(['text', 'summary', 'data']);

function isSame(detail: JsonObject, piece: JsonObject): boolean {
  const [knownId, id] = [nonEmpty(detail.id), nonEmpty(piece.id)];
  return detail.type === piece.type && (knownId === undefined || id === undefined || knownId === id);
}

function joined(known: JsonValue | undefined, piece: JsonValue): JsonValue {
  if (typeof piece !== 'string') return piece;
  const text = textIn(known);
  return text + newSuffix(text, piece);
}

/** Returns the readable text of a detail; encrypted details have none. */
export function detailText(detail: JsonObject): string {
  return detail.type === 'reasoning.summary' ? textIn(detail.summary) : textIn(detail.text);
}

/** Whether the provider accepts a detail when it is sent back. Anthropic's text needs its signature. */
export function isReplayable({ type, format, signature }: JsonObject): boolean {
  const anthropic = nonEmpty(format)?.startsWith('anthropic') === true;
  return !(anthropic && type === 'reasoning.text' && nonEmpty(signature) === undefined);
}

/**
 * Returns what a piece adds to the known text, for streams that may send the full text again. A short piece
 * is returned unchanged, because ordinary text may repeat it.
 */
export function newSuffix(known: string, piece: string): string {
  const isConclusive = piece.length > known.length || (piece.length === known.length && known.length > 20);
  return isConclusive && piece.startsWith(known) && WORD.test(known) ? piece.slice(known.length) : piece;
}

const WORD = /\p{L}{3}/u;
