import type { JsonObject } from '../../protocol/json.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { loadPeer, type PreparedCall } from '../grpc/adapter.ts';
import type { ProviderContext } from '../http/provider-errors.ts';
import { HarmonyReply } from './completions.ts';
import { type Piece, STOP_TOKENS, TOKEN_IDS, type TokenName } from './render.ts';

/** Loads `o200k_harmony` from `gpt-tokenizer`. A `<|…|>` in a text never becomes a special token. */
export async function loadEncoding(context: ProviderContext) {
  const [{ encode }, { default: ranks }] = await Promise.all([
    loadPeer<typeof import('gpt-tokenizer/encoding/o200k_harmony')>(
      'gpt-tokenizer/encoding/o200k_harmony',
      context,
    ),
    loadPeer<typeof import('gpt-tokenizer/bpeRanks/o200k_base')>(
      'gpt-tokenizer/bpeRanks/o200k_base',
      context,
    ),
  ]);
  const plainTokens = (text: string): number[] => {
    const ids: number[] = [];
    for (const part of cutRuns(text)) {
      for (const id of encode(part, { disallowedSpecial: NONE })) ids.push(id);
    }
    return ids;
  };
  return {
    /** Texts in `recent` are not encoded again. */
    encode(pieces: readonly Piece[], recent = new RecentTokens()): number[] {
      const ids: number[] = [];
      for (const piece of pieces) {
        const tokens = 'token' in piece ? [TOKEN_IDS[piece.token]] : recent.of(piece.text, plainTokens);
        for (const id of tokens) ids.push(id);
      }
      return ids;
    },
    decoder: () => new TokenDecoder(ranks),
  };
}

const NONE: Set<string> = new Set();

/** How long a run without whitespace, or of whitespace, may be for the encoder, in characters. */
const LONGEST_RUN = 256;

/** Cuts very long runs with or without whitespace, for which the encoder needs quadratic time. */
export function cutRuns(text: string): string[] {
  if (text.length <= LONGEST_RUN) return [text];
  const parts: string[] = [];
  let begin = 0;
  let run = 0;
  let wasSpace = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const isSpace =
      code === 32 ||
      (code >= 9 && code <= 13) ||
      code === 160 ||
      (code >= 0x2000 && code <= 0x3000 && /\s/.test(text.charAt(at)));
    run = isSpace === wasSpace ? run + 1 : 1;
    wasSpace = isSpace;
    if (run <= LONGEST_RUN || (code >= 0xdc00 && code <= 0xdfff)) continue;
    parts.push(text.slice(begin, at));
    begin = at;
    run = 1;
  }
  parts.push(text.slice(begin));
  return parts;
}

const NAMES: ReadonlyMap<number, TokenName> = new Map(
  (Object.entries(TOKEN_IDS) as [TokenName, number][]).map(([name, id]) => [id, name]),
);

/** Decodes the tokens of one reply. Characters whose bytes are in several tokens appear with the last of them. */
class TokenDecoder {
  readonly #ranks: readonly (string | readonly number[])[];
  readonly #utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(ranks: readonly (string | readonly number[])[]) {
    this.#ranks = ranks;
  }

  /** Adds tokens. Returns the pieces that are complete. Ids that the encoding does not have are ignored. */
  push(ids: readonly number[]): Piece[] {
    const pieces: Piece[] = [];
    let text = '';
    const flush = () => {
      if (text !== '') pieces.push({ text });
      text = '';
    };
    for (const id of ids) {
      const token = NAMES.get(id);
      const bytes = this.#ranks[id];
      if (token !== undefined) {
        text += this.#utf8.decode();
        flush();
        pieces.push({ token });
      } else if (bytes !== undefined) {
        const encoded = typeof bytes === 'string' ? new TextEncoder().encode(bytes) : Uint8Array.from(bytes);
        text += this.#utf8.decode(encoded, { stream: true });
      }
    }
    flush();
    return pieces;
  }

  end(): Piece[] {
    const text = this.#utf8.decode();
    return text === '' ? [] : [{ text }];
  }
}

/** Encodes a prompt for vLLM's gRPC API. Texts in `recent` are not encoded again. */
export async function prepareHarmony(
  pieces: readonly Piece[],
  request: ModelRequest,
  context: ProviderContext,
  options: JsonObject,
  recent: RecentTokens,
): Promise<PreparedCall> {
  const encoding = await loadEncoding(context);
  const decoder = encoding.decoder();
  const reply = new HarmonyReply();
  return {
    tokens: encoding.encode(pieces, recent),
    stopTokens: STOP_TOKENS.map(name => TOKEN_IDS[name]),
    ...(request.output ? { constraint: { structural_tag: finalAnswerTag(request.output.schema) } } : {}),
    options,
    reader: {
      push: tokens => decoder.push(tokens).flatMap(piece => reply.push(piece)),
      end(ending) {
        for (const piece of decoder.end()) reply.push(piece);
        reply.end();
        return reply.turn(request, ending);
      },
    },
  };
}

/**
 * Constrains only the final answer. A constraint on the whole reply would prevent channels, and so reasoning and calls:
 * https://xgrammar.mlc.ai/docs/tutorials/structural_tag.html.
 */
function finalAnswerTag(schema: JsonObject): string {
  const begin = '<|channel|>final<|message|>';
  return JSON.stringify({
    type: 'structural_tag',
    format: {
      type: 'triggered_tags',
      triggers: ['<|channel|>final'],
      tags: [{ begin, content: { type: 'json_schema', json_schema: schema }, end: '' }],
    },
  });
}

/** Texts shorter than this are encoded as fast as they are looked up, in characters. */
const SHORTEST = 64;

/** How much text is remembered, in characters: the prompts of some long conversations. */
const MOST_CHARACTERS = 8 * 1024 * 1024;

/** Remembers the tokens of texts that each request repeats: at most `limit` characters, those used last. */
export class RecentTokens {
  readonly #limit: number;
  readonly #tokens = new Map<string, readonly number[]>();
  #characters = 0;

  constructor(limit: number = MOST_CHARACTERS) {
    this.#limit = limit;
  }

  of(text: string, encode: (text: string) => readonly number[]): readonly number[] {
    if (text.length < SHORTEST || text.length > this.#limit) return encode(text);
    const known = this.#tokens.get(text);
    const tokens = known ?? encode(text);
    if (known) this.#tokens.delete(text);
    else this.#characters += text.length;
    this.#tokens.set(text, tokens);
    for (const oldest of this.#tokens.keys()) {
      if (this.#characters <= this.#limit) break;
      this.#tokens.delete(oldest);
      this.#characters -= oldest.length;
    }
    return tokens;
  }
}
