import * as z from 'zod';
import { jsonIn } from '../../adapters/turn/json-access.ts';
import { InDoubt, isThrown, messageOf } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Tool, ToolCallContext } from '../../protocol/tool.ts';
import { tool } from '../../tools/tool.ts';
import type { WebSearchTool } from './builtin-schemas.ts';

type SearchRequest = { query: string } & SearchOptions;
type SearchOptions = {
  allowed_domains?: string[];
  user_location?: JsonObject;
  search_context_size?: string;
};

/** Returns the JSON or text that it found; throws an `Error` for the model to read. */
export type SearchWeb = (request: SearchRequest, context: ToolCallContext) => Promise<JsonValue>;

const MOST_RESULTS = 20;
/** In characters. */
const LONGEST_SNIPPET = 2_000;
const LONGEST_TEXT = 40_000;
const MOST_BYTES = 1024 * 1024;
const TIMEOUT_MS = 15_000;

const result = z.object({
  url: z.url({ protocol: /^https?$/ }).max(4_096),
  title: z._default(z.string(), ''),
  snippet: z._default(z.string(), ''),
});
const answer = z.object({ results: z.array(result).max(1_000) });

export function searchOptionsOf(asked: WebSearchTool): SearchOptions {
  const { filters, user_location, search_context_size: size } = asked;
  return omitUndefined({
    allowed_domains: filters?.allowed_domains ?? undefined,
    user_location: isJsonObject(user_location) ? user_location : undefined,
    // Medium is OpenAI's default: some clients always send it.
    search_context_size: size == null || size === 'medium' ? undefined : size,
  });
}

/** Its output is `{ results: [{ title, url, snippet }] }`, or `{ text }` if the backend's answer has another form. */
export function webSearch(asked: WebSearchTool, search: SearchWeb): Tool {
  const options = searchOptionsOf(asked);
  return tool({
    name: 'web_search',
    description: 'Searches the web. Returns the titles, URLs and snippets of the pages found.',
    input: z.object({ query: z.string().min(1).max(2_000).describe('What to search for.') }),
    sideEffect: 'none',
    run: async ({ query }, context) =>
      readFound(await search({ query, ...options }, context), options.allowed_domains),
  });
}

function readFound(found: JsonValue, domains: readonly string[] | undefined): JsonObject {
  const value = typeof found === 'string' ? jsonIn(found) : found;
  const { data } = answer.safeParse(Array.isArray(value) ? { results: value } : value);
  if (data === undefined) {
    const text = typeof found === 'string' ? found : JSON.stringify(found);
    return { text: text.slice(0, LONGEST_TEXT) };
  }
  const results = data.results
    .filter(({ url }) => domains === undefined || isWithin(new URL(url).hostname, domains))
    .slice(0, MOST_RESULTS)
    .map(({ title, url, snippet }) => ({
      title: title.slice(0, LONGEST_SNIPPET),
      url,
      snippet: snippet.slice(0, LONGEST_SNIPPET),
    }));
  return { results };
}

function isWithin(host: string, domains: readonly string[]): boolean {
  return domains.some(domain => host === domain || host.endsWith(`.${domain}`));
}

/** POST of the request as JSON, answered with `{ results: [{ title, url, snippet }] }`. */
export function searchEndpoint(endpoint: {
  url: string;
  headers?: Readonly<Record<string, string>>;
  timeoutMs?: number;
}): SearchWeb {
  const { url, headers = {}, timeoutMs = TIMEOUT_MS } = endpoint;
  return async (request, { signal }) => {
    const ended = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const text = await post({ url, headers, signal: ended }, request).catch(error => {
      signal.throwIfAborted();
      throw new Error(
        `The web search failed: ${ended.aborted ? `no answer within ${timeoutMs} ms` : messageOf(error)}`,
      );
    });
    const { data } = answer.safeParse(jsonIn(text));
    if (data === undefined) throw new Error('The web search failed: its answer has no list of results.');
    return { results: data.results };
  };
}

async function post(
  { url, headers, signal }: { url: string; headers: Readonly<Record<string, string>>; signal: AbortSignal },
  request: SearchRequest,
): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json', ...headers },
    body: JSON.stringify(request),
    redirect: 'error',
    signal,
  });
  const body = await readBounded(response.body, MOST_BYTES);
  if (!response.ok) throw new Error(`it answered with the status ${response.status}`);
  return body;
}

export function searchServer(open: () => Promise<Tool>): SearchWeb {
  return async (request, context) => {
    const { run, validate } = await open();
    const checked = await validate(request);
    if (!checked.valid) throw new Error(`The web search failed: ${checked.message}`);
    try {
      return (await run?.(checked.value, context)) as JsonValue;
    } catch (error) {
      // A search has no side effect, so an unknown outcome is a failure.
      throw isThrown(error, InDoubt) ? new Error(messageOf(error)) : error;
    }
  };
}

async function readBounded(stream: ReadableStream<Uint8Array> | null, mostBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream ?? []) {
    bytes += chunk.byteLength;
    if (bytes > mostBytes) throw new Error(`it sent more than ${mostBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
