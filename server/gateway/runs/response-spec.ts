import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { callTypeOf } from '../../../adapters/responses/item-kinds.ts';
import { objectOf } from '../../../adapters/turn/json-access.ts';
import type { Call, Context } from '../../../machines/context.ts';
import { hasEnded, isAtRest } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import { digestOf } from '../../../protocol/content/digest.ts';
import type { RunEvent, RunStarted } from '../../../protocol/event.ts';
import { isJsonObject, type JsonObject, type JsonValue, toJson } from '../../../protocol/json.ts';
import { oncePer } from '../../../protocol/once-per.ts';
import type { Tool } from '../../../protocol/tool.ts';
import type { Settings } from '../../../protocol/turn.ts';
import { SEARCH_TOOL } from '../../../tools/search-tools.ts';
import { shortenToolName } from '../../../tools/unique-tool-names.ts';
import {
  BUILTIN_KINDS,
  type BuiltinKind,
  builtinKindOf,
  isBuiltinTool,
} from '../../builtins/builtin-schemas.ts';
import type { Clearing } from '../request/clear-context.ts';
import type { ClientSession } from '../request/client-session.ts';
import type { RequestTool, RequestToolChoice } from '../request/request-tools.ts';
import type { readShared, textOptions } from '../request/shared-parameters.ts';

/** The part of a request that is stored and shown, and from which another process makes its agent. */
export type RecordedRequest = {
  model?: string;
  instructions?: string;
  /** In a journal without credentials. */
  tools: readonly RequestTool[];
  /** Tools that items of the conversation declare. */
  addedTools?: readonly RequestTool[];
  /** One of the client's tools searches the deferred ones. */
  searchesTools?: true;
  /** What each model call of the request leaves out. */
  clearings?: readonly Clearing[];
  toolChoice?: RequestToolChoice;
  settings: Settings;
  maxToolCalls?: number;
  text?: z.infer<typeof textOptions>;
  reasoningSummary?: string;
  /** Which reasoning of earlier turns the model sees again, in the words of OpenAI's API. */
  reasoningContext?: string;
  include?: readonly string[];
  previousResponseId?: string;
  store?: boolean;
  stream?: boolean;
  background?: boolean;
  session?: ClientSession;
  /** In the words of OpenAI's APIs. Providers that have them get them. */
  openai: OpenAIParameters;
};

type OpenAIParameters = ReturnType<typeof readShared>['openai'] & {
  truncation?: 'auto' | 'disabled';
  context_management?: { type: 'compaction'; compact_threshold?: number | null }[];
};

/** `target` distinguishes servers with the same label. Tools of hidden servers are never shown. */
const serverTool = z.object({
  label: z.string(),
  name: z.string(),
  target: z.exactOptional(z.string()),
  hidden: z.exactOptional(z.literal(true)),
});
export type ServerTool = z.infer<typeof serverTool>;

/** `own`: a tool that OpenAI's models know, such as `shell`. */
const clientTool = z.object({
  kind: z.enum(['function', 'custom', 'own']),
  name: z.string(),
  namespace: z.exactOptional(z.string()),
});
type ClientTool = z.infer<typeof clientTool>;

const builtinTool = z.object({ builtin: z.enum(BUILTIN_KINDS), name: z.string() });

/** What a name means that the model calls, if it is more than a function with its own name. */
const exposedTool = z.union([clientTool, builtinTool, serverTool]);
export type ExposedTool = z.infer<typeof exposedTool>;
const toolsByName = z.record(z.string(), exposedTool);

/** Digests, of 64 hex digits each: of an `Idempotency-Key` with its caller, and of the body. */
const requestKey = z.object({ key: z.string(), body: z.string() });

/**
 * Which entry has a member of a request, by its name: one of the same run, by its seq, or one of a run that it continues
 * and that cannot be deleted before it. `digest`: of the member.
 */
const places = z.record(
  z.string(),
  z.union([
    z.number().int().positive(),
    z.object({ runId: z.string(), seq: z.number().int(), digest: z.string() }),
  ]),
);
export type Places = z.infer<typeof places>;

