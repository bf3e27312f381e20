import { textIn } from '../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { InputItem } from '../request.ts';
import { CallsInOrder, type StandInRequest } from './read-requests.ts';
import { cut, type Encoder, event, type WrittenTurn } from './turn.ts';

/** A message of a prompt in the Harmony format. */
export type PromptMessage = { role: string; to: string; channel: string; content: string; end: string };

/**
 * Splits a prompt into its messages as the model would read them. Throws an `Error` unless the prompt has nothing
 * between its messages and ends where the assistant's reply begins.
 */
export function readPrompt(prompt: string): PromptMessage[] {
  const parts = prompt.split(/<\|(start|end|message|channel|constrain|return|call)\|>/);
  const messages: PromptMessage[] = [];
  for (let at = 0; at < parts.length; ) {
    const expectNext = (...expected: string[]): string => {
      const [found = '', text = ''] = parts.slice(at, at + 2);
      if (!expected.includes(found)) throw new Error(`Expected ${expected}, got ${found} before: ${text}`);
      at += 2;
      return text;
    };
    if (at === 0 && parts.shift() !== '') throw new Error('The prompt begins with text.');
    const [role = '', first] = expectNext('start').split(' to=');
    if (at >= parts.length && role === 'assistant') return messages;
    const [channel = '', second] = parts[at] === 'channel' ? expectNext('channel').split(' to=') : [];
    if (parts[at] === 'constrain') expectNext('constrain');
    const content = expectNext('message');
    const end = parts[at] ?? '';
    if (expectNext('end', 'call') !== '') throw new Error('There is text between two messages.');
    messages.push({ role, to: (first ?? second ?? '').trim(), channel: channel.trim(), content, end });
  }
  throw new Error('The prompt does not end with the beginning of a reply.');
}

/** Returns what is wrong with a prompt of `/v1/completions`, or `undefined`. */
export function promptProblem(body: JsonObject): string | undefined {
  if (body.skip_special_tokens !== false) return 'skip_special_tokens must be false.';
  try {
    const [system] = readPrompt(textIn(body.prompt));
    if (system?.role !== 'system') return 'The prompt must begin with a system message.';
    return system.content.includes('# Valid channels: analysis, commentary, final.')
      ? undefined
      : 'The system message must name the channels.';
  } catch (error) {
    return String(error);
  }
}

/** Reads a request of `/v1/completions` whose prompt is in the Harmony format. */
export function readHarmony(body: JsonObject): StandInRequest {
  const messages = promptProblem(body) === undefined ? readPrompt(textIn(body.prompt)) : [];
  const items: InputItem[] = [];
  const calls = new CallsInOrder();
  let developer = '';
  for (const { role, to, content, channel } of messages) {
    if (role === 'developer') developer += content;
    else if (role === 'user') items.push({ type: 'message', role, content });
    else if (role === 'assistant' && to !== '') {
      const name = to.replace('functions.', '');
      items.push({ type: 'function_call', call_id: calls.open(to), name, arguments: content });
    } else if (role === 'assistant' && channel !== 'analysis') {
      items.push({ type: 'message', role, content });
    } else if (to === 'assistant') {
      items.push({ type: 'function_call_output', call_id: calls.close(role), output: content });
    }
  }
  const [instructions = '', functions = ''] = developer.split('\n\n# Tools\n\n');
  return {
    instructions: instructions.replace('# Instructions\n\n', ''),
    items,
    tools: [...functions.matchAll(/^type (\S+) = \(/gm)].map(([, name = '']) => name),
    toolsOff: functions === '',
  };
}

/**
 * vLLM's `/v1/completions` for gpt-oss, without the token that ended the reply, as vLLM sends it. Calls beside each
 * other are messages of one reply.
 */
export const harmonyCompletions: Encoder = {
  contentType: 'text/event-stream',
  whole: turn => ({ ...chunkOf(turn, harmonyReply(turn), true), ...usageIn(turn) }),
  stream: (turn, random) => [
    ...cut(harmonyReply(turn), random).map(text => event(chunkOf(turn, text, false))),
    event(chunkOf(turn, '', true)),
    ...(turn.usage === null ? [] : [event({ model: turn.model, choices: [], ...usageIn(turn) })]),
    'data: [DONE]\n\n',
  ],
};

/** Writes a turn as a reply, without the token that ends it. */
export function harmonyReply({ reasoning, text, calls }: WrittenTurn): string {
  const messages = [
    ...(reasoning === '' ? [] : [`<|channel|>analysis<|message|>${reasoning}`]),
    ...(text === '' && calls.length > 0
      ? []
      : [`<|channel|>${calls.length > 0 ? 'commentary' : 'final'}<|message|>${text}`]),
    ...calls.map(
      call => `<|channel|>commentary to=functions.${call.name} <|constrain|>json<|message|>${call.arguments}`,
    ),
  ];
  return messages.join('<|end|><|start|>assistant');
}

function chunkOf({ model, finish }: WrittenTurn, text: string, isLast: boolean): JsonObject {
  const choice = { index: 0, text, finish_reason: isLast ? finish : null, stop_reason: null };
  return { id: 'cmpl-1', object: 'text_completion', created: 0, model, choices: [choice] };
}

function usageIn({ usage }: WrittenTurn): JsonObject {
  if (usage === null) return {};
  const { input, output, cached } = usage;
  return {
    usage: {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      prompt_tokens_details: { cached_tokens: cached },
    },
  };
}
