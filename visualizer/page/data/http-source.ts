import { request } from './request.ts';
import { SharedStream } from './shared-stream.ts';
import type { EntriesPage, Source } from './source.ts';

const pathOf = (runId: string): string => `/runs/${encodeURIComponent(runId)}`;

/** How many entries a run's view is drawn from first. */
const TAIL = 192;

/**
 * The runs of the server that served this page. The end of `runId`, the run of the page's address, is requested at
 * once: before the code of its view is loaded.
 */
export function httpSource(runId?: string): Source {
  const stream = new SharedStream();
  const readTail = (id: string): Promise<EntriesPage> =>
    request(`${pathOf(id)}/entries?before=&state=true&limit=${TAIL}`);
  let early = runId === undefined ? null : { runId, tail: readTail(runId) };
  early?.tail.catch(() => {});
  return {
    live: true,
    view: runId => request(pathOf(runId)),
    entries: (id, place) => {
      if (place !== 'tail') return request(`${pathOf(id)}/entries?after=${place.after}&limit=${place.limit}`);
      const tail = early?.runId === id ? early.tail : readTail(id);
      early = null;
      return tail;
    },
    follow: (runId, after, listen) => stream.follow(runId, after, listen),
    followList: listen => stream.followList(listen),
  };
}
