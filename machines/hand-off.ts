import type { Answered, HandedTo, QualifiedCall, RunStarted } from '../protocol/event.ts';
import type { Item, ToolCallItem } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import { isOutcome } from '../protocol/message.ts';
import { findCall, openRound } from './calls.ts';
import { digestId } from './compaction.ts';
import { type Call, type Context, createContext, type LastTurn } from './context.ts';

/*
 * Hand-offs: a sub-agent's run that gives the answer of the run that called it.
 *
 * O1 Such a call is alone in its turn: what the sub-agent sees has every other result.
 * O2 Its answer is the run's answer, without another model call. The conversation is then with the sub-agent.
 * O3 While it is, messages are handed on to the sub-agent by a call that no model made: in this run, and in one that
 *    continues it.
 * O4 The run's own model speaks again once the sub-agent hands the conversation back or fails, or the answer is sent back.
 */

/** The context of a new run. If the conversation is with a sub-agent, its input is handed on. */
export function beginContext(started: RunStarted): Context {
  const context = createContext(started);
  const { handedTo, input } = started;
  if (handedTo === undefined) return context;
  return forwardTo({ ...context, transcript: [], inbox: input }, handedTo);
}

/** Hands the unread messages on to the sub-agent with which the conversation is. */
export function forwardMessages(context: Context): Context {
  const { answeredBy } = context;
  return answeredBy?.type === 'agent' ? forwardTo(context, answeredBy) : context;
}

function forwardTo(context: Context, { runId: forwards, call: known }: HandedTo): Context {
  const { inbox, generation, transcript, lastTurn } = context;
  if (inbox.length === 0 || context.open > 0 || context.cancelling !== null) return context;
  if (context.review !== null || context.sentBack !== null) return context;
  // The run's own model reads what became of its background work.
  if (inbox.some(isOutcome)) return context;
  // The same in a fork, whose journal names it too.
  const callId = `transfer_${digestId(forwards)}${digestId(`${generation} ${forwards}`)}`;
  const call: Call = { ...known, callId, status: 'ready', attempt: 0, forwards };
  const { name, input } = call;
  const item: ToolCallItem = { type: 'tool_call', callId, name, arguments: JSON.stringify(input) };
  const handedOn: Context = {
    ...context,
    inbox: [],
    transcript: [...transcript, ...inbox, item],
    toolCalls: context.toolCalls + 1,
    continuation: null,
    // An edit of the turn before the messages would drop them.
    lastTurn: lastTurn && fixed(lastTurn),
    answer: null,
    answeredBy: null,
    answerChecked: false,
  };
  return openRound(handedOn, [call]);
}

/** The turn as it stays: it can no longer be edited. */
function fixed({ from: _, ...lastTurn }: LastTurn): LastTurn {
  return lastTurn;
}

/** The messages that such a call hands on: those right before it. */
export function forwardedMessages({ transcript }: Context, callId: string): Item[] {
  const end = transcript.findLastIndex(item => item.type === 'tool_call' && item.callId === callId);
  const before = transcript.slice(0, Math.max(0, end));
  return before.slice(before.findLastIndex(({ type }) => type !== 'message') + 1);
}

type Outcome = { callId: string; output: unknown; isError?: boolean; answered?: Answered };

/** Takes the result of a call that answers for the run, besides settling it. `before`: the context in which it was open. */
export function takeAnswer(context: Context, before: Context, outcome: Outcome): Context {
  const call = findCall(before, outcome.callId);
  const { output, isError = false, answered } = outcome;
  if (call?.answers === undefined || isError || context.open > 0) return context;
  if (call.answers === 'back')
    return { ...context, answer: { text: String(output) }, answeredBy: { type: 'back' } };
  if (answered === undefined || answered.handedBack === true) return context;
  const { agent, runId, incomplete } = answered;
  return forwardMessages({
    ...context,
    answer: { text: String(output), ...omitUndefined({ output: answered.output }) },
    answeredBy: { type: 'agent', agent, runId, call: ungated(call), ...omitUndefined({ incomplete }) },
  });
}

/** The call as it is made again: who approved it, or had to, no longer matters. */
export function ungated(call: QualifiedCall): QualifiedCall {
  const { callId, name, input, digest, sideEffect, reconcilable, executedBy, answers } = call;
  const known = { callId, name, input, digest, sideEffect, reconcilable, executedBy };
  return { ...known, gate: false, ...omitUndefined({ answers }) };
}