/** What is journaled about a request: enough to show the response and recreate its agent, without secrets. */
const responseSpec = z.object({
  /** Who sent the request: the token's name and labels. Absent before servers had several tokens. */
  caller: z.exactOptional(z.object({ name: z.string(), labels: z.record(z.string(), z.string()) })),
  request: z.custom<RecordedRequest>(isJsonObject),
  /** The long members that `request` lacks, because an earlier request has the same. */
  like: z.exactOptional(places),
  model: z.string(),
  /** How long it is worked on: see `lifetimeOf`. */
  lifetime: z.enum(['connection', 'answer']),
  /** The server that has the client's connection drives no runs: that a driver is gone says nothing about the client. */
  drivenElsewhere: z.exactOptional(z.literal(true)),
  /** Options for the provider that `request` has no field for. */
  providerOptions: z.exactOptional(z.custom<JsonObject>(isJsonObject)),
  /** `ticket`: the response's own. `given`: how many of the items or messages of its run are the conversation's. */
  conversation: z.exactOptional(z.object({ id: z.string(), ticket: z.string(), given: z.number().int() })),
  /** The request is for a compaction: the answer is its summary, and no response. */
  compacts: z.exactOptional(z.literal(true)),
  /** The tools by their names for the model, without the client's functions that keep their names. */
  exposed: toolsByName,
  /** The tools that earlier calls of the conversation were made for, by their names for the model. */
  used: z.exactOptional(toolsByName),
  /** The tools of the run's open calls, which a fork could not find in its own requests. */
  openCalls: z.exactOptional(z.array(z.object({ callId: z.string(), tool: exposedTool }))),
  decisions: z.array(
    z.discriminatedUnion('type', [
      z.object({ type: z.literal('approval'), callId: z.string(), approve: z.boolean() }),
      z.object({ type: z.literal('output'), callId: z.string() }),
    ]),
  ),
  /** The approved calls that do not run, because they exceed the response's limit of tool calls. */
  overBudget: z.exactOptional(z.array(z.string())),
  /** The ids of the items that the request sends to an existing run. */
  messages: z.array(z.string()),
  /** The ids of the tool lists of servers that the conversation has not listed before. */
  lists: z.array(z.string()),
  /** The ids of items that no client sent: those that compactions in the input kept. */
  restored: z.exactOptional(z.array(z.string())),
  /** Without `previous_response_id`: the newest response whose items the input refers to. The chain continues there. */
  refersTo: z.exactOptional(z.string()),
  /** See `historyOf`. */
  history: z.exactOptional(z.string()),
  turnsBefore: z.number().int(),
  /** The tool calls of the run before the client last sent a message or an output. Default 0. */
  callsBefore: z.exactOptional(z.number().int()),
  key: z.exactOptional(requestKey),
});
export type ResponseSpec = z.infer<typeof responseSpec>;
export type Lifetime = ResponseSpec['lifetime'];
export type RequestKey = z.infer<typeof requestKey>;
export type Exposed = ResponseSpec['exposed'];

/** `createdAt` is in ms since the epoch. */
export type ResponseHead = { id: string; createdAt: number; spec: ResponseSpec };

/** In a run's journal: a further response starts, or one is deleted. */
const note = z.discriminatedUnion('type', [
  z.object({ type: z.literal('asked'), spec: responseSpec }),
  z.object({ type: z.literal('deleted'), responseId: z.string() }),
]);
type ResponseNote = z.infer<typeof note>;

/** Its agent, and the `by` of its notes and decisions. */
export const RESPONSES = 'responses';

export const CLIENT = 'client';

/** Why a run was cancelled whose request ended with its connection. */
export const LEFT = {
  client: 'The client left.',
  stopping: 'The client left: its server was stopped.',
  gone: 'The client left: its connection ended with the server that answered it.',
} as const;

export function isOfLeaving(reason: string | undefined): boolean {
  return Object.values<string | undefined>(LEFT).includes(reason);
}

export const OUTCOME_UNKNOWN =
  'The outcome of this call is unknown: it may or may not have happened. Check before calling it again.';

export function isServerTool(tool: ExposedTool | undefined): tool is ServerTool {
  return tool !== undefined && 'label' in tool;
}

export function isClientTool(tool: ExposedTool | undefined): tool is ClientTool {
  return tool !== undefined && 'kind' in tool;
}

export function builtinOf(tool: ExposedTool | undefined): BuiltinKind | undefined {
  return tool !== undefined && 'builtin' in tool ? tool.builtin : undefined;
}

