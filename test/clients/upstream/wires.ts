import { createHash } from 'node:crypto';
import { objectOf, objectsOf, textIn } from '../../../adapters/turn/json-access.ts';
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
import { canonicalJson, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import type { OfferedTool, ScriptedTurn, WireName } from './script.ts';

/** One API of a provider: how requests are read, answers written, and what has to come back. */
export type Wire = {
  name: WireName;
  path: RegExp;
  /** A model of this provider, as the gateway's configuration names it. */
  model: string;
  encoder: Encoder;
  read: (body: JsonObject) => Omit<StandInRequest, 'tools'> & { tools: OfferedTool[] };
  streams: (path: string, body: JsonObject) => boolean;
  /** The signature of the next turn: what the provider wants back with it. */
  sign: (body: JsonObject, key: string) => string;
  /** The provider's complaint about what came back changed, or did not come back. */
  missing: (
    body: JsonObject,
    turns: readonly ScriptedTurn[],
    key: (at: number) => string,
  ) => string | undefined;
};

const streamField = (_: string, { stream }: JsonObject) => stream === true;
const plainSignature = (_: JsonObject, key: string) => Buffer.from(`sealed ${key}`).toString('base64');
const none = () => undefined;

/** The wires by provider. The first whose path matches answers; `/deepseek` is before the other Chat Completions. */
export const WIRES: readonly Wire[] = [
  {
    name: 'openai',
    path: /\/responses$/,
    model: 'openai:gpt-5.5',
    encoder: responses(),
    read: readResponses,
    streams: streamField,
    sign: plainSignature,
    missing: missingReasoningItem,
  },
  {
    name: 'deepseek',
    path: /^\/deepseek\/.*chat\/completions$/,
    model: 'deepseek:deepseek-reasoner',
    encoder: chat(),
    read: body => withFunctions(readChat(body)),
    streams: streamField,
    sign: plainSignature,
    missing: missingReasoningContent,
  },
  {
    name: 'openai-chat',
    path: /\/chat\/completions$/,
    model: 'openai-chat:gpt-4.1',
    encoder: chat(),
    read: body => withFunctions(readChat(body)),
    streams: streamField,
    sign: plainSignature,
    missing: none,
  },
  {
    name: 'anthropic',
    path: /\/v1\/messages$/,
    model: 'anthropic:claude-opus-5-5',
    encoder: anthropicMessages,
    read: body => withFunctions(readAnthropic(body)),
    streams: streamField,
    sign: body => digest(prefixOf(body)),
    missing: changedPrefix,
  },
  {
    name: 'gemini',
    path: /\/v1beta\/models\/[^/]+:(?:streamGenerateContent|generateContent)$/,
    model: 'gemini:gemini-3.5-pro',
    encoder: geminiContent,
    read: body => withFunctions(readGemini(body)),
    streams: path => path.includes(':stream'),
    sign: plainSignature,
    missing: missingSignature,
  },
  {
    name: 'ollama',
    path: /\/api\/chat$/,
    model: 'ollama:qwen3',
    encoder: ollamaChat,
    read: body => withFunctions(readOllama(body)),
    streams: (_, { stream }) => stream !== false,
    sign: plainSignature,
    missing: none,
  },
];

function withFunctions({ tools, ...read }: StandInRequest) {
  return { ...read, tools: tools.map(name => ({ name, type: 'function' })) };
}

/** Items as of functions: the text of a custom tool's call stands for arguments. */
function readResponses(body: JsonObject) {
  const items: InputItem[] = [];
  const input: JsonObject[] =
    typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : objectsOf(body.input);
  for (const item of input) {
    const call_id = textIn(item.call_id);
    if (item.role === 'user' || item.role === 'assistant')
      items.push({ type: 'message', role: item.role, content: textOf(item.content) });
    else if (item.type === 'function_call' || item.type === 'custom_tool_call') {
      const written = textIn(item.arguments ?? item.input);
      items.push({ type: 'function_call', call_id, name: textIn(item.name), arguments: written });
    } else if (item.type === 'function_call_output' || item.type === 'custom_tool_call_output')
      items.push({ type: 'function_call_output', call_id, output: textOf(item.output) });
  }
  const tools = objectsOf(body.tools).map(({ type, name }) => ({ name: textIn(name), type: textIn(type) }));
  return { instructions: textIn(body.instructions), items, tools, toolsOff: body.tool_choice === 'none' };
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

function digest(value: JsonValue): string {
  return createHash('sha256').update(canonicalJson(value)).digest('base64');
}

/** System, tools and the blocks before the next turn, without cache marks. */
function prefixOf({ system, tools, messages }: JsonObject): JsonValue {
  return [withoutMarks(system ?? ''), withoutMarks(tools ?? []), objectsOf(messages).flatMap(blocksOf)];
}

function blocksOf({ role, content }: JsonObject): JsonObject[] {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : objectsOf(content);
  return blocks.map(block => ({ role: role ?? '', ...objectOf(withoutMarks(block)) }));
}

function withoutMarks(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withoutMarks);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => name !== 'cache_control');
  return Object.fromEntries(kept.map(([name, member]) => [name, withoutMarks(member)]));
}

