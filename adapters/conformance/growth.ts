import assert from 'node:assert/strict';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import type { Item, Part } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import type { ModelRequest, ModelTurn, OutputFormat } from '../../protocol/turn.ts';
import { type AdapterCheck, type AdapterUnderTest, answerOf, call, opened, play } from './call.ts';

/**
 * The rule that requests only grow, for the body of each request of a conversation: thoughts, calls in parallel, results
 * and errors, images, messages of the user, a call with tools off, and what the adapter appends for changed instructions
 * and tools. What the model reads of a body is a prefix of what it reads of the next.
 */
export function growthChecks(subject: AdapterUnderTest): AdapterCheck[] {
  return [
    {
      name: 'each request of a conversation begins with the one before it',
      run: () => checkGrowth(subject, false),
    },
    {
      name: 'each request of a conversation with an output schema begins with the one before it',
      run: () => checkGrowth(subject, true),
    },
  ];
}

type Step = Pick<ModelRequest, 'transcript' | 'toolChoice'> & { continuation: JsonValue | undefined };

const OUTPUT: OutputFormat = {
  name: 'answer',
  schema: {
    type: 'object',
    properties: { answer: { type: 'string' } },
    required: ['answer'],
    additionalProperties: false,
  },
};

async function checkGrowth(subject: AdapterUnderTest, hasOutput: boolean): Promise<void> {
  const good = subject.exchanges.filter(({ fails }) => fails === undefined);
  const [first] = good;
  assert.ok(first !== undefined);
  const turns = await Promise.all(good.map(async exchange => (await play(subject, exchange)).turn));
  const names = [...new Set(turns.flatMap(({ toolCalls }) => toolCalls.map(({ name }) => name)))];
  const tools = [...names, 'unused'].map(name => ({
    name,
    description: `Does ${name}.`,
    inputSchema: { type: 'object', properties: {} },
  }));
  const { adapter, requests } = opened(subject, answerOf(first));
  const send = async (
    { transcript, toolChoice }: Pick<Step, 'transcript' | 'toolChoice'>,
    continuation?: JsonValue,
  ): Promise<JsonObject> => {
    // Settings are not part of what grows.
    const settings = { maxOutputTokens: 1_000 + transcript.length };
    // Only a native schema may change from turn to turn, as in the closing turn of a run.
    const mayChange = adapter.capabilities.structuredOutput === 'native';
    const output = hasOutput && (!mayChange || requests.length % 2 === 0) ? OUTPUT : undefined;
    const grown = {
      transcript,
      instructions: 'Be brief.',
      tools,
      ...omitUndefined({ output, continuation }),
    };
    await call(adapter, first, { request: { ...grown, toolChoice, settings } });
    const body = requests.at(-1)?.body;
    assert.ok(body !== undefined, 'a call must send a request');
    return body;
  };
  let media: readonly Part[] = [{ type: 'image', url: 'data:image/png;base64,Z3Jvd3Ro' }];
  try {
    await send({ transcript: [userOf('look', media)], toolChoice: 'auto' });
  } catch (error) {
    // An adapter may refuse what its models cannot read.
    if (!(error instanceof ProviderError)) throw error;
    media = [];
  }
  const contentOf = subject.contentOf ?? contentIn;
  let before: readonly JsonValue[] = [];
  for (const step of conversation(turns, media, adapter)) {
    const content = contentOf(await send(step));
    before.forEach((part, at) => {
      const what = `request ${requests.length} must begin with the one before it, but part ${at} differs`;
      if (typeof part === 'string' && typeof content[at] === 'string')
        assert.ok(content[at].startsWith(part), what);
      else assert.deepEqual(content[at], part, what);
    });
    before = content;
    if (step.continuation === undefined) continue;
    const rest = contentOf(await send(step, step.continuation));
    const known = new Set(content.map(part => JSON.stringify(part)));
    const others = rest.filter(part => part !== null && !known.has(JSON.stringify(part)));
    assert.deepEqual(others, [], 'a request with a continuation token must have a part of the whole one');
  }
}

function userOf(text: string, media: readonly Part[] = []): Item {
  return { type: 'message', role: 'user', content: [{ type: 'text', text }, ...media] };
}

