/** Anthropic's messages, and what they are as the input of a request. */
import * as z from 'zod';
import { keepBlock } from '../../adapters/anthropic/messages.ts';
import type { Part } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { shortenToolName } from '../../tools/unique-tool-names.ts';
import { fields, maybe, openFields, orText } from '../fields.ts';
import { type ItemPlace, itemIdOf } from '../gateway/answer/wire-ids.ts';
import { readCompactionPlace } from '../gateway/request/compaction-items.ts';
import {
  type GatewayRequest,
  type InputItem,
  outputOf,
  type SentItem,
  sent,
} from '../gateway/request/gateway-request.ts';
import { invalidAt } from './message-error.ts';
import { readThinking } from './thinking-proof.ts';
import { searchItemOf } from './web-search.ts';

const text = z.string({
  error: ({ input }) => (input === undefined ? 'Field required' : 'expected a string'),
});
const NOT_EMPTY = 'expected a non-empty string';
const name = z.string(NOT_EMPTY).min(1, NOT_EMPTY);
const hint = z.string().nullish().catch(null);

const kindOf = ({ type = null }: JsonObject) => JSON.stringify(type);

type Typed = z.core.$ZodTypeDiscriminable;

function oneOf<const Blocks extends readonly [Typed, ...Typed[]]>(blocks: Blocks) {
  return z.discriminatedUnion('type', blocks, {
    error: ({ input }) =>
      !isJsonObject(input)
        ? 'expected a content block'
        : `Blocks of type ${kindOf(input)} are not supported here.`,
  });
}

function sourceOf<const Sources extends readonly [Typed, ...Typed[]]>(sources: Sources) {
  return z.discriminatedUnion('type', sources, {
    error: ({ input }) =>
      !isJsonObject(input)
        ? 'Field required'
        : `Sources of type ${kindOf(input)} are not supported. Use "base64", "url" or "text".`,
  });
}

const listOf = <Block extends z.ZodType>(block: Block) =>
  z.array(block, 'expected a string or a list of content blocks');

