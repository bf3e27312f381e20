import type { Call, Context } from '../../machines/context.ts';
import type { Delta } from '../../protocol/effect.ts';
import { chainFilters, type TextFilter } from '../../text/text-filter.ts';
import type { RunHappening } from '../events/run-events.ts';
import type { RunHandle } from './sub-agent-runs.ts';

/** How readers of the calling run get text: after its text filters, as deltas. */
export type AnswerReaders = {
  textFilters: readonly (() => TextFilter)[];
  publish(delta: Delta): void;
};

/**
 * Gives the readers of a run the text of the sub-agent that answers for it, while the text streams. Only if the answer is
 * `live` and needs no check: it is not to be seen earlier than the run's own text. Returns what ends it.
 */
export function relayAnswer(
  child: RunHandle,
  parent: Context,
  call: Pick<Call, 'callId' | 'answers'>,
  readers: AnswerReaders,
): () => void {
  const { finalAnswer, checksAnswer } = parent.config;
  const isSeen = call.answers === 'directly' && finalAnswer === 'live' && !checksAnswer && parent.stream;
  if (!isSeen) return () => {};
  let isOver = false;
  const publish = (delta: Delta) => isOver || readers.publish(delta);
  const batches = child.eventBatches({ after: child.durable.seq, follow: true });
  // The journal has the answer: an error costs only the preview.
  relay(batches, call.callId, { ...readers, publish }).catch(() => {});
  return () => {
    isOver = true;
    batches.return(undefined).catch(() => {});
  };
}

async function relay(
  batches: AsyncIterable<readonly RunHappening[]>,
  callId: string,
  { textFilters, publish }: AnswerReaders,
): Promise<void> {
  let source = '';
  let at = 0;
  let filter = chainFilters(textFilters);
  for await (const batch of batches)
    for (const happening of batch) {
      if (happening.type !== 'text.delta' && happening.type !== 'answer.delta') continue;
      const now =
        happening.type === 'answer.delta'
          ? `${happening.callId}/${happening.source}`
          : `${happening.turn}/${happening.attempt}`;
      if (now !== source) {
        source = now;
        at = 0;
        filter = chainFilters(textFilters);
      }
      const text = filter.push(happening.text);
      if (text !== '') publish({ type: 'answer.delta', callId, source, at, text });
      at += text.length;
    }
}
