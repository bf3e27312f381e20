import type { SetupChange } from '../../protocol/adapter.ts';
import type { Item, ProviderItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { oncePer } from '../../protocol/once-per.ts';
import type { ModelRequest, Settings, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import { mergeOptions, nonEmpty, objectOf, objectsOf, pick } from '../turn/json-access.ts';
import { formatOf, parametersOf, withOutputSchema, withToolSettings } from '../turn/strict-schema.ts';
import { changedInstructions, closesTurn } from '../turn/transcript.ts';
import type { ResponsesDialect } from './dialect.ts';
import {
  CALL_IDS,
  endOfLastTurn,
  growingInput,
  type InputOptions,
  namesAddedIn,
  providerInputOf,
} from './input.ts';
import { callTypeDeclaredAs, type DeclaredName, isDeclaredBy, namesDeclaredIn } from './item-kinds.ts';

export type BodyOptions = {
  model: string;
  /** Whether the provider should store the response; `store` in the provider options takes precedence. */
  store: boolean;
  /** Whether to request encrypted reasoning, without which later turns cannot send the reasoning back. */
  encryptedReasoning: boolean;
  providerOptions: JsonObject | undefined;
};

/**
 * Returns a function that builds request bodies, and converts only what transcripts gain. If the provider stores
 * responses, a body continues from `request.continuation` and has only the input after the last turn. All other
 * members are sent in every request.
 */
export function responsesBody(
  dialect: ResponsesDialect,
  { model, store, encryptedReasoning, providerOptions: shared = {} }: BodyOptions,
): (request: ModelRequest, mode: { stream: boolean }) => JsonObject {
  const storedInput = growingInput({ ...dialect, stored: true });
  const unstoredInput = growingInput({ ...dialect, stored: false });
  const toolInputs = convertOnce<ToolDefinition>(tools => toolsInput(tools, dialect));
  const undeclared = withoutDeclared();
  return (request, { stream }) => {
    const { continuation, output } = request;
    const providerOptions = mergeOptions(shared, request.providerOptions);
    const searches = dialect.searchesTools?.(model) !== false || hasSearch(providerOptions);
    const transcript = searches ? request.transcript : withoutSearches(request.transcript);
    const tools = undeclared(
      request.tools,
      namesDeclaredIn(providerOptions.tools),
      namesAddedIn(transcript, dialect),
    );
    const stored = dialect.remembers && (providerOptions.store ?? store) !== false;
    const previous = stored ? nonEmpty(continuation) : undefined;
    const from = previous === undefined ? undefined : endOfLastTurn(transcript);
    const needsText = dialect.structuredOutput === 'instructions';
    const text = output && needsText ? withOutputSchema(request.instructions, output) : request.instructions;
    const isKept = from !== undefined && dialect.keepsInstructions === true;
    const own: JsonObject = {
      model,
      ...omitUndefined({ instructions: isKept ? undefined : text }),
      ...settingsInput(request.settings),
    };
    if (previous !== undefined && from !== undefined) own.previous_response_id = previous;
    if (from !== undefined) own.input = inputAfter(transcript, { ...dialect, stored, from });
    else own.input = stored ? storedInput(transcript) : unstoredInput(transcript);
    if (stream) own.stream = true;
    if (dialect.remembers && !stored) own.store = false;
    if (encryptedReasoning) own.include = ['reasoning.encrypted_content'];
    if (tools.length > 0) {
      const inputs = toolInputs(tools);
      own.tools = hasSearch(providerOptions) ? inputs.filter(input => input !== SEARCH) : inputs;
    }
    if (output)
      own.text = {
        format: needsText ? { type: 'json_object' } : { type: 'json_schema', ...formatOf(output) },
      };
    const body = mergeOptions(own, providerOptions);
    const choice = choiceInput(request, providerOptions.tools, dialect);
    return withToolSettings(body, allowedChoice(choice, body, transcript), request.settings);
  };
}

/** Leaves out the tools that are declared elsewhere; the same list for the same tools and names. */
function withoutDeclared(): (
  tools: readonly ToolDefinition[],
  declared: readonly DeclaredName[],
  added: readonly DeclaredName[],
) => readonly ToolDefinition[] {
  const known = new WeakMap<readonly ToolDefinition[], { key: string; left: readonly ToolDefinition[] }>();
  return (tools, declared, added) => {
    if (declared.length + added.length === 0) return tools;
    const key = JSON.stringify([declared, added]);
    const last = known.get(tools);
    if (last?.key === key) return last.left;
    // What a search of the provider has found stays declared.
    const isDeclared = isDeclaredBy(declared, tools);
    const isAdded = isDeclaredBy(added, tools);
    const left = tools.filter(tool => !isDeclared(tool) && (tool.deferred || !isAdded(tool)));
    known.set(tools, { key, left });
    return left;
  };
}

function choiceInput(
  { toolChoice: choice, tools }: ModelRequest,
  declared: JsonValue | undefined,
  dialect: ResponsesDialect,
): JsonValue {
  if (typeof choice === 'string') return choice;
  const chosen = tools.find(({ name }) => name === choice.name);
  const own = objectsOf(declared).find(
    tool => chosen && isDeclaredBy(namesDeclaredIn([tool]), tools)(chosen),
  );
  if (callTypeDeclaredAs(own?.type) !== undefined) return { type: own?.type ?? '' };
  const name = own?.type === 'namespace' ? chosen?.member?.name : undefined;
  return { type: chosen && isCustom(chosen, dialect) ? 'custom' : 'function', name: name ?? choice.name };
}

/**
 * A change as items of a transcript. The API has none that turns tools off: `off` and `on` name those that the choice of
 * later requests leaves out, or has again. Tools that the transcript declares are not declared again.
 */
export function setupItems(
  { instructions, added, restored: on = [], removed: off = [] }: SetupChange,
  dialect: ResponsesDialect,
  transcript: readonly Item[],
): ProviderItem[] {
  const changes: JsonObject[] = [];
  const known = added === undefined ? [] : namesAddedIn(transcript, dialect);
  const isKnown = isDeclaredBy(known, added ?? []);
  const unknown = (added ?? []).filter(tool => !isKnown(tool));
  if (instructions !== undefined)
    changes.push({ item: { role: 'developer', content: changedInstructions(instructions) } });
  if (unknown.length > 0) {
    const tools = unknown.map(tool => toolInput(tool, dialect));
    changes.push({ item: { type: 'additional_tools', role: 'developer', tools } });
  }
  if (on.length + off.length > 0) changes.push({ on: [...on], off: [...off] });
  const { provider } = dialect;
  return changes.map(data => ({ type: 'provider_item', kind: 'setup', opaque: { provider, data } }));
}

/** Leaves the tools out that are off: https://developers.openai.com/api/docs/guides/function-calling#tool-choice */
function allowedChoice(choice: JsonValue, { tools }: JsonObject, transcript: readonly Item[]): JsonValue {
  const changes = transcript.flatMap(item =>
    item.type === 'provider_item' && item.kind === 'setup' ? [objectOf(item.opaque.data)] : [],
  );
  const off = new Set<JsonValue>();
  for (const change of changes) {
    for (const name of Array.isArray(change.on) ? change.on : []) off.delete(name);
    for (const name of Array.isArray(change.off) ? change.off : []) off.add(name);
  }
  if (off.size === 0 || typeof choice !== 'string' || choice === 'none') return choice;
  const declared = [...objectsOf(tools), ...changes.flatMap(({ item }) => objectsOf(objectOf(item).tools))];
  const allowed = declared.filter(({ name }) => name === undefined || !off.has(name));
  if (allowed.length === 0) return 'none';
  return {
    type: 'allowed_tools',
    mode: choice,
    tools: allowed.map(tool => pick(tool, ['type', 'name', 'server_label'])),
  };
}

function isCustom({ custom }: ToolDefinition, { customTools }: ResponsesDialect): boolean {
  return custom !== undefined && customTools === 'client';
}

const SEARCH: JsonObject = { type: 'tool_search' };

function hasSearch({ tools }: JsonObject): boolean {
  return objectsOf(tools).some(({ type }) => type === SEARCH.type);
}

/** The transcript without what another model's provider has searched: this model reads neither searches nor namespaces. */
function withoutSearches(transcript: readonly Item[]): readonly Item[] {
  if (!transcript.some(isSearch)) return transcript;
  return transcript.filter(item => !isSearch(item)).map(withoutNamespace);
}

function isSearch(item: Item): boolean {
  return item.type === 'provider_item' && /^tool_search_(?:call|output)$/.test(item.kind);
}

const withoutNamespace = oncePer((item: Item): Item => {
  if (item.type !== 'tool_call' || !item.opaque || !isJsonObject(item.opaque.data)) return item;
  const { namespace, ...data } = item.opaque.data;
  return namespace === undefined || data.called !== undefined
    ? item
    : { ...item, opaque: { ...item.opaque, data } };
});

/**
 * Deferred tools of a server are in a namespace, of which the model sees name and description: of other deferred functions
 * it sees their own. Source: https://developers.openai.com/api/docs/guides/tools-tool-search
 */
function toolsInput(tools: readonly ToolDefinition[], dialect: ResponsesDialect): JsonObject[] {
  const inputs: JsonObject[] = [];
  const spaces = new Map<string, JsonObject[]>();
  for (const tool of tools) {
    const input = toolInput(tool, dialect);
    const member = tool.deferred ? { ...input, defer_loading: true } : input;
    if (!tool.deferred || tool.server === undefined) {
      inputs.push(member);
      continue;
    }
    const isKnown = spaces.has(tool.server) || spaces.size < MOST_SPACES;
    const space = isKnown ? tool.server : OTHER_SERVERS;
    const members = spaces.get(space);
    if (members === undefined) spaces.set(space, [member]);
    else members.push(member);
  }
  const taken = new Set(tools.map(({ name }) => name));
  for (const [space, members] of spaces) {
    let name = space.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, LONGEST_NAME) || 'server';
    while (taken.has(name)) name = `${name}_`;
    taken.add(name);
    const description = describeMembers(members, LISTS_LENGTH / spaces.size);
    inputs.push({ type: 'namespace', name, description, tools: members });
  }
  return tools.some(({ deferred }) => deferred) ? [...inputs, SEARCH] : inputs;
}

/** So that the namespaces take few tokens, however many servers there are. */
const MOST_SPACES = 10;
const OTHER_SERVERS = 'other_servers';
/** In characters: of all lists of names together, and of the name of a namespace. */
const LISTS_LENGTH = 800;
const LONGEST_NAME = 40;

function describeMembers(members: readonly JsonObject[], length: number): string {
  const names = members.map(({ name }) => name).join(', ');
  return `${members.length} tools: ${names.length > length ? `${names.slice(0, length)}…` : names}`;
}

/** `strict` is always sent: its default is true, which few schemas satisfy. */
function toolInput(tool: ToolDefinition, dialect: ResponsesDialect): JsonObject {
  const { name, description } = tool;
  if (isCustom(tool, dialect))
    return { type: 'custom', name, description, ...omitUndefined({ format: tool.custom?.format }) };
  const { parameters, isStrict } = parametersOf(tool);
  return { type: 'function', name, description, parameters, strict: isStrict };
}

function settingsInput({ temperature, topP, maxOutputTokens, reasoningEffort }: Settings): JsonObject {
  return omitUndefined({
    temperature,
    top_p: topP,
    max_output_tokens: maxOutputTokens,
    reasoning: reasoningEffort === undefined ? undefined : { effort: reasoningEffort },
  });
}

/** As `inputOf`, from the last turn alone, if the results after it answer only its calls. */
export function inputAfter(
  transcript: readonly Item[],
  options: InputOptions & { from: number },
): JsonObject[] {
  const begin = transcript.findLastIndex((item, at) => at < options.from && closesTurn(item)) + 1;
  const turn = transcript.slice(begin);
  return isIndependent(turn, transcript, begin)
    ? providerInputOf(turn, { ...options, from: options.from - begin })
    : providerInputOf(transcript, options);
}

function isIndependent(turn: readonly Item[], transcript: readonly Item[], begin: number): boolean {
  const calls = new Set(turn.flatMap(item => (item.type === 'tool_call' ? item.callId : [])));
  for (const item of turn) if (item.type === 'tool_result' && !calls.has(item.callId)) return false;
  for (const callId of calls) if (!CALL_IDS.fits(callId)) return false;
  if (calls.size === 0) return true;
  for (let at = 0; at < begin; at += 1) {
    const item = transcript[at];
    const names = item?.type === 'tool_call' || item?.type === 'tool_result';
    if (names && calls.has(item.callId)) return false;
  }
  return true;
}
