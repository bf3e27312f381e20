import type { RunView, StreamedEvent } from './request.ts';
import { type PageSource, TAIL } from './source.ts';

const PLACE = 'script[type="application/json"]#run';

export type EmbeddedRun = { view: RunView; entries: StreamedEvent[] };

/** The run that this document holds; `null` if it holds none and belongs to a server. */
export function embeddedSource(): (PageSource & { runId: string }) | null {
  const text = document.querySelector(PLACE)?.textContent;
  if (text == null) return null;
  const run: EmbeddedRun = JSON.parse(text);
  return { ...playedSource(run), runId: run.view.runId };
}

export function playedSource({ view, entries }: EmbeddedRun): PageSource {
  const [first, last] = [entries[0]?.seq ?? 1, entries.at(-1)?.seq ?? 0];
  return {
    live: false,
    view: async () => view,
    entries: async (_, place) => {
      if (place !== 'tail') {
        const chosen = entries.filter(({ seq }) => seq > place.after).slice(0, place.limit);
        return { entries: chosen, first, last };
      }
      const [before, tail] = [entries.slice(0, -TAIL), entries.slice(-TAIL)];
      if (before.length === 0) return { entries, first, last };
      const { foldToState } = await import('../run/run-view.tsx');
      return { entries: tail, first, last, state: foldToState(before) };
    },
    follow: (_, __, listen) => {
      queueMicrotask(() => listen({ type: 'end' }));
      return () => {};
    },
    followList: () => () => {},
  };
}
