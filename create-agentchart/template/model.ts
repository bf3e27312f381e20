import type { Item, JsonObject, ModelAdapter } from 'agentchart';
import { modelFromEnv } from 'agentchart/adapters/model-from-env';
import { scripted } from 'agentchart/adapters/scripted';

/** The model of AGENTCHART_MODEL, such as openai:gpt-5-mini. Without it a stand-in, which needs no key. */
export function chooseModel(): ModelAdapter {
  return process.env.AGENTCHART_MODEL ? modelFromEnv() : standIn;
}

const ORDER = /\b[A-Z]-\d+\b/;

const textOf = (item: Item) =>
  item.type === 'message'
    ? item.content.map(part => (part.type === 'text' ? String(part.text) : '')).join('')
    : '';

type Turn = { text?: string; toolCalls?: { name: string; arguments: JsonObject }[] };

/** What a model might do next: it looks up the order that a message names, and refunds what it cost. */
function decide(transcript: readonly Item[]): Turn {
  const last = transcript.at(-1);
  const call = transcript.findLast(item => item.type === 'tool_call');
  const asked = transcript.findLast(item => item.type === 'message' && item.role === 'user');
  const orderId = ORDER.exec(asked === undefined ? '' : textOf(asked))?.[0] ?? '';
  if (last?.type === 'tool_result') {
    if (last.isError) return { text: `That did not work: ${JSON.stringify(last.output)}` };
    if (call?.name === 'refund') return { text: `I refunded order ${orderId}.` };
    const { cents } = last.output as { cents: number };
    return { toolCalls: [{ name: 'refund', arguments: { orderId, cents } }] };
  }
  if (orderId === '')
    return {
      text: 'I am a scripted stand-in, not a model: set AGENTCHART_MODEL for one. I understand “Refund order A-1001”.',
    };
  return {
    text: 'I am a scripted stand-in, not a model. I look the order up.',
    toolCalls: [{ name: 'find_order', arguments: { orderId } }],
  };
}

/** A script of the one turn that comes next, wherever the conversation is. */
function play(transcript: readonly Item[]): ModelAdapter {
  const turn = decide(transcript);
  return scripted(Array.from({ length: transcript.length + 1 }, () => turn));
}

const standIn: ModelAdapter = {
  provider: 'scripted',
  model: 'stand-in',
  capabilities: scripted([]).capabilities,
  generate: (request, options) => play(request.transcript).generate(request, options),
  stream: (request, options) => play(request.transcript).stream(request, options),
};
