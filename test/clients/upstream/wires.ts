import { createHash } from 'node:crypto';
import { jsonIn, nonEmpty, objectOf, objectsOf, textIn } from '../../../adapters/turn/json-access.ts';
import type { InputItem } from '../../../examples/stand-in/request.ts';
import { anthropicMessages } from '../../../examples/stand-in/wire/anthropic.ts';
import { chat } from '../../../examples/stand-in/wire/chat.ts';
import { geminiContent } from '../../../examples/stand-in/wire/gemini.ts';
import { ollamaChat } from '../../../examples/stand-in/wire/ollama.ts';
import {
  readAnthropic,
  readChat,
  readGemini,
  readOllama,
  type StandInRequest,
} from '../../../examples/stand-in/wire/read-requests.ts';
import { responses } from '../../../examples/stand-in/wire/responses.ts';
import type { Encoder } from '../../../examples/stand-in/wire/turn.ts';
import { canonicalJson, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import type { OfferedTool, WireName } from './script.ts';

/** A turn as a request returns it. */
type ReturnedTurn = {
  calls: readonly { name: string; arguments: JsonValue | undefined }[];
  /** `undefined` if the request lacks it. */
  text?: string | undefined;
  signature?: string | undefined;
};

/** One API of a provider: how requests are read, answers written, and what has to come back. */
export type Wire = {
  name: WireName;
  path: RegExp;
  /** A model of this provider, as the gateway's configuration names it. */
  model: string;
  encoder: Encoder;
  read: (body: JsonObject) => Omit<StandInRequest, 'tools'> & { tools: OfferedTool[] };
  streams: (path: string, body: JsonObject) => boolean;
  /** The turns of the model in a request. */
  turns: (body: JsonObject) => ReturnedTurn[];
  /** What of the reasoning comes back with the calls of its turn. */
  returns: 'signature' | 'text' | 'nothing';
  /** Whether calls without its member are refused, if only an empty one. Other providers only think worse. */
  insists?: true;
  /** The signature of the next turn. Without it: any text. */
  sign?: (body: JsonObject) => string;
  /** What else the provider complains about. */
  refuses?: (body: JsonObject) => string | undefined;
};

const streamField = (_: string, { stream }: JsonObject) => stream === true;

/** The wires by provider. The first whose path matches answers; `/deepseek` is before the other Chat Completions. */
export const WIRES: readonly Wire[] = [
  {
    name: 'openai',
    path: /\/responses$/,
    model: 'openai:gpt-5.5',
    encoder: responses(),
    read: readResponses,
    streams: streamField,
    turns: ({ input }) => itemTurns(objectsOf(input)),
    returns: 'signature',
    refuses: ({ input }) => misplacedReasoning(objectsOf(input)),
  },
  {
    name: 'deepseek',
    path: /^\/deepseek\/.*chat\/completions$/,
    model: 'deepseek:deepseek-reasoner',
    encoder: chat(),
    read: body => withFunctions(readChat(body)),
    streams: streamField,
    turns: chatTurns,
    returns: 'text',
    // https://api-docs.deepseek.com/guides/thinking_mode
    insists: true,
  },
  {
    name: 'openai-chat',
    path: /\/chat\/completions$/,
    model: 'openai-chat:gpt-4.1',
    encoder: chat(),
    read: body => withFunctions(readChat(body)),
    streams: streamField,
    turns: chatTurns,
    returns: 'nothing',
  },
  {
    name: 'anthropic',
    path: /\/v1\/messages$/,
    model: 'anthropic:claude-opus-5-5',
    encoder: anthropicMessages,
    read: body => withAdditions(body, withFunctions(readAnthropic(body))),
    streams: streamField,
    turns: messageTurns,
    returns: 'signature',
    sign: body => digest(prefixOf(body, objectsOf(body.messages).flatMap(blocksOf))),
    refuses: changedPrefix,
  },
  {
    name: 'gemini',
    path: /\/v1beta\/models\/[^/]+:(?:streamGenerateContent|generateContent)$/,
    model: 'gemini:gemini-3.5-pro',
    encoder: geminiContent,
    read: body => withFunctions(readGemini(body)),
    streams: path => path.includes(':stream'),
    turns: contentTurns,
    // https://ai.google.dev/gemini-api/docs/thought-signatures
    returns: 'signature',
  },
  {
    name: 'ollama',
    path: /\/api\/chat$/,
    model: 'ollama:qwen3',
    encoder: ollamaChat,
    read: body => withFunctions(readOllama(body)),
    streams: (_, { stream }) => stream !== false,
    turns: chatTurns,
    returns: 'text',
  },
];

function withFunctions({ tools, ...read }: StandInRequest) {
  return { ...read, tools: tools.map(name => ({ name, type: 'function' })) };
}

/** With the tools that messages in the conversation add. */
function withAdditions({ messages }: JsonObject, read: ReturnType<typeof withFunctions>) {
  const added = objectsOf(messages)
    .flatMap(({ content }) => objectsOf(content))
    .filter(({ type }) => type === 'tool_addition')
    .map(({ tool }) => ({ name: textIn(objectOf(objectOf(tool).definition).name), type: 'function' }));
  return { ...read, tools: [...read.tools, ...added] };
}

/** Items as of functions: the text of a custom tool's call stands for arguments. */
function readResponses(body: JsonObject) {
  const items: InputItem[] = [];
  const input: JsonObject[] =
    typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : objectsOf(body.input);
  for (const item of input) {
    const call_id = textIn(item.call_id);
    if (item.type === 'compaction') items.push(said(textOfCompaction(item)));
    else if (item.type === 'compaction_trigger') items.push(said('Summarize this conversation.'));
    else if (item.role === 'user' || item.role === 'assistant')
      items.push({ type: 'message', role: item.role, content: textOf(item.content) });
    else if (OF_MODEL.test(textIn(item.type))) {
      const written = textIn(item.arguments ?? item.input);
      items.push({ type: 'function_call', call_id, name: textIn(item.name), arguments: written });
    } else if (item.type === 'tool_search_output' || /_call_output$/.test(textIn(item.type)))
      items.push({ type: 'function_call_output', call_id, output: textOf(item.output) });
  }
  const tools = [...toolsIn(body.tools), ...input.flatMap(item => toolsIn(item.tools))];
  return { instructions: textIn(body.instructions), items, tools, toolsOff: body.tool_choice === 'none' };
}

function said(content: string): InputItem {
  return { type: 'message', role: 'user', content };
}

/** The summary of a conversation, which the client cannot read. */
export function compactionOf(summary: string): JsonObject {
  return { type: 'compaction', id: 'cmp_1', encrypted_content: Buffer.from(summary).toString('base64') };
}

function textOfCompaction({ encrypted_content: sealed }: JsonObject): string {
  return Buffer.from(textIn(sealed), 'base64').toString();
}

/** Of a request, and of the items that add some. */
function toolsIn(tools: JsonValue | undefined, namespace?: string): OfferedTool[] {
  return objectsOf(tools).flatMap(({ type, name, tools: inner }) =>
    type === 'namespace'
      ? toolsIn(inner, textIn(name))
      : [{ name: textIn(name ?? type), type: textIn(type), ...omitUndefined({ namespace }) }],
  );
}

function textOf(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content;
  return objectsOf(content)
    .map(({ text }) => textIn(text))
    .join('');
}

/**
 * How many turns of the model there are: what it says and calls, until something answers it. The ids of calls tell the
 * turns apart where a client sends each call with its result.
 */
export function countTurns(items: readonly InputItem[]): number {
  let turns = 0;
  let named = '';
  let isOpen = false;
  for (const item of items) {
    const turn = turnOf(item);
    const continues = turn !== '' && turn === named ? true : isOpen && (named === '' || turn === '');
    if (turn !== undefined && !continues) {
      turns += 1;
      named = '';
    }
    isOpen = turn !== undefined;
    named = turn || named;
  }
  return turns;
}

/** The turn that the id of a call names, or `''`. `undefined` for what the model did not write. */
function turnOf(item: InputItem): string | undefined {
  if (item.type === 'function_call') return /^call_.+(?=_\d+$)/.exec(item.call_id)?.[0] ?? '';
  return item.type === 'message' && item.role === 'assistant' ? '' : undefined;
}

/** How often the model has called tools, and something came back. What an interrupted turn said does not count. */
export function countRounds(items: readonly InputItem[]): number {
  return countTurns(items.filter(({ type }) => type !== 'message'));
}

function digest(value: JsonValue): string {
  return createHash('sha256').update(canonicalJson(value)).digest('base64');
}

function prefixOf({ system, tools }: JsonObject, earlier: readonly JsonObject[]): JsonValue {
  return [withoutMarks(system ?? ''), withoutMarks(tools ?? []), [...earlier]];
}

function blocksOf({ role, content }: JsonObject): JsonObject[] {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : objectsOf(content);
  return blocks.map(block => ({ role: role ?? '', ...objectOf(withoutMarks(block)) }));
}

/** Cache marks are not part of what a thinking block is bound to. */
function withoutMarks(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withoutMarks);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => name !== 'cache_control');
  return Object.fromEntries(kept.map(([name, member]) => [name, withoutMarks(member)]));
}

