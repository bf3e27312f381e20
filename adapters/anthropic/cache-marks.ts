/**
 * Marks where the provider's prompt cache ends, as the option `cache_marks` of a request names the places: a transcript
 * does not keep them, and only the latest request knows which it wants. Places are counted from the end, so that they
 * are right whatever came before.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { withTail } from '../http/body-text.ts';
import { arrayOf, integerIn, objectOf, objectsOf, textIn } from '../turn/json-access.ts';

/** A value of `cache_control`. */
type Mark = JsonObject;

export type CacheMarks = {
  /** The texts that the instructions are made of, joined by blank lines. `rest`: the characters that follow each. */
  system: { rest: number; mark?: Mark }[];
  /** By the tools' names. */
  tools: Record<string, Mark>;
  /**
   * The last block that the `role` wrote before so many blocks of the user: texts, images, documents, results of calls,
   * and instructions in the conversation.
   */
  messages: { role: 'user' | 'assistant'; before: number; mark: Mark }[];
};

/** `auto`: the places are chosen by `markAuto`. */
export function marksIn({ cache_marks }: JsonObject): CacheMarks | 'auto' | undefined {
  if (cache_marks === 'auto') return cache_marks;
  if (!isJsonObject(cache_marks)) return undefined;
  const { system, tools, messages } = cache_marks;
  return {
    system: objectsOf(system).map(({ rest, mark }) => ({
      rest: integerIn(rest) ?? 0,
      ...(isJsonObject(mark) && { mark }),
    })),
    tools: Object.fromEntries(
      Object.entries(objectOf(tools)).filter((one): one is [string, Mark] => isJsonObject(one[1])),
    ),
    messages: objectsOf(messages).map(({ role, before, mark }) => ({
      role: role === 'assistant' ? role : 'user',
      before: integerIn(before) ?? 0,
      mark: objectOf(mark),
    })),
  };
}

/** The instructions as marked blocks, `more` after them; a text where nothing says of which texts they are made. */
export function systemInput(
  instructions: string,
  more: readonly string[],
  marks: CacheMarks | undefined,
): JsonValue | undefined {
  const texts = [instructions, ...more].filter(text => text !== '');
  if (texts.length === 0) return undefined;
  if (marks === undefined || marks.system.length === 0) return texts.join('\n\n');
  const blocks: JsonObject[] = [];
  let from = 0;
  for (const { rest, mark } of marks.system) {
    const to = instructions.length - rest;
    if (to <= from) continue;
    blocks.push(textBlock(instructions.slice(from, to), mark));
    from = to;
  }
  const others = [instructions.slice(from), ...more].map(text => textBlock(text));
  return [...blocks, ...others].map(withoutBreak).filter(({ text }) => text !== '');
}

function textBlock(text: string, mark?: Mark): JsonObject {
  return { type: 'text', text, ...(mark && { cache_control: mark }) };
}

function withoutBreak(block: JsonObject): JsonObject {
  return { ...block, text: textIn(block.text).replace(/^\n\n/, '') };
}

export function markTools(tools: JsonObject[], marks: CacheMarks | undefined): JsonObject[] {
  const byName = new Map(Object.entries(marks?.tools ?? {}));
  if (byName.size === 0) return tools;
  return tools.map(tool => withMark(tool, byName.get(textIn(tool.name))));
}

function withMark(block: JsonObject, mark: Mark | undefined): JsonObject {
  return mark === undefined ? block : { ...block, cache_control: mark };
}

/** `at`: of a message, and of a block in it. */
type Place = { message: number; block: number };

export function markMessages(messages: JsonObject[], marks: CacheMarks | undefined): JsonObject[] {
  if (marks === undefined || marks.messages.length === 0) return messages;
  const ofUser: Place[] = [];
  const ofAssistant: (Place & { after: number })[] = [];
  for (const [message, { role, content }] of messages.entries())
    for (const [block, { type }] of objectsOf(content).entries()) {
      if (role === 'assistant') {
        // A block of thinking cannot be marked.
        if (!/thinking$/.test(textIn(type))) ofAssistant.push({ message, block, after: ofUser.length });
      } else if (role === 'user' || type === 'text') ofUser.push({ message, block });
    }
  const marked = new Map<number, JsonObject>();
  for (const { role, before, mark } of marks.messages) {
    const place =
      role === 'user'
        ? ofUser[ofUser.length - 1 - before]
        : ofAssistant.findLast(({ after }) => after === ofUser.length - before);
    const message = place && (marked.get(place.message) ?? messages[place.message]);
    if (message) marked.set(place.message, withMarkAt(message, place.block, mark));
  }
  return withChanges(messages, marked);
}

function withMarkAt(message: JsonObject, block: number, mark: Mark): JsonObject {
  const content = objectsOf(message.content).map((one, at) => (at === block ? withMark(one, mark) : one));
  return { ...message, content };
}

/** With other entries at some places. */
function withChanges<Value extends JsonValue>(
  list: readonly Value[],
  changes: ReadonlyMap<number, Value>,
): Value[] {
  const first = Math.min(list.length, ...changes.keys());
  return withTail(
    list,
    first,
    list.slice(first).map((entry, at) => changes.get(first + at) ?? entry),
  );
}

const MOST_MARKS = 4;

/**
 * Marks the last two messages of the user, the instructions and the last tool. The first of the two was the last one of
 * the request before: so each request reads all that the one before it wrote, however many blocks are between them, and
 * conversations with the same instructions share these. A body with a mark for the whole prompt gets no others. See
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
 */
export function markAuto(body: JsonObject): JsonObject {
  if (body.cache_control != null) return body;
  const mark = { type: 'ephemeral' };
  const marked = { ...body };
  const messages = arrayOf(body.messages);
  const tools = arrayOf(body.tools);
  const asked = messages.flatMap((message, at) => (objectOf(message).role === 'user' ? [at] : [])).slice(-2);
  const ends = asked.map(at => {
    const message = objectOf(messages[at]);
    return [at, withMarkAt(message, arrayOf(message.content).length - 1, mark)] as const;
  });
  marked.messages = withChanges(messages, new Map(ends));
  // Tools of the provider may have marks of their own.
  let left =
    MOST_MARKS - ends.length - objectsOf(tools).filter(({ cache_control }) => cache_control != null).length;
  if (typeof body.system === 'string' && left > 0) {
    marked.system = [textBlock(body.system, mark)];
    left -= 1;
  }
  // A tool that is not loaded cannot be marked.
  const last = tools.findLastIndex(tool => objectOf(tool).defer_loading !== true);
  if (last !== -1 && left > 0)
    marked.tools = withChanges(tools, new Map([[last, { cache_control: mark, ...objectOf(tools[last]) }]]));
  return marked;
}
