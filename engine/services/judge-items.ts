import { toolResults } from '../../machines/tool-results.ts';
import { textOfParts } from '../../protocol/content/read-content.ts';
import type { InputGuardrail, ToolOutputGuardrail } from '../../protocol/guardrail.ts';
import type { Item, MessageItem, ToolResultItem } from '../../protocol/item.ts';
import { canonicalJson, type JsonValue, toBoundedText, toJson } from '../../protocol/json.ts';
import { isOutcomeWords } from '../../protocol/message.ts';
import { cutText, fitsBytes, MODEL_READS_BYTES } from '../../text/cut-text.ts';
import { GuardrailUsage, judge } from './guardrails.ts';
import type { ServiceScope } from './service.ts';

/** The guardrails of what the model reads. */
export type ReadGuardrails = {
  input: readonly InputGuardrail[];
  toolOutput: readonly ToolOutputGuardrail[];
};

/** The largest message or result that a guardrail may give, in bytes of its JSON. */
const LARGEST_VALUE_BYTES = 1_048_576;

/** What the model reads of a value that was blocked begins with this. */
const NOT_SHOWN = 'Not shown: ';

/**
 * Judges what the model has not read: messages of users and results of calls, each once. What was decided is durable
 * before it returns. Rejects as `durable` does.
 */
export async function judgeItems(
  scope: ServiceScope,
  inherited: readonly Item[],
  { input, toolOutput }: ReadGuardrails,
): Promise<void> {
  const context = scope.context();
  const { transcript, judgedTo, runId, runContext } = context;
  const isJudged = (item: Item) =>
    item.type === 'tool_result' || (item.type === 'message' && item.outcomeOf !== undefined)
      ? toolOutput.length > 0
      : input.length > 0 && item.type === 'message' && item.role === 'user';
  const open = transcript.flatMap((item, at) => (at >= judgedTo && isJudged(item) ? [{ at, item }] : []));
  if (open.length === 0) return;
  const usage = new GuardrailUsage(context.config);
  const about = {
    runId,
    runContext,
    transcript: [...inherited, ...transcript],
    signal: scope.stop.signal,
    countUsage: usage.count,
  };
  const results = new Map(toolResults(context).map(result => [result.callId, result]));
  const judged = await Promise.all(
    open.map(async ({ at, item }) => {
      if (item.type === 'message') {
        const { outcomeOf } = item;
        const made = outcomeOf === undefined ? judgeMessage(item) : judgeOutcome(item, outcomeOf);
        return { at, before: item, item: await made };
      }
      if (item.type === 'tool_result') return { at, before: item, item: await judgeResult(item) };
      return { at, before: item, item };
    }),
  );
  if (scope.stop.isStopped) return;
  const changes = judged.flatMap(({ at, before, item }) => (item === before ? [] : [{ at, item }]));
  const report = { type: 'items.judged', upTo: transcript.length, changes, ...usage.spent } as const;
  if (!scope.report(report) && !scope.stop.isStopped)
    throw new Error('The transcript was changed while guardrails judged it.');
  await scope.durable();

  async function judgeMessage(item: MessageItem): Promise<MessageItem> {
    const made = await judge('The message', input, item, about, given => readMessage(given, item));
    if (made.type === 'passed') return made.value;
    return { ...item, content: [{ type: 'text', text: `[${NOT_SHOWN}${made.reason}]` }] };
  }

  /**
   * The outcome of background work is what a tool gave: as the run that did the work has it, if that is there. The words
   * before it are the engine's, or they are judged with it.
   */
  async function judgeOutcome(
    item: MessageItem,
    { callId, runId: workId, isError }: NonNullable<MessageItem['outcomeOf']>,
  ): Promise<MessageItem> {
    const { name = '', input: called = null } = results.get(callId) ?? {};
    const isOurs = isOutcomeWords(item.content[0], callId);
    const words = isOurs ? item.content.slice(0, 1) : [];
    const parts = item.content.slice(words.length);
    const isText = parts.every(part => part.type === 'text');
    const shown = isText ? textOfParts(parts) : toJson({ type: 'content', parts });
    const stored = isOurs && workId !== undefined ? await scope.loadOutcome?.(workId) : undefined;
    const { output, wholeOutput } = stored ?? { output: shown, wholeOutput: async () => shown };
    const call = { callId, name, input: called, isError: isError === true, wholeOutput };
    const made = await judge('The result', toolOutput, output, { ...about, ...call }, readValue);
    if (made.type === 'passed' && !made.isReplaced) return item;
    const text = made.type === 'blocked' ? NOT_SHOWN + made.reason : made.value;
    const json = typeof text === 'string' ? text : JSON.stringify(text);
    const rest = { type: 'text', text: cutText(json, MODEL_READS_BYTES) } as const;
    return { ...item, content: [...words, rest] };
  }

  async function judgeResult(item: ToolResultItem): Promise<ToolResultItem> {
    const { callId, output, isError, blob } = item;
    const { name = '', input: called = null } = results.get(callId) ?? {};
    const wholeOutput = async () =>
      blob === undefined || scope.blobs === null ? output : await scope.blobs.load(blob);
    const call = { callId, name, input: called, isError, wholeOutput };
    const made = await judge('The result', toolOutput, output, { ...about, ...call }, readValue);
    if (made.type === 'blocked')
      return { type: 'tool_result', callId, output: NOT_SHOWN + made.reason, isError: true, ...idOf(item) };
    if (!made.isReplaced) return item;
    const text = typeof made.value === 'string' ? made.value : JSON.stringify(made.value);
    const edited = context.edits.find(edit => edit.callId === callId);
    const note = edited === undefined ? '' : `[The input was changed to ${JSON.stringify(edited.input)}.]\n`;
    const isShort = note === '' && fitsBytes(text, MODEL_READS_BYTES);
    const shown = isShort ? {} : { shown: note + cutText(text, MODEL_READS_BYTES) };
    return { type: 'tool_result', callId, output: made.value, isError, ...shown, ...idOf(item) };
  }
}

function idOf({ id }: { id?: string | undefined }): { id?: string } {
  return id === undefined ? {} : { id };
}

function readValue(given: unknown): JsonValue {
  const text = toBoundedText(given);
  if (fitsBytes(text, LARGEST_VALUE_BYTES)) return JSON.parse(text);
  throw new Error(`its guardrail replaced it with more than ${LARGEST_VALUE_BYTES} bytes`);
}

/** A message of the user with other texts, and some of its images and files. */
function readMessage(given: unknown, before: MessageItem): MessageItem {
  const { type, role, content } = Object(readValue(given)) as Record<string, JsonValue>;
  if (type !== 'message' || role !== 'user' || !Array.isArray(content))
    throw new Error('its guardrail replaced it with something other than a message of the user');
  const others = new Map(before.content.map(part => [canonicalJson(toJson(part)), part]));
  const parts = content.map((part): MessageItem['content'][number] => {
    const { type: kind, text } = Object(part) as Record<string, JsonValue>;
    if (kind === 'text' && typeof text === 'string') return { type: 'text', text };
    const known = others.get(canonicalJson(part));
    if (known !== undefined) return known;
    throw new Error('its guardrail added a part that is neither a text nor a part of the message');
  });
  return { ...before, content: parts };
}