export function isCustomTool(tool: ExposedTool | undefined): boolean {
  return tool !== undefined && 'kind' in tool && tool.kind === 'custom';
}

export function isOwnTool(tool: ExposedTool | undefined): boolean {
  return tool !== undefined && 'kind' in tool && tool.kind === 'own';
}

/** The type of the items of the calls of a client's tool; functions may be left out of `Exposed`. */
export function callTypeFor(tool: ExposedTool | undefined): string {
  if (isCustomTool(tool)) return 'custom_tool_call';
  return (isOwnTool(tool) && callTypeOf(tool?.name ?? '')) || 'function_call';
}

/** Whether the provider may run calls in the turns of the response. */
export function passesCalls({ request, exposed }: ResponseSpec): boolean {
  const search = toolNamed(exposed, SEARCH_TOOL);
  if (isServerTool(search) && search.target === 'provider') return true;
  const runHere = Object.values(exposed).map(builtinOf);
  return request.tools.some(tool =>
    isBuiltinTool(tool)
      ? !runHere.includes(builtinKindOf(tool))
      : tool.type === 'programmatic_tool_calling' || (tool.type === 'tool_search' && search === undefined),
  );
}

/** The client's by name, else of the same server and target. */
export function isSameTool(one: ExposedTool | undefined, other: ExposedTool | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  if (one.name !== other.name) return false;
  if (isServerTool(one) && isServerTool(other))
    return one.label === other.label && one.target === other.target && one.hidden === other.hidden;
  if (isOwnTool(one) !== isOwnTool(other) || namespaceOf(one) !== namespaceOf(other)) return false;
  return isClientTool(one) === isClientTool(other) && builtinOf(one) === builtinOf(other);
}

export function isHidden(tool: ExposedTool): boolean {
  return isServerTool(tool) && tool.hidden === true;
}

export function toolNamed(exposed: Exposed, name: string): ExposedTool | undefined {
  return Object.hasOwn(exposed, name) ? exposed[name] : undefined;
}

type ToolName = { name: string; namespace?: string | undefined };

/** Of the client's tool. */
export function modelNameOf(exposed: Exposed, { name, namespace }: ToolName): string {
  const [known = flatNameOf({ name, namespace })] =
    Object.entries(exposed).find(
      ([, tool]) => isClientTool(tool) && tool.name === name && tool.namespace === namespace,
    ) ?? [];
  return known;
}

export function namespaceOf(tool: ExposedTool | undefined): string | undefined {
  return isClientTool(tool) ? tool.namespace : undefined;
}

/** For models that know no namespaces. */
export function flatNameOf({ name, namespace }: ToolName): string {
  return namespace === undefined ? name : shortenToolName(`${namespace}__${name}`);
}

/** The request that a response begins with; `undefined` for other events. */
export function specIn(event: RunEvent): ResponseSpec | undefined {
  if (event.type === 'run.started') return readStarted(event);
  const noted = noteIn(event);
  return noted?.type === 'asked' ? noted.spec : undefined;
}

const readStarted = oncePer(({ launch }: RunStarted) => responseSpec.safeParse(launch?.request).data);

/** Members of requests that are shorter are repeated. */
const FEWEST_CHARS = 200;

/** A request that may have the same long members as a further one; `places` are those of `request`. */
export type EarlierRequest = { runId: string; request: RecordedRequest; places: Places };

/** What the journal of a run has of a request: without the long members that `before` has too. */
export function abridgeSpec(
  spec: ResponseSpec,
  runId: string,
  before: EarlierRequest | undefined,
): JsonValue {
  const request = { ...objectOf(toJson(spec.request)) };
  const like: Places = {};
  const earlier: JsonObject = objectOf(toJson(before?.request ?? null));
  for (const [name, value] of Object.entries(request)) {
    const place = before?.places[name];
    if (before === undefined || place === undefined || !isDeepStrictEqual(value, earlier[name])) continue;
    if (JSON.stringify(value).length < FEWEST_CHARS) continue;
    const isElsewhere = typeof place === 'number' && before.runId !== runId;
    like[name] = isElsewhere ? { runId: before.runId, seq: place, digest: digestOf(value) } : place;
    delete request[name];
  }
  const isWhole = Object.keys(like).length === 0;
  return toJson({ ...spec, request, ...(!isWhole && { like }) });
}

