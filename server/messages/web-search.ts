/** Translation between Anthropic's web search and the built-in tool of the Responses API. */

import type {
  ServerToolUseBlock,
  WebSearchToolResultBlock,
} from '@anthropic-ai/sdk/resources/messages/messages';
import { objectOf, objectsOf } from '../../adapters/turn/json-access.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { type AnswerEvent, argumentOf, resultsIn } from '../gateway/answer/answer-event.ts';
import { type SentItem, sent } from '../gateway/request/gateway-request.ts';
import { builtinOf } from '../gateway/runs/response-spec.ts';

/** Such as `web_search_20250305`. */
export function isWebSearch({ type }: { type?: string | null | undefined }): boolean {
  return /^web_search_\d{8}$/.test(type ?? '');
}

export type Search = { id: string; input: { query: string }; urls: string[]; isFailed: boolean };

export function searchIn(
  event: Extract<AnswerEvent, { type: 'provided' | 'call.ended' }>,
): Search | undefined {
  const { id } = event;
  if (event.type === 'provided') {
    const { action, status } = event.item;
    const { query, queries, url, sources } = objectOf(action);
    const asked = query ?? (Array.isArray(queries) ? queries[0] : undefined) ?? url;
    const input = { query: typeof asked === 'string' ? asked : '' };
    const isFailed = status === 'failed';
    return event.builtin === 'web_search' ? { id, input, urls: urlsIn(sources), isFailed } : undefined;
  }
  const { call, tool, end } = event;
  if (builtinOf(tool) !== 'web_search') return undefined;
  const input = { query: argumentOf(call, 'query') ?? '' };
  if ('error' in end) return { id, input, urls: [], isFailed: true };
  return { id, input, urls: urlsIn(resultsIn(end.output)), isFailed: false };
}

/** The pages' titles and texts are not in the answer. */
export function searchBlocksOf({ id: itemId, input, urls, isFailed }: Search): {
  use: ServerToolUseBlock;
  result: WebSearchToolResultBlock;
} {
  const id = itemId.replace(/^ws_/, 'srvtoolu_');
  const caller = { type: 'direct' } as const;
  const content: WebSearchToolResultBlock['content'] = isFailed
    ? { type: 'web_search_tool_result_error', error_code: 'unavailable' }
    : urls.map(url => ({
        type: 'web_search_result',
        title: url,
        url,
        encrypted_content: '',
        page_age: null,
      }));
  return {
    use: { type: 'server_tool_use', id, name: 'web_search', input, caller },
    result: { type: 'web_search_tool_result', tool_use_id: id, content, caller },
  };
}

export function searchItemOf(input: JsonValue | undefined, result: JsonValue | undefined): SentItem {
  const { query } = objectOf(input);
  const text = [`Web search: ${query ?? ''}`, ...urlsIn(result)].join('\n');
  const content = [{ type: 'text' as const, text }];
  return { ...sent({ type: 'message', role: 'assistant', content }), ranHere: true };
}

function urlsIn(pages: JsonValue | undefined): string[] {
  return objectsOf(pages).flatMap(({ url }) => (typeof url === 'string' ? [url] : []));
}