const textBlock = openFields({ type: z.literal('text'), text });
const media = [
  openFields({ type: z.literal('base64'), media_type: text, data: text }),
  openFields({ type: z.literal('text'), data: text }),
  openFields({
    type: z.literal('url'),
    url: text.regex(/^https?:\/\//i, 'expected an http or https URL'),
  }),
] as const;
const image = openFields({ type: z.literal('image'), source: sourceOf(media) });
const document = openFields({
  type: z.literal('document'),
  title: hint,
  context: hint,
  citations: z
    .optional(z.unknown())
    .refine(value => !isJsonObject(value) || value.enabled !== true, 'Citations are not supported.'),
  source: sourceOf([
    ...media,
    openFields({
      type: z.literal('content'),
      get content(): z.ZodType<ContentBlock[]> {
        return orText(listOf(contentBlock));
      },
    }),
  ]),
});
const contentBlock = oneOf([textBlock, image, document]);
type ContentBlock = z.infer<typeof textBlock> | z.infer<typeof image> | z.infer<typeof document>;

const toolUse = openFields({ type: z.literal('tool_use'), id: name, name, input: z.optional(z.unknown()) });
const searchUse = openFields({ type: z.literal('server_tool_use'), name: z.optional(z.unknown()) });
const toolReference = openFields({ type: z.literal('tool_reference'), tool_name: name });
const toolResult = openFields({
  type: z.literal('tool_result'),
  tool_use_id: z.string().catch(''),
  content: maybe(orText(listOf(oneOf([textBlock, image, document, toolReference])))),
  is_error: z.optional(z.unknown()),
});

const compaction = openFields({
  type: z.literal('compaction'),
  content: maybe(z.string()),
  encrypted_content: maybe(z.string()),
});

/** An entry that is not a block makes the whole content invalid. */
function contentOf<Block extends z.ZodType>(block: Block) {
  const isBlock = (value: unknown) => isJsonObject(value) && typeof value.type === 'string';
  const blocks = z
    .custom<z.input<Block>[]>()
    .transform((value): unknown => (Array.isArray(value) && value.every(isBlock) ? value : null))
    .pipe(listOf(block));
  return orText(blocks);
}

/** A message that is valid for one turn would mean something else without it. */
const never = z
  .optional(z.unknown())
  .refine(value => value == null || value === 'never', 'This field is not supported.');

export const message = z.discriminatedUnion(
  'role',
  [
    openFields({
      role: z.literal('user'),
      content: contentOf(oneOf([textBlock, image, document, toolResult])),
    }),
    openFields({
      role: z.literal('system'),
      content: contentOf(contentBlock),
      clear_at: never,
      output_config: maybe(fields({ effort: maybe(z.string()) })),
    }),
    openFields({
      role: z.literal('assistant'),
      content: contentOf(
        oneOf([
          textBlock,
          openFields({ type: z.literal('thinking'), thinking: text, signature: text }),
          openFields({ type: z.literal('redacted_thinking'), data: text }),
          toolUse,
          searchUse,
          openFields({ type: z.literal('web_search_tool_result') }),
          compaction,
        ]),
      ),
    }),
  ],
  {
    error: ({ input }) =>
      isJsonObject(input) ? 'Invalid option: expected one of "user"|"assistant"|"system"' : undefined,
  },
);
export type AnthropicMessage = z.infer<typeof message>;
type AnswerBlock = Extract<AnthropicMessage, { role: 'assistant' }>['content'][number];
type ToolResult = z.infer<typeof toolResult>;

export function readMessages(
  messages: readonly AnthropicMessage[],
  { isForAnthropic }: { isForAnthropic: boolean },
): Pick<GatewayRequest, 'input' | 'answered'> {
  if (messages.every(({ role }) => role === 'system'))
    throw invalidAt('messages', 'at least one message is required');
  assertPaired(messages);
  const known = isForAnthropic ? readForAnthropic : readForOthers;
  const read = messages.map((each, at) => {
    const place = `messages.${at}.content`;
    const items = known.get(each) ?? readEach(each, { place, isForAnthropic });
    known.set(each, items);
    const mayBeEmpty = each.role === 'assistant' && (each.content.length > 0 || at === messages.length - 1);
    if (items.length > 0 || mayBeEmpty) return items;
    throw invalidAt(place, 'a message must have content that is not empty');
  });
  const end = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  const begin = messages.findLastIndex(({ role }, at) => at < end && role !== 'assistant') + 1;
  const from = read.slice(0, begin).flat().length;
  return { input: read.flat(), answered: { from, to: read.slice(0, end).flat().length } };
}

/** The items of messages, which clients send again and again. */
const readForAnthropic = new WeakMap<AnthropicMessage, InputItem[]>();
const readForOthers = new WeakMap<AnthropicMessage, InputItem[]>();

function readEach(message: AnthropicMessage, where: { place: string; isForAnthropic: boolean }): InputItem[] {
  return message.role === 'assistant' ? readAnswer(message.content, where) : readInput(message);
}

/** The results of all calls must come in the next message, as providers require. Adjacent messages of one role are one. */
function assertPaired(messages: readonly AnthropicMessage[]): void {
  const known = new Set<string>();
  const open = new Map<string, string>();
  const assertAnswered = () => {
    const [place] = open.values();
    if (place === undefined) return;
    throw invalidAt(
      place,
      `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[...open.keys()].join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
    );
  };
  for (const [at, { role, content }] of messages.entries()) {
    const place = `messages.${at}`;
    for (const [index, block] of content.entries()) {
      const path = `${place}.content.${index}`;
      if (block.type === 'tool_use') {
        if (known.has(block.id)) throw invalidAt(`${path}.id`, '`tool_use` ids must be unique');
        known.add(block.id);
        open.set(block.id, place);
      }
      if (block.type === 'tool_result' && !open.delete(block.tool_use_id))
        throw invalidAt(
          path,
          `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${block.tool_use_id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
        );
    }
    if (messages[at + 1]?.role !== role && role !== 'assistant') assertAnswered();
  }
  assertAnswered();
}

/** Results come first, because providers expect them directly after the calls. */
function readInput({ role, content }: Exclude<AnthropicMessage, { role: 'assistant' }>): SentItem[] {
  const results = content.flatMap(block => (block.type === 'tool_result' ? [readResult(block)] : []));
  const parts = content.flatMap(block => (block.type === 'tool_result' ? [] : readContent(block)));
  if (parts.every(part => part.type === 'text' && part.text === '')) return results;
  return [...results, sent({ type: 'message', role, content: parts })];
}

function readResult({ tool_use_id: callId, content, is_error }: ToolResult): SentItem {
  const blocks = content ?? [];
  const found = blocks.flatMap(block => (block.type === 'tool_reference' ? [reference(block)] : []));
  const output =
    found.length > 0 && found.length === blocks.length
      ? found
      : outputOf(
          blocks.flatMap(block => (block.type === 'tool_reference' ? [inWords(block)] : readContent(block))),
          '\n',
        );
  return sent({ type: 'tool_result', callId, output, isError: is_error === true });
}

type ToolReference = z.infer<typeof toolReference>;

function reference({ type, tool_name }: ToolReference) {
  return { type, tool_name: shortenToolName(tool_name) };
}

function inWords(block: ToolReference): Part {
  return { type: 'text', text: JSON.stringify(reference(block)) };
}

/** The names of the deferred tools that the client's searches have found, in order. */
export function foundTools(messages: readonly AnthropicMessage[]): string[] {
  const results = messages.flatMap(({ content }) => content.filter(block => block.type === 'tool_result'));
  const found = results.flatMap(({ content }) =>
    (content ?? []).flatMap(block => (block.type === 'tool_reference' ? [block.tool_name] : [])),
  );
  return [...new Set(found)];
}

/** Throws a `ResponsesError` for a message that changes the effort of the request, which is the only one here. */
export function assertOneEffort(messages: readonly AnthropicMessage[], effort: string | undefined): void {
  for (const [at, message] of messages.entries()) {
    const own = message.role === 'system' ? message.output_config?.effort : undefined;
    if (own == null || own === effort) continue;
    throw invalidAt(
      `messages.${at}.output_config.effort`,
      'Only the effort of the request is supported: `output_config.effort`.',
    );
  }
}

/** Of how many parts the input has the block. */
export function partCount(block: ContentBlock | ToolResult): number {
  return block.type === 'tool_result' ? 1 : readContent(block).length;
}

/** Most providers have no citations, and no `cache_control` for parts. */
function readContent(block: ContentBlock): Part[] {
  switch (block.type) {
    case 'text':
      return block.text === '' ? [] : [{ type: 'text', text: block.text }];
    case 'image':
      return [{ type: 'image', url: urlOf(block.source) }];
    case 'document': {
      const { source, context, title } = block;
      const about: Part[] = context == null ? [] : [{ type: 'text', text: context }];
      if (source.type === 'content') return [...about, ...source.content.flatMap(readContent)];
      const named = omitUndefined({ name: title ?? undefined });
      return [...about, { type: 'file', url: urlOf(source), ...named }];
    }
  }
}

type Media = z.infer<(typeof media)[number]>;

function urlOf(source: Media): string {
  switch (source.type) {
    case 'base64':
      return `data:${source.media_type};base64,${source.data}`;
    case 'text':
      return `data:text/plain;base64,${Buffer.from(source.data).toString('base64')}`;
    case 'url':
      return source.url;
  }
}

function readAnswer(
  content: readonly AnswerBlock[],
  { place, isForAnthropic }: { place: string; isForAnthropic: boolean },
): InputItem[] {
  const items: InputItem[] = [];
  /** The turn whose thinking came last, and the number of its texts so far. */
  let turn: { place: ItemPlace; texts: number } | undefined;
  const think = (block: JsonObject, proof: string, thinking = ''): SentItem[] => {
    const { item, place: now } = readThinking(block, proof, thinking);
    const before = turn?.place;
    const isSame = before?.runId === now?.runId && before?.turn === now?.turn && before?.retry === now?.retry;
    if (now === undefined || !isSame) turn = now && { place: now, texts: 0 };
    return item === undefined ? [] : [item];
  };
  const read = (block: AnswerBlock, path: string): InputItem[] => {
    switch (block.type) {
      case 'text': {
        if (block.text === '') return [];
        const id = omitUndefined({
          id: turn && itemIdOf({ ...turn.place, kind: 'msg', place: turn.texts++ }),
        });
        const parts: Part[] = [{ type: 'text', text: block.text }];
        return [{ ...id, ...sent({ ...id, type: 'message', role: 'assistant', content: parts }) }];
      }
      case 'thinking':
        return think(block, block.signature, block.thinking);
      case 'redacted_thinking':
        return think(block, block.data);
      case 'tool_use': {
        const written = JSON.stringify(block.input ?? {});
        const name = shortenToolName(block.name);
        return [sent({ type: 'tool_call', callId: block.id, name, arguments: written })];
      }
      case 'server_tool_use': {
        const { id = null, name: tool, input } = block;
        if (tool !== 'web_search')
          throw invalidAt(`${path}.type`, `Blocks of type ${kindOf(block)} are not supported here.`);
        const result = content.find(
          other => other.type === 'web_search_tool_result' && other.tool_use_id === id,
        );
        return [searchItemOf(input, result?.content)];
      }
      case 'web_search_tool_result':
        return [];
      case 'compaction':
        return readCompaction(block, { path, isForAnthropic });
    }
  };
  for (const [index, block] of content.entries()) {
    // In a stream, thinking without text is known only after the text that follows it.
    const isLate = block.type === 'redacted_thinking';
    const at = isLate ? items.findLastIndex(item => !isText(item)) + 1 : items.length;
    items.splice(at, 0, ...read(block, `${place}.${index}`));
  }
  return items;
}

function isText(item: InputItem): boolean {
  return item.type === 'sent' && item.items[0]?.type === 'message' && item.ranHere !== true;
}

/** A compaction of this server, which has the summary; or Anthropic's, which other models read as a message. */
function readCompaction(
  block: z.infer<typeof compaction>,
  { path, isForAnthropic }: { path: string; isForAnthropic: boolean },
): InputItem[] {
  const { content, encrypted_content: sealed, cache_control: _, ...more } = block;
  if (sealed != null && readCompactionPlace(sealed) !== undefined)
    return [{ type: 'compaction', at: path, content: sealed }];
  if (isForAnthropic) {
    const kept = { ...more, ...omitUndefined({ content, encrypted_content: sealed }) };
    return [sent({ type: 'provider_item', kind: 'compaction', opaque: keepBlock(kept) })];
  }
  if (content == null || content === '') return [];
  return [sent({ type: 'message', role: 'user', content: [{ type: 'text', text: content }] })];
}
