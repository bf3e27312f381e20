import type { Call, Context } from '../../machines/context.ts';
import type { Delta } from '../../protocol/effect.ts';
import { chainFilters, type TextFilter } from '../../text/text-filter.ts';
import type { RunEvents, RunHappening } from '../events/run-events.ts';
import type { Children } from './children.ts';
import { type RunHandle, suspendedCalls } from './sub-agent-runs.ts';

/** How readers of the calling run get text: after its text filters, as deltas. */
type AnswerReaders = {
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
  if (!isSeenLive(parent, call)) return () => {};
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

type Resting = Pick<AnswerReaders, 'textFilters'> & {
  children: Pick<Children, 'openOwn'>;
  events: RunEvents;
};

/** Relays the answers that a resting run waits for. `look` is called while readers wait, `end` once there are none. */
export function relayForResting({ children, events, textFilters }: Resting) {
  const relays = new Map<string, () => void>();
  const publish = events.publishDelta;
  return {
    async look(context: Context): Promise<void> {
      for (const call of suspendedCalls(context)) {
        if (relays.has(call.callId) || !isSeenLive(context, call)) continue;
        relays.set(call.callId, () => {});
        const child = await children.openOwn(context, call).catch(() => undefined);
        if (child === undefined || !relays.has(call.callId)) continue;
        relays.set(call.callId, relayAnswer(child, context, call, { textFilters, publish }));
      }
    },
    end(): void {
      for (const end of relays.values()) end();
      relays.clear();
    },
  };
}

function isSeenLive({ config, stream }: Context, { answers }: Pick<Call, 'answers'>): boolean {
  return answers === 'directly' && config.finalAnswer === 'live' && !config.checksAnswer && stream;
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