/**
 * A thinking block is valid only while system, tools and all earlier messages are unchanged.
 * https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
 */
function changedPrefix(body: JsonObject): string | undefined {
  const earlier: JsonObject[] = [];
  for (const [index, message] of objectsOf(body.messages).entries())
    for (const [at, block] of blocksOf(message).entries()) {
      if (block.type === 'thinking' && block.signature !== digest(prefixOf(body, earlier)))
        return `messages.${index}.content.${at}: Invalid \`signature\` in \`thinking\` block. The block is bound to a different conversation.`;
      earlier.push(block);
    }
  return undefined;
}

function messageTurns({ messages }: JsonObject): ReturnedTurn[] {
  return replies(messages).map(message => {
    const blocks = blocksOf(message);
    const [first] = blocks;
    return {
      calls: blocks
        .filter(({ type }) => type === 'tool_use')
        .map(({ name, input }) => ({ name: textIn(name), arguments: input })),
      ...(first?.type === 'thinking' && { signature: textIn(first.signature) }),
    };
  });
}

/** Of Chat Completions and of Ollama, which names reasoning otherwise and has no texts of arguments. */
function chatTurns({ messages }: JsonObject): ReturnedTurn[] {
  return replies(messages).map(({ tool_calls, reasoning_content, thinking }) => ({
    calls: objectsOf(tool_calls).map(call => {
      const { name, arguments: written } = objectOf(call.function);
      return { name: textIn(name), arguments: typeof written === 'string' ? jsonIn(written) : written };
    }),
    text: typeof reasoning_content === 'string' ? reasoning_content : nonEmpty(thinking),
  }));
}

