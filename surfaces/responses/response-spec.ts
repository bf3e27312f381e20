import { z } from 'zod';
import { isJsonObject, type JsonObject, toJson } from '../../protocol/json.ts';
import type { CreateBody } from './request-body.ts';

/**
 * What is journaled of a request for a response: enough to show the response again and to make its agent
 * again, and never a secret. `request` is the body without its input, authorizations and headers.
 */
const responseSpec = z.object({
  request: z.custom<JsonObject>(isJsonObject),
  /** The model string that `request.model` came to. */
  model: z.string(),
  /** The MCP tools by the names the model knows them by. */
  exposed: z.record(
    z.string(),
    z.object({ label: z.string(), name: z.string(), hidden: z.exactOptional(z.literal(true)) }),
  ),
  /** What the request says of open calls of its run. */
  decisions: z.array(
    z.discriminatedUnion('type', [
      z.object({ type: z.literal('approval'), callId: z.string(), approve: z.boolean() }),
      z.object({ type: z.literal('output'), callId: z.string() }),
    ]),
  ),
  /** Ids of the items it sends to a run that was there before. */
  messages: z.array(z.string()),
  /** Ids of the tool lists it shows: of servers that its conversation has not listed yet. */
  lists: z.array(z.string()),
  /** How many turns its run had before. */
  turnsBefore: z.number().int(),
});
export type ResponseSpec = z.infer<typeof responseSpec>;
export type Exposed = ResponseSpec['exposed'];
export type Decision = ResponseSpec['decisions'][number];

/** A surface's note of a run: another response begins, or one is deleted. */
const note = z.discriminatedUnion('type', [
  z.object({ type: z.literal('asked'), spec: responseSpec }),
  z.object({ type: z.literal('deleted'), responseId: z.string() }),
]);
export type ResponseNote = z.infer<typeof note>;

/** Who notes it, and who decides. */
export const RESPONSES = 'responses';

export function readSpec(value: unknown): ResponseSpec | undefined {
  return responseSpec.safeParse(value).data;
}

export function readNote(value: unknown): ResponseNote | undefined {
  return note.safeParse(value).data;
}

/** The request as it may be kept and shown: tools as they were sent, but for what gives access. */
export function withoutSecrets({ input: _, functions, servers, ...rest }: CreateBody): JsonObject {
  const tools = [
    ...functions.map(({ type, name, description, parameters, strict }) => ({
      type,
      name,
      description: description ?? null,
      parameters: parameters ?? null,
      strict: strict ?? null,
    })),
    ...servers.map(describeServer),
  ];
  const kept = toJson({ ...rest, tools });
  return isJsonObject(kept) ? kept : {};
}

/** The fields known to hold nothing secret: a token may come in any other, and in a URL's query. */
function describeServer(server: CreateBody['servers'][number]) {
  const { type, server_label, server_url, server_description, allowed_tools, require_approval } = server;
  const url = server_url == null || !URL.canParse(server_url) ? null : new URL(server_url);
  return {
    ...{ type, server_label, server_description, allowed_tools, require_approval },
    ...(url === null ? {} : { server_url: `${url.origin}${url.pathname}` }),
    headers: null,
  };
}
