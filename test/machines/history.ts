import type { ChartState, Step } from '../../machines/step.ts';
import type { Effect, ServiceInput } from '../../protocol/effect.ts';
import type { ChartEvent } from '../../protocol/event.ts';

/** What a run has been through, kept apart from the chart, so that the chart can be held to it. */
export type History = {
  /** Services started and not stopped, by id. */
  running: Readonly<Record<string, ServiceInput>>;
  /** What is wrong with the latest starts and stops; empty when nothing is. */
  misuse: readonly string[];
  /** Calls somebody approved, and tools somebody approved for good. */
  approvedCalls: readonly string[];
  approvedTools: readonly string[];
  /** Texts of the messages that were taken. */
  messages: readonly string[];
  /** Calls that were ever started. */
  started: readonly string[];
};

export function beginHistory(effects: readonly Effect[]): History {
  const nothing = { approvedCalls: [], approvedTools: [], messages: [], started: [] };
  return { ...nothing, ...runServices({}, effects) };
}

export function continueHistory(
  before: History,
  event: ChartEvent,
  { context }: ChartState,
  { effects }: Step,
): History {
  const after = { ...before, ...runServices(before.running, effects) };
  switch (event.type) {
    case 'message.received':
      return { ...after, messages: [...before.messages, JSON.stringify(event.items)] };
    case 'transcript.edited': {
      const there = new Set([...event.items, ...context.inbox].map(item => JSON.stringify([item])));
      return { ...after, messages: before.messages.filter(message => there.has(message)) };
    }
    case 'tool.started':
      return before.started.includes(event.callId)
        ? after
        : { ...after, started: [...before.started, event.callId] };
    case 'approval.decided': {
      const tool = context.calls.find(({ callId }) => callId === event.callId)?.name ?? '';
      const approves = event.decision.type === 'approve';
      const others = before.approvedTools.filter(name => name !== tool);
      return {
        ...after,
        ...(approves ? { approvedCalls: [...before.approvedCalls, event.callId] } : {}),
        ...(event.sticky === true ? { approvedTools: approves ? [...others, tool] : others } : {}),
      };
    }
    default:
      return after;
  }
}

function runServices(
  before: History['running'],
  effects: readonly Effect[],
): Pick<History, 'running' | 'misuse'> {
  const running = { ...before };
  const misuse: string[] = [];
  for (const effect of effects) {
    switch (effect.type) {
      case 'publish':
        break;
      case 'stop':
        if (!(effect.id in running)) misuse.push(`${effect.id} was stopped and is not running`);
        delete running[effect.id];
        break;
      case 'start':
        if (effect.id in running) misuse.push(`${effect.id} was started and is running`);
        running[effect.id] = effect.input;
    }
  }
  return { running, misuse };
}
