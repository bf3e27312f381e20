import type { JsonObject } from '../../protocol/json.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import type { PreparedCall } from '../grpc/adapter.ts';
import type { ProviderContext } from '../http/provider-errors.ts';
import { loadEncoding } from './encoding.ts';
import type { RecentTokens } from './recent-tokens.ts';
import { HarmonyReply } from './reply.ts';
import { type Piece, STOP_TOKENS, TOKEN_IDS } from './tokens.ts';

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
 * Constrains only the final answer to the schema. A constraint on the whole reply would prevent channels, and
 * so reasoning and calls: https://xgrammar.mlc.ai/docs/tutorials/structural_tag.html.
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
