import type { RunConfig } from '../../protocol/config.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import { textOf } from '../../protocol/message.ts';
import type { Call, Context, LastTurn } from '../context.ts';

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

/** Returns what a run keeps about a turn that has just completed. */
export function describeTurn(context: Context, event: Of<'turn.completed'>): LastTurn {
  const { config, turn, lastTurn, answer, transcript } = context;
  const { provider, finishReason } = event;
  const continues = lastTurn?.finishReason === 'pause' && lastTurn.calls === 0 && answer !== null;
  const completed = { provider, finishReason, calls: event.calls.length, final: turn.final };
  return {
    ...completed,
    draft: isDraft(config, completed),
    from: transcript.length,
    ...(continues && { before: answer.text }),
  };
}

type Completed = Pick<LastTurn, 'final' | 'calls' | 'finishReason'>;

/** Whether the turn only plans: the answer is one more call, with tools off. */
export function isDraft(config: RunConfig, { final, calls, finishReason }: Completed): boolean {
  const over = finishReason !== 'pause' && finishReason !== 'content_filter';
  return config.finalAnswer === 'separate' && !final && calls === 0 && over;
}

/** The answer if the run ended after this turn. The text of a paused turn continues in the next one. */
export function answerOf(turn: LastTurn, text: string): Context['answer'] {
  const asksForCalls = turn.calls > 0 && !turn.final && turn.finishReason !== 'content_filter';
  return asksForCalls || turn.draft ? null : { text: (turn.before ?? '') + text };
}

/** The text and the calls of the latest turn, as an edit of the turn replaces them. */
export function latestReply({ lastTurn, transcript, calls }: Context): {
  text: string;
  calls: Pick<Call, 'callId' | 'name' | 'input'>[];
} {
  const items = lastTurn?.from === undefined || lastTurn.draft ? [] : transcript.slice(lastTurn.from);
  const text = items
    .flatMap(item => (item.type === 'message' && item.role === 'assistant' ? [textOf(item)] : []))
    .join('');
  return { text, calls: calls.map(({ callId, name, input }) => ({ callId, name, input })) };
}