/**
 * "Preserved thinking": a thinking block is valid only while system, tools and all earlier messages are unchanged.
 * A message with calls begins with its thinking.
 * https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
 */
function changedPrefix(body: JsonObject, turns: readonly ScriptedTurn[]): string | undefined {
  const messages = objectsOf(body.messages);
  const earlier: JsonObject[] = [];
  let turn = -1;
  for (const [index, message] of messages.entries()) {
    const blocks = blocksOf(message);
    const isReply = message.role === 'assistant';
    if (isReply) turn += 1;
    const calls = blocks.some(({ type }) => type === 'tool_use');
    if (isReply && calls && turns[turn]?.reasoning !== undefined && blocks[0]?.type !== 'thinking')
      return `messages.${index}.content.0.type: Expected \`thinking\`, but found \`${textIn(blocks[0]?.type)}\`.`;
    for (const [at, block] of blocks.entries()) {
      const head = [withoutMarks(body.system ?? ''), withoutMarks(body.tools ?? []), earlier];
      if (block.type === 'thinking' && block.signature !== digest(head))
        return `messages.${index}.content.${at}: Invalid \`signature\` in \`thinking\` block. The block is bound to a different conversation.`;
      earlier.push(block);
    }
  }
  return undefined;
}

/** A reasoning item is as it was, and in its place: before the message or the calls of its turn. */
function missingReasoningItem(
  { input }: JsonObject,
  turns: readonly ScriptedTurn[],
  key: (at: number) => string,
): string | undefined {
  const items = objectsOf(input);
  let turn = -1;
  let reasoning: JsonObject | undefined;
  let before: 'model' | 'other' = 'other';
  for (const [index, item] of items.entries()) {
    const place = `input[${index}]`;
    if (item.type === 'reasoning') {
      if (before === 'model') return `${place}: a reasoning item follows the text or calls of its turn.`;
      reasoning = item;
      continue;
    }
    const ofModel = item.role === 'assistant' || /^(?:function|custom_tool)_call$/.test(textIn(item.type));
    if (ofModel && before === 'other') {
      turn += 1;
      const expected = turns[turn]?.reasoning !== undefined;
      if (expected && item.type !== 'message' && reasoning === undefined)
        return `${place}: the reasoning item of this call is missing.`;
      if (
        expected &&
        reasoning !== undefined &&
        reasoning.encrypted_content !== plainSignature({}, key(turn))
      )
        return `${place}: the encrypted content before it is not that of its turn.`;
    }
    if (!ofModel && reasoning !== undefined && before === 'other')
      return `${place}: a reasoning item came without its required following item.`;
    reasoning = undefined;
    before = ofModel ? 'model' : 'other';
  }
  return undefined;
}

/** https://api-docs.deepseek.com/guides/thinking_mode: turns with calls go back with their reasoning. */
function missingReasoningContent(
  { messages }: JsonObject,
  turns: readonly ScriptedTurn[],
): string | undefined {
  const replies = objectsOf(messages).filter(({ role }) => role === 'assistant');
  for (const [at, reply] of replies.entries()) {
    const reasoning = turns[at]?.reasoning;
    if (typeof reasoning !== 'object' || objectsOf(reply.tool_calls).length === 0) continue;
    if (reply.reasoning_content !== reasoning.text)
      return `The reasoning_content of the assistant message ${at} must be passed back to the API.`;
  }
  return undefined;
}

/** https://ai.google.dev/gemini-api/docs/thought-signatures: the first call of a turn has its signature. */
function missingSignature(
  { contents }: JsonObject,
  turns: readonly ScriptedTurn[],
  key: (at: number) => string,
): string | undefined {
  const replies = objectsOf(contents).filter(({ role }) => role === 'model');
  for (const [at, reply] of replies.entries()) {
    const call = objectsOf(reply.parts).find(({ functionCall }) => functionCall !== undefined);
    if (call === undefined || turns[at]?.reasoning === undefined) continue;
    if (call.thoughtSignature !== plainSignature({}, key(at)))
      return `Function call is missing a thought_signature in functionCall parts, in turn ${at}.`;
  }
  return undefined;
}
