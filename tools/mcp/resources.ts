import type {
  CallToolResult,
  Client,
  Tool as McpTool,
  ReadResourceResult,
  RequestOptions,
} from '@modelcontextprotocol/client';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { isInputRequired } from './read-result.ts';
import type { ServerOffer } from './server-tool.ts';

/** How the model reads the resources of a server. */
export type McpResources = {
  /** The name of the tool that lists them. Default `list_resources`. */
  list?: string;
  /** The name of the tool that reads one. Default `read_resource`. */
  read?: string;
};

/** The most entries in one answer. A longer list continues at its cursor. */
const MOST_LISTED = 1_000;
const LONGEST_FACT = 1_000;
const LONGEST_URI = 8_192;
const METHOD_NOT_FOUND = -32601;

/** Two tools without side effects: the server is asked, and nothing else is opened, whatever a URI says. @internal */
export function offerResources(
  server: string,
  { list = 'list_resources', read = 'read_resource' }: McpResources,
): ServerOffer[] {
  return [
    {
      described: describe(
        list,
        `Lists the resources of "${server}": texts and files, with their URIs, and templates of URIs of further ones. Read them with ${read}.`,
        {
          cursor: {
            type: 'string',
            description: 'The nextCursor of the list before. Default: the first list.',
          },
        },
      ),
      sideEffect: 'none',
      ask: async (client, { input: { cursor }, params: { _meta } }, options) => {
        const given = typeof cursor === 'string' ? { cursor } : {};
        return await listResources(client, { ...given, ...omitUndefined({ _meta }) }, options);
      },
    },
    {
      described: {
        ...describe(read, `Reads a resource of "${server}" by its URI, such as one of ${list}.`, {
          uri: { type: 'string', maxLength: LONGEST_URI },
        }),
      },
      sideEffect: 'none',
      ask: async (client, { input: { uri }, params }, options) => {
        const given = { uri: String(uri), ...params };
        const result = await client.readResource(given, { ...options, cacheMode: 'bypass' });
        return isInputRequired(result) ? result : { content: blocksOf(result) };
      },
    },
  ];
}

function describe(
  name: string,
  description: string,
  properties: McpTool['inputSchema']['properties'],
): McpTool {
  const required = properties !== undefined && 'uri' in properties ? ['uri'] : [];
  return {
    name,
    description,
    inputSchema: { type: 'object', properties, required, additionalProperties: false },
  };
}

type Page = { cursor?: string; _meta?: JsonObject };

async function listResources(client: Client, params: Page, options: RequestOptions): Promise<CallToolResult> {
  const { resources, nextCursor } = await client.request({ method: 'resources/list', params }, options);
  const templates = params.cursor === undefined ? await listTemplates(client, options) : [];
  return {
    content: [],
    structuredContent: omitUndefined({
      resources: resources.slice(0, MOST_LISTED).map(({ uri, name, description, mimeType, size }) => ({
        uri,
        ...facts({ name, description, mimeType }),
        ...omitUndefined({ size }),
      })),
      templates:
        templates.length === 0
          ? undefined
          : templates.slice(0, MOST_LISTED).map(({ uriTemplate, name, description, mimeType }) => ({
              uriTemplate,
              ...facts({ name, description, mimeType }),
            })),
      leftOut: Math.max(resources.length, templates.length) > MOST_LISTED || undefined,
      nextCursor,
    }),
  };
}

/** Servers with resources need not have templates. */
async function listTemplates(client: Client, options: RequestOptions) {
  try {
    return (await client.request({ method: 'resources/templates/list' }, options)).resourceTemplates;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === METHOD_NOT_FOUND) return [];
    throw error;
  }
}

function facts(given: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, text]) =>
      text === undefined
        ? []
        : [[name, text.length > LONGEST_FACT ? `${text.slice(0, LONGEST_FACT)}…` : text]],
    ),
  );
}

/** A resource of several parts names each. */
function blocksOf({ contents }: ReadResourceResult): CallToolResult['content'] {
  return contents.flatMap(resource => {
    const block = { type: 'resource' as const, resource };
    return contents.length === 1 ? [block] : [{ type: 'text' as const, text: `[${resource.uri}]` }, block];
  });
}
