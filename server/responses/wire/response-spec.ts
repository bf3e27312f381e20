import * as z from 'zod';
import { isJsonObject, type JsonObject, toJson } from '../../../protocol/json.ts';
import type { CreateBody } from '../request/request-body.ts';

/**
 * A tool of an MCP server: the server's label, the tool's own name there, and `target`, which tells
 * servers of one label apart. A tool of a hidden server is never shown.
 */
const serverTool = z.object({
  label: z.string(),
  name: z.string(),
  target: z.exactOptional(z.string()),
  hidden: z.exactOptional(z.literal(true)),
});
export type ServerTool = z.infer<typeof serverTool>;

/**
 * What is journaled of a request for a response: enough to show the response again and to make its agent
 * again, and never a secret. `request` is the body without its input, authorizations and headers.
 */
const responseSpec = z.object({
  request: z.custom<JsonObject>(isJsonObject),
  /** The model string that `request.model` came to. */
  model: z.string(),
  /** The MCP tools by the names the model knows them by. */
  exposed: z.record(z.string(), serverTool),
  /** The servers' tools that the open calls of its run were made for: a fork does not have the requests before it. */
  openCalls: z.exactOptional(z.array(z.object({ callId: z.string(), tool: serverTool }))),
  /** What the request says of open calls of its run. */
  decisions: z.array(
    z.discriminatedUnion('type', [
      z.object({ type: z.literal('approval'), callId: z.string(), approve: z.boolean() }),
      z.object({ type: z.literal('output'), callId: z.string() }),
    ]),
  ),
  /** Calls it approves beyond its limit of tool calls: they do not run. */
  overBudget: z.exactOptional(z.array(z.string())),
  /** Ids of the items it sends to a run that was there before. */
  messages: z.array(z.string()),
  /** Ids of the tool lists it shows: of servers that its conversation has not listed yet. */
  lists: z.array(z.string()),
  /** The newest response whose items it was begun with, where it follows none by `previous_response_id`: their chain is its own. */
  refersTo: z.exactOptional(z.string()),
  /** How many turns its run had before. */
  turnsBefore: z.number().int(),
  /** How many tool calls its run had made when the client last sent a message or an output. 0 where it is missing. */
  callsBefore: z.exactOptional(z.number().int()),
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

/** What the model and the client read of a call that was started and whose outcome is unknown. */
export const OUTCOME_UNKNOWN =
  'The outcome of this call is unknown: it may or may not have happened. Find out before you make it again.';

/** Whether both are the same tool of the same server at the same place. */
export function isSameTool(one: ServerTool | undefined, other: ServerTool | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return (
    one.label === other.label &&
    one.name === other.name &&
    one.target === other.target &&
    one.hidden === other.hidden
  );
}

/** Whether the model was given tools that the client must not learn of. */
export function hidesTools(exposed: Exposed): boolean {
  return Object.values(exposed).some(({ hidden }) => hidden === true);
}

/** The tool that the model knows by this name, if it is a server's. */
export function toolNamed(exposed: Exposed, name: string): ServerTool | undefined {
  return Object.hasOwn(exposed, name) ? exposed[name] : undefined;
}

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