/** Long members of requests in other runs, by their digests. */
export type Members = ReadonlyMap<string, JsonValue>;

/** A request with the members that it has from others; `undefined` if one of them is not there. */
export function wholeSpec(
  spec: ResponseSpec,
  entryAt: (seq: number) => RunEvent | undefined,
  elsewhere: Members,
): ResponseSpec | undefined {
  const members: JsonObject = {};
  for (const [name, place] of Object.entries(spec.like ?? {})) {
    const value = typeof place === 'number' ? memberIn(entryAt(place), name) : elsewhere.get(place.digest);
    if (value === undefined) return undefined;
    members[name] = value;
  }
  return { ...spec, request: { ...spec.request, ...members } };
}

/** A member of the request that a response begins with. */
export function memberIn(event: RunEvent | undefined, name: string): JsonValue | undefined {
  return objectOf(toJson((event && specIn(event)?.request) ?? null))[name];
}

export function noteIn(event: RunEvent): ResponseNote | undefined {
  return event.type === 'run.noted' && event.by === RESPONSES ? readNote(event) : undefined;
}

const readNote = oncePer(
  (event: Extract<RunEvent, { type: 'run.noted' }>) => note.safeParse(event.note).data,
);

/** It has ended, or rests and has accepted everything in the request. A paused run still has work to do. */
export function isAnswered(state: ChartState, { decisions, messages }: ResponseSpec): boolean {
  if (hasEnded(state)) return true;
  if (!isAtRest(state) || state.context.paused) return false;
  const { calls, transcript, inbox } = state.context;
  const isUndecided = ({ callId, status }: Call) =>
    (status === 'gated' || status === 'waiting') && decisions.some(decision => decision.callId === callId);
  if (calls.some(isUndecided)) return false;
  if (messages.length === 0) return true;
  const known = new Set([...inbox, ...transcript].map(({ id }) => id));
  return messages.every(id => known.has(id));
}

/** The tool that each call of a run was made for, from the journal: a later request may use its name for another tool. */
export class CallTools {
  #exposed: Exposed = {};
  readonly #tools = new Map<string, ExposedTool | undefined>();
  readonly used: Exposed = {};

  copy(): CallTools {
    const copied = new CallTools();
    copied.#exposed = this.#exposed;
    for (const [callId, tool] of this.#tools) copied.#tools.set(callId, tool);
    Object.assign(copied.used, this.used);
    return copied;
  }

  take(event: RunEvent): void {
    this.#takeSpec(specIn(event));
    if (event.type !== 'turn.completed') return;
    for (const { callId, name, error } of event.calls) {
      const tool = toolNamed(this.#exposed, name);
      this.#tools.set(callId, tool);
      if (tool !== undefined || error === undefined) this.used[name] = tool ?? { kind: 'function', name };
    }
  }

  /** The tool of a call; `undefined` for an unknown tool and for a function of the client under its own name. */
  of(callId: string): ExposedTool | undefined {
    return this.#tools.get(callId);
  }

  openIn({ calls }: Context): { callId: string; tool: ExposedTool }[] {
    return calls.flatMap(({ callId, status }) => {
      const tool = status === 'settled' ? undefined : this.of(callId);
      return tool === undefined ? [] : [{ callId, tool }];
    });
  }

  #takeSpec(spec: ResponseSpec | undefined): void {
    if (spec === undefined) return;
    this.#exposed = spec.exposed;
    Object.assign(this.used, spec.used);
    for (const { callId, tool } of spec.openCalls ?? []) this.#tools.set(callId, tool);
  }
}

/** The tools of a later request, which refuse to run a call that was made for another tool of the same name. */
export function holdCalls(tools: readonly Tool[], exposed: Exposed, madeFor: CallTools): Tool[] {
  return tools.map(tool => {
    const { name, run } = tool;
    if (run === undefined) return tool;
    return {
      ...tool,
      run(input, context) {
        const wanted = madeFor.of(context.callId);
        if (wanted === undefined || isSameTool(wanted, toolNamed(exposed, name))) return run(input, context);
        throw new Error('Not run: this call was made for a different tool or MCP server.');
      },
    };
  });
}
