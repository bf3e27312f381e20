import { setTimeout as wait } from 'node:timers/promises';
// In a project of your own: from 'agentchart'.
import {
  type Item,
  type ModelAdapter,
  type ModelRequest,
  type ModelTurn,
  type TurnDelta,
  toolCallFrom,
} from '../../agent/index.ts';
import { composeAnswer } from './stand-in-answer.ts';
import { readResearch } from './stand-in-history.ts';
import { planCalls } from './stand-in-plan.ts';

export type StandInOptions = {
  /** Whether to also cite a document that was not read. */
  invent?: boolean;
  /** The delay before each piece of a stream in ms. Default 0. */
  paceMs?: number;
};

/**
 * Returns a stand-in for the researcher's model: fixed rules over the tool results in the request. The next turn
 * follows from the transcript alone. Needs no key and no network.
 */
export function standInModel({ invent = false, paceMs = 0 }: StandInOptions = {}): ModelAdapter {
  return {
    provider: 'stand-in',
    model: 'rules',
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: false,
      serverTools: false,
      structuredOutput: 'instructions',
      continuation: false,
      usage: false,
    },
    generate: async request => makeTurn(request, invent),
    stream: (request, { signal }) => streamTurn(makeTurn(request, invent), paceMs, signal),
  };
}

function makeTurn({ transcript, toolChoice, tools }: ModelRequest, invent: boolean): ModelTurn {
  const research = readResearch(transcript);
  const names = tools.map(({ name }) => name);
  const planned = toolChoice === 'none' ? [] : planCalls(research).filter(({ name }) => names.includes(name));
  const before = transcript.filter(({ type }) => type === 'tool_call').length;
  const toolCalls = planned.map((call, index) => toolCallFrom({ ...call, id: `call_${before + index + 1}` }));
  const text = toolCalls.length > 0 ? '' : composeAnswer(research, { invent });
  const messages: Item[] =
    text === '' ? [] : [{ type: 'message', role: 'assistant', content: [{ type: 'text', text }] }];
  const requests = toolCalls.map(
    ({ callId, name, arguments: written }): Item => ({ type: 'tool_call', callId, name, arguments: written }),
  );
  return {
    text,
    reasoning: '',
    toolCalls,
    finishReason: toolCalls.length > 0 ? 'tool_calls' : 'stop',
    usage: null,
    model: 'rules',
    items: [...messages, ...requests],
  };
}

async function* streamTurn(turn: ModelTurn, paceMs: number, signal: AbortSignal): AsyncGenerator<TurnDelta> {
  for (const text of turn.text.match(/\s*\S{1,12}|\s+/gu) ?? []) {
    if (paceMs > 0) await wait(paceMs, undefined, { signal });
    yield { type: 'text', text };
  }
  for (const [index, call] of turn.toolCalls.entries()) {
    yield { type: 'call_started', index, name: call.name };
    yield { type: 'call_arguments', index, text: call.arguments };
  }
  yield { type: 'turn', turn };
}
