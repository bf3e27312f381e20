/** Translation between Anthropic's web search and the built-in tool of the Responses API. */
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';

/** The options of Anthropic's tool that the built-in tool has too. */
type SearchTool = {
  allowed_domains?: string[] | null | undefined;
  user_location?: JsonObject | null | undefined;
};

/** Whether a tool has a type of Anthropic's web search, such as `web_search_20250305`. */
export function isWebSearch({ type }: { type?: string | null | undefined }): boolean {
  return /^web_search_\d{8}$/.test(type ?? '');
}

/** The built-in tool for a web search of Anthropic. */
export function builtinSearchOf({ allowed_domains: domains, user_location }: SearchTool): JsonObject {
  return {
    type: 'web_search',
    ...omitUndefined({
      filters: domains?.length ? { allowed_domains: domains } : undefined,
      user_location: user_location ?? undefined,
    }),
  };
}

/** The id and the query of a finished call, and its result block. The pages' titles and texts are not in the item. */
export function searchBlocksOf({ id: itemId, action, status }: JsonObject): {
  id: string;
  query: string;
  result: JsonObject;
} {
  const { query, queries, url, sources } = isJsonObject(action) ? action : {};
  const id = String(itemId).replace(/^ws_/, 'srvtoolu_');
  const content =
    status === 'failed'
      ? { type: 'web_search_tool_result_error', error_code: 'unavailable' }
      : urlsIn(sources).map(page => ({
          type: 'web_search_result',
          title: page,
          url: page,
          encrypted_content: '',
          page_age: null,
        }));
  const [first] = Array.isArray(queries) ? queries : [];
  return {
    id,
    query: String(query ?? first ?? url ?? ''),
    result: { type: 'web_search_tool_result', tool_use_id: id, content, caller: { type: 'direct' } },
  };
}

/** The item of the call that a returned `server_tool_use` block stands for. `result` is the content of its result. */
export function searchItemOf({ input }: JsonObject, result: JsonValue | undefined): JsonObject {
  const { query = '' } = isJsonObject(input) ? input : {};
  const sources = urlsIn(result).map(url => ({ type: 'url', url }));
  return { type: 'web_search_call', status: 'completed', action: { type: 'search', query, sources } };
}

function urlsIn(pages: JsonValue | undefined): string[] {
  if (!Array.isArray(pages)) return [];
  return pages.flatMap(page => (isJsonObject(page) && typeof page.url === 'string' ? [page.url] : []));
}
