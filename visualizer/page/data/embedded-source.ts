import { toStored } from '../../../machines/snapshot.ts';
import { Folded } from '../model/journal-fold.ts';
import { ApiError, type RunView, type StreamedEvent } from './request.ts';
import type { Source } from './source.ts';

/** The element that holds a run in a document that plays it offline. */
const PLACE = 'script[type="application/json"]#run';

type EmbeddedRun = { view: RunView; entries: StreamedEvent[] };

/** The run that this document holds; `null` if it holds none and belongs to a server. */
export function embeddedSource(): (Source & { runId: string }) | null {
  const text = document.querySelector(PLACE)?.textContent;
  if (text == null) return null;
  const { view, entries }: EmbeddedRun = JSON.parse(text);
  const [first, last] = [entries[0]?.seq ?? 1, entries.at(-1)?.seq ?? 0];
  return {
    live: false,
    runId: view.runId,
    view: async () => view,
    entries: async (_, place) => {
      const chosen =
        'after' in place
          ? entries.filter(({ seq }) => seq > place.after).slice(0, place.limit)
          : entries.filter(({ seq }) => seq < (place.before ?? last + 1)).slice(-place.limit);
      return { entries: chosen, first, last };
    },
    state: async (_, at) => {
      const folded = entries
        .filter(({ seq }) => seq <= at)
        .reduce((before, event) => before.take(event.seq, event), Folded.start);
      if (folded.state === null)
        throw new ApiError(0, 'unreachable', folded.problem ?? `The document has no state at entry ${at}.`);
      return toStored(folded.state);
    },
    follow: (_, __, listen) => {
      queueMicrotask(() => listen({ type: 'end' }));
      return () => {};
    },
    followList: () => () => {},
  };
}