/** The requests of a conversation that has each turn twice, the second time with other call ids, as the engine makes them. */
function conversation(turns: readonly ModelTurn[], media: readonly Part[], adapter: ModelAdapter): Step[] {
  const hasChoice = adapter.capabilities.toolChoice !== false;
  const steps: Step[] = [];
  let transcript: readonly Item[] = [userOf('hello')];
  let continuation: JsonValue | undefined;
  const ask = (toolChoice: ModelRequest['toolChoice'] = 'auto') => {
    // Where tools are off without a tool choice, they are left out, which is a break.
    if (toolChoice !== 'none' || hasChoice) steps.push({ transcript, toolChoice, continuation });
  };
  for (const [at, turn] of [...turns, ...turns].entries()) {
    ask();
    transcript = [...transcript, ...exchangeOf(turn, at, media)];
    continuation = turn.continuation;
    const isAnswer = turn.toolCalls.every(({ executedBy }) => executedBy === 'provider');
    if (isAnswer || at % 2 === 0)
      transcript = [...transcript, userOf(`and ${at}?`, at % 2 === 0 ? media : [])];
  }
  ask('none');
  transcript = [...transcript, { type: 'message', role: 'assistant', content: userMessage('Done.').content }];
  transcript = [...transcript, userOf('Again.')];
  continuation = undefined;
  ask();
  const appended = adapter.append?.({ instructions: 'Be loud.', removed: ['unused'] }, transcript);
  if (appended !== undefined) transcript = [...transcript, ...appended];
  ask();
  transcript = [...transcript, ...exchangeOf(turns[0], turns.length * 2, media), userOf('More.')];
  ask();
  ask('none');
  return steps;
}

/** A turn and its results: a text, then an error, then an image, if the model reads them. */
function exchangeOf(turn: ModelTurn | undefined, at: number, media: readonly Part[]): Item[] {
  const items = (turn?.items ?? []).map(
    (item): Item =>
      item.type === 'tool_call' && at > 0 ? { ...item, callId: `${item.callId}_${at}` } : item,
  );
  const calls = items.flatMap(item => (item.type === 'tool_call' ? item.callId : []));
  const outputs: JsonValue[] = [
    'found',
    'It failed.',
    { type: 'content', parts: [{ type: 'text', text: 'seen' }, ...media] },
  ];
  const results = calls.map((callId, index): Item => {
    const which = (index + at) % outputs.length;
    return { type: 'tool_result', callId, output: outputs[which] ?? null, isError: which === 1 };
  });
  return [...items, ...results];
}

const INSTRUCTIONS = ['instructions', 'system', 'systemInstruction', 'system_instruction', 'tools'];
const TRANSCRIPTS = ['messages', 'input', 'contents', 'prompt'];

/**
 * What the model reads of a body of a known API: instructions and tools, then each block of each message. Marks for the
 * cache are not part of it.
 */
function contentIn(body: JsonObject): readonly JsonValue[] {
  const transcript = TRANSCRIPTS.map(name => body[name]).find(value => value !== undefined);
  assert.ok(
    transcript !== undefined,
    `expected one of ${TRANSCRIPTS.join(', ')} in the body, got ${Object.keys(body).join(', ')}: give contentOf`,
  );
  const head = INSTRUCTIONS.map(name => withoutMarks(body[name] ?? null));
  if (!Array.isArray(transcript)) return [...head, transcript];
  return [...head, ...transcript.flatMap(entry => blocksOf(withoutMarks(entry)))];
}

/** A message may gain blocks at its end. */
function blocksOf(entry: JsonValue): JsonValue[] {
  if (!isJsonObject(entry)) return [entry];
  const name = Array.isArray(entry.content) ? 'content' : 'parts';
  const { [name]: blocks, ...message } = entry;
  return Array.isArray(blocks) ? blocks.map(block => ({ ...message, block })) : [entry];
}

function withoutMarks(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withoutMarks);
  if (!isJsonObject(value)) return value;
  const { cache_control: _, ...rest } = value;
  return Object.fromEntries(Object.entries(rest).map(([name, member]) => [name, withoutMarks(member)]));
}