function contentTurns({ contents }: JsonObject): ReturnedTurn[] {
  const turns = objectsOf(contents).filter(({ role }) => role === 'model');
  return turns.map(({ parts }) => {
    const calls = objectsOf(parts).filter(({ functionCall }) => functionCall !== undefined);
    const signature = nonEmpty(calls[0]?.thoughtSignature);
    return {
      calls: calls.map(({ functionCall }) => {
        const { name, args } = objectOf(functionCall);
        return { name: textIn(name), arguments: args };
      }),
      // What Google documents for calls of another model.
      signature: signature === 'skip_thought_signature_validator' ? undefined : signature,
    };
  });
}

function replies(messages: JsonValue | undefined): JsonObject[] {
  return objectsOf(messages).filter(({ role }) => role === 'assistant');
}

const OF_MODEL = /^(?:function|custom_tool|tool_search)_call$/;

function itemTurns(items: readonly JsonObject[]): ReturnedTurn[] {
  const turns: { calls: { name: string; arguments: JsonValue | undefined }[]; signature?: string }[] = [];
  let isOpen = false;
  for (const item of items) {
    const isCall = OF_MODEL.test(textIn(item.type));
    const ofModel = isCall || item.type === 'reasoning' || item.role === 'assistant';
    if (ofModel && !isOpen) turns.push({ calls: [] });
    isOpen = ofModel;
    const turn = turns.at(-1);
    if (turn === undefined) continue;
    if (item.type === 'reasoning') turn.signature = textIn(item.encrypted_content);
    const written = textIn(item.arguments ?? item.input);
    if (isCall) turn.calls.push({ name: textIn(item.name), arguments: jsonIn(written) ?? written });
  }
  return turns;
}

/** A reasoning item comes before the text and the calls of its turn. */
function misplacedReasoning(items: readonly JsonObject[]): string | undefined {
  for (const [index, { type }] of items.entries()) {
    if (type !== 'reasoning') continue;
    const ofModel = (item?: JsonObject) => item?.role === 'assistant' || OF_MODEL.test(textIn(item?.type));
    if (ofModel(items[index - 1])) return `input[${index}]: reasoning follows the text or calls of its turn.`;
    if (!ofModel(items[index + 1])) return `input[${index}]: reasoning without its required following item.`;
  }
  return undefined;
}
