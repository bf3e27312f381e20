/** Where Anthropic's clients mark the end of a cached beginning, for the adapter of their models: see its `CacheMarks`. */
import type { CacheMarks } from '../../adapters/anthropic/cache-marks.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import { shortenToolName } from '../../tools/unique-tool-names.ts';
import { type AnthropicMessage, partCount } from './message-input.ts';

type Prompt = {
  system?: string | readonly { text: string }[] | null | undefined;
  tools?: readonly { name: string }[] | null | undefined;
  messages: readonly AnthropicMessage[];
};

/** `undefined` if there is no mark, and no more than one text of instructions. */
export function cacheMarksOf({ system, tools, messages }: Prompt): CacheMarks | undefined {
  const marks: CacheMarks = {
    system: typeof system === 'string' ? [] : systemMarks(system ?? []),
    tools: Object.fromEntries(
      (tools ?? []).flatMap(tool => {
        const mark = markOf(tool);
        return mark === undefined ? [] : [[shortenToolName(tool.name), mark]];
      }),
    ),
    messages: messageMarks(messages),
  };
  const isMarked =
    marks.messages.length > 0 || Object.keys(marks.tools).length > 0 || marks.system.some(({ mark }) => mark);
  return isMarked || marks.system.length > 1 ? marks : undefined;
}

function systemMarks(blocks: readonly { text: string }[]): CacheMarks['system'] {
  let rest = blocks.map(({ text }) => text).join('\n\n').length;
  return blocks.map((block, at) => {
    rest -= block.text.length + (at === 0 ? 0 : 2);
    const mark = markOf(block);
    return { rest, ...(mark && { mark }) };
  });
}

function messageMarks(messages: readonly AnthropicMessage[]): CacheMarks['messages'] {
  const marks: CacheMarks['messages'] = [];
  let before = 0;
  for (const message of messages.toReversed())
    for (const { count, mark } of blocksOf(message).toReversed()) {
      if (mark !== undefined)
        marks.push({ role: message.role === 'assistant' ? 'assistant' : 'user', before, mark });
      before += count;
    }
  return marks.reverse();
}

/** In the order in which they are sent on; `count`: as how many blocks of the user. */
function blocksOf({ role, content }: AnthropicMessage): { count: number; mark: JsonObject | undefined }[] {
  if (role === 'assistant') return content.map(block => ({ count: 0, mark: markOf(block) }));
  if (role === 'system') {
    const mark = content.map(markOf).findLast(found => found !== undefined);
    return content.some(block => partCount(block) > 0) ? [{ count: 1, mark }] : [];
  }
  const results = content.filter(({ type }) => type === 'tool_result');
  const others = content.filter(({ type }) => type !== 'tool_result');
  return [...results, ...others].flatMap(block => {
    const count = partCount(block);
    return count === 0 ? [] : [{ count, mark: markOf(block) }];
  });
}

/** Of the block, or of the last marked one inside it. */
function markOf(block: object): JsonObject | undefined {
  const mark: unknown = 'cache_control' in block ? block.cache_control : undefined;
  if (isJsonObject(mark)) return mark;
  const inner: unknown = 'content' in block ? block.content : undefined;
  return Array.isArray(inner)
    ? inner
        .filter(isJsonObject)
        .map(markOf)
        .findLast(found => found)
    : undefined;
}
