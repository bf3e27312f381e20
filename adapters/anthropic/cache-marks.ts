/**
 * Marks where the provider's prompt cache ends, as the option `cache_marks` of a request names the places: a transcript
 * does not keep them, and only the latest request knows which it wants. Places are counted from the end, so that they
 * are right whatever came before.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { integerIn, objectOf, objectsOf, textIn } from '../turn/json-access.ts';

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

export function marksIn({ cache_marks }: JsonObject): CacheMarks | undefined {
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
  const marked = [...messages];
  for (const { role, before, mark } of marks.messages) {
    const place =
      role === 'user'
        ? ofUser[ofUser.length - 1 - before]
        : ofAssistant.findLast(({ after }) => after === ofUser.length - before);
    const message = place && marked[place.message];
    if (!message) continue;
    const content = objectsOf(message.content).map((block, at) =>
      at === place.block ? withMark(block, mark) : block,
    );
    marked[place.message] = { ...message, content };
  }
  return marked;
}
