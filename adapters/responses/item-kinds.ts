import type { Media } from '../../protocol/content/read-content.ts';
import type { Item, Part, ToolResultItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { ToolDefinition } from '../../protocol/turn.ts';
import { partsOfResult, textOfResult } from '../turn/content.ts';
import { jsonIn, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';

/** The form of a required member. */
export type MemberForm = 'text' | 'object' | 'list' | 'any';
type Members = Readonly<Record<string, MemberForm>>;

/** What a model reads of a result, and the output as it was returned. */
type CallResult = Pick<ToolResultItem, 'output' | 'shown' | 'blob' | 'isError'>;

/**
 * A call that the caller of the API runs, as one of its functions: a `tool_call` of the transcript, and its output a
 * `tool_result`.
 */
export type CallKind = {
  members: Members;
  /** The name of its tool; absent where each item has it. */
  tool?: string;
  /** The types under which requests declare the tool, if it is not a function of the caller. */
  declaredAs?: readonly string[];
  /** Whether the provider runs this call, so that it and its output are kept as they are. Default: never. */
  atProvider?(item: JsonObject): boolean;
  /** Whether the item must have its id even where the provider stores nothing. */
  needsId?: true;
  /** The call's arguments, as JSON text. */
  read(item: JsonObject): string;
  /** The members that have the arguments. */
  write(written: string): JsonObject;
  /** Of the item that answers the call. A result with these members is sent as it is. */
  output: {
    type: string;
    members: Members;
    write(result: CallResult): JsonObject;
    /** What the model has to read of a result that the output has no place for. */
    note?(result: CallResult): string | undefined;
  };
};

/** An item that is kept word for word. `by`: who writes it. */
type KeptKind = { members: Members; by: 'model' | 'client' };

export const FUNCTION_CALL: CallKind = {
  members: { call_id: 'text', name: 'text' },
  read: item => textIn(item.arguments),
  write: written => ({ arguments: written || '{}' }),
  output: { type: 'function_call_output', members: {}, write: contentOutput },
};

/** Calls of the caller. All but functions are OpenAI's: `customTools` of a dialect says whether it has them. */
export const CALL_KINDS: Readonly<Record<string, CallKind>> = {
  function_call: FUNCTION_CALL,
  custom_tool_call: {
    members: { call_id: 'text', name: 'text' },
    read: item => JSON.stringify({ input: textIn(item.input) }),
    write: written => ({ input: textIn(objectOf(jsonIn(written)).input) }),
    output: { type: 'custom_tool_call_output', members: {}, write: contentOutput },
  },
  apply_patch_call: {
    ...ownTool('apply_patch', ['apply_patch']),
    members: { call_id: 'text', operation: 'object' },
    output: {
      type: 'apply_patch_call_output',
      members: { status: 'text' },
      write: result => ({ status: result.isError ? 'failed' : 'completed', output: textOfResult(result) }),
    },
  },
  shell_call: {
    ...ownTool('shell', ['shell']),
    members: { call_id: 'text', action: 'object' },
    atProvider: ({ environment }) => objectOf(environment).type === 'container_reference',
    output: {
      type: 'shell_call_output',
      members: { output: 'list' },
      write: result => ({ output: [shellOutput(result)] }),
    },
  },
  local_shell_call: {
    ...ownTool('local_shell', ['local_shell']),
    members: { call_id: 'text', action: 'object' },
    needsId: true,
    output: {
      type: 'local_shell_call_output',
      members: { output: 'text' },
      write: result => ({ output: textOfResult(result) }),
    },
  },
  computer_call: {
    ...ownTool('computer', ['computer', 'computer_use_preview']),
    members: { call_id: 'text' },
    needsId: true,
    output: {
      type: 'computer_call_output',
      members: { output: 'object' },
      write: result => ({
        output: { type: 'computer_screenshot', image_url: pictureIn(result) ?? EMPTY_PICTURE },
      }),
      note: result => (pictureIn(result) === undefined ? textOfResult(result) : undefined),
    },
  },
  tool_search_call: {
    tool: 'tool_search',
    declaredAs: ['tool_search'],
    members: { arguments: 'any' },
    read: item => JSON.stringify(item.arguments ?? {}),
    write: written => ({ status: 'completed', execution: 'client', arguments: jsonIn(written) ?? {} }),
    atProvider: ({ execution }) => execution !== 'client',
    output: {
      type: 'tool_search_output',
      members: { tools: 'list' },
      write: () => ({ execution: 'client', tools: [] }),
    },
  },
};

/** Items without a call of ours, which go back in their place. */
export const KEPT_KINDS: Readonly<Record<string, KeptKind>> = {
  program: { members: { id: 'text', call_id: 'text', code: 'text', fingerprint: 'text' }, by: 'model' },
  program_output: { members: { id: 'text', call_id: 'text', result: 'text' }, by: 'model' },
  image_generation_call: { members: { id: 'text', result: 'any' }, by: 'model' },
  additional_tools: { members: { tools: 'list' }, by: 'client' },
  configuration_update: { members: {}, by: 'client' },
  compaction_trigger: { members: {}, by: 'client' },
  // Of Codex: what one of its agents says to another.
  agent_message: { members: { content: 'list' }, by: 'client' },
};

/** Whether the caller of the API appended the item, of those that are kept word for word. */
export function isByClient(item: Item): boolean {
  if (item.type !== 'provider_item') return false;
  const { kind } = item;
  return kind === 'setup' || (Object.hasOwn(KEPT_KINDS, kind) && KEPT_KINDS[kind]?.by === 'client');
}

/** Whether items of this type are those of the tables: what a call or its output, or another item, is. */
export function isKnownItem(type: string): boolean {
  return (
    Object.hasOwn(KEPT_KINDS, type) ||
    callKindOf(type) !== undefined ||
    callTypeAnsweredBy(type) !== undefined
  );
}

export function callKindOf(type: JsonValue | undefined): CallKind | undefined {
  return typeof type === 'string' && Object.hasOwn(CALL_KINDS, type) ? CALL_KINDS[type] : undefined;
}

/** The item type of the calls of a tool that OpenAI's models know by this name. */
export function callTypeOf(tool: string): string | undefined {
  return Object.keys(CALL_KINDS).find(call => CALL_KINDS[call]?.tool === tool);
}

/** The item type whose output has this type. */
export function callTypeAnsweredBy(type: JsonValue | undefined): string | undefined {
  return Object.keys(CALL_KINDS).find(call => CALL_KINDS[call]?.output.type === type);
}

/** The item type of the calls of a tool that requests declare with this type. */
export function callTypeDeclaredAs(type: JsonValue | undefined): string | undefined {
  return Object.keys(CALL_KINDS).find(call =>
    CALL_KINDS[call]?.declaredAs?.some(declared => declared === type),
  );
}

export function hasMember(item: JsonObject, name: string, form: MemberForm): boolean {
  const value = item[name];
  if (form === 'text') return nonEmpty(value) !== undefined;
  if (form === 'object') return isJsonObject(value);
  return form === 'list' ? Array.isArray(value) : value !== undefined;
}

/** The members of the item that answers a call, besides its type and ids, and the note after it. */
export function writeAnswer(
  { output: { members, write, note } }: CallKind,
  result: CallResult,
): { members: JsonObject; note: string | undefined } {
  const { output, shown, blob } = result;
  const names = Object.entries(members);
  if (names.length > 0 && shown === undefined && blob === undefined && isJsonObject(output))
    if (names.every(([name, form]) => hasMember(output, name, form)))
      return { members: output, note: undefined };
  return { members: write(result), note: note?.(result) };
}

export type DeclaredName = { name: string; namespace?: string };

/** The names of the tools that a list of declarations has, also in its namespaces. */
export function namesDeclaredIn(tools: JsonValue | undefined, namespace?: string): DeclaredName[] {
  return objectsOf(tools).flatMap(({ type, name, tools: inner }) => {
    if (type === 'namespace') return namesDeclaredIn(inner, nonEmpty(name));
    const own = CALL_KINDS[callTypeDeclaredAs(type) ?? '']?.tool;
    const named = type === 'function' || type === 'custom' ? nonEmpty(name) : own;
    return named === undefined ? [] : [{ name: named, ...omitUndefined({ namespace }) }];
  });
}

/**
 * Whether a tool is one of those that are declared. A name in a namespace that no tool of the list has for its own is that
 * of the tool that is called so.
 */
export function isDeclaredBy(
  names: readonly DeclaredName[],
  tools: readonly ToolDefinition[],
): (tool: ToolDefinition) => boolean {
  const keyOf = ({ namespace, name }: DeclaredName) => JSON.stringify([namespace, name]);
  const members = new Set(tools.flatMap(({ member }) => (member === undefined ? [] : [keyOf(member)])));
  const keys = new Set(names.map(keyOf));
  const others = new Set(names.filter(one => !members.has(keyOf(one))).map(({ name }) => name));
  return ({ name, member }) => (member === undefined ? others.has(name) : keys.has(keyOf(member)));
}

/** Members that every call has; the others are its arguments. */
export const CALL_HEAD: readonly string[] = ['type', 'id', 'call_id', 'status', 'caller', 'created_by'];

/** A tool that the model knows, whose arguments are the members of the item. */
function ownTool(tool: string, declaredAs: readonly string[]) {
  return {
    tool,
    declaredAs,
    read: (item: JsonObject) =>
      JSON.stringify(Object.fromEntries(Object.entries(item).filter(([name]) => !CALL_HEAD.includes(name)))),
    write: (written: string): JsonObject => ({ status: 'completed', ...objectOf(jsonIn(written)) }),
  };
}

/** With images and files that outputs of functions can have: https://platform.openai.com/docs/guides/images-vision. */
function contentOutput(result: CallResult): JsonObject {
  const parts = partsOfResult(result, readsMedia);
  const hasMedia = parts.some(part => part.type !== 'text');
  return { output: hasMedia ? parts.map(inputPart) : textOfResult(result) };
}

function readsMedia(mediaType: string, { type }: Media): boolean {
  return type === 'image'
    ? /^image\/(?:jpeg|png|gif|webp|\*)$/.test(mediaType)
    : !/^(?:audio|video|image)\//.test(mediaType);
}

export function inputPart(part: Part): JsonObject {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image':
      return { type: 'input_image', image_url: part.url, detail: part.detail ?? 'auto' };
    case 'file':
      return part.url.startsWith('data:')
        ? { type: 'input_file', filename: part.name ?? 'file', file_data: part.url }
        : { type: 'input_file', file_url: part.url };
  }
}

function shellOutput(result: CallResult): JsonObject {
  const text = textOfResult(result);
  return result.isError
    ? { stdout: '', stderr: text, outcome: { type: 'exit', exit_code: 1 } }
    : { stdout: text, stderr: '', outcome: { type: 'exit', exit_code: 0 } };
}

function pictureIn(result: CallResult): string | undefined {
  const parts = partsOfResult(result, (_, { type }) => type === 'image');
  return parts.find(part => part.type === 'image')?.url;
}

/** The API takes nothing but a picture as the output of a computer. */
const EMPTY_PICTURE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
