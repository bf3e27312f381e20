import type { StoredState } from '../../../machines/snapshot.ts';
import { request } from './request.ts';
import { SharedStream } from './shared-stream.ts';
import type { Source } from './source.ts';

const pathOf = (runId: string): string => `/runs/${encodeURIComponent(runId)}`;

/** The runs of the server that served this page. */
export function httpSource(): Source {
  const stream = new SharedStream();
  return {
    live: true,
    view: runId => request(pathOf(runId)),
    entries: (runId, place) => {
      const where = 'after' in place ? `after=${place.after}` : `before=${place.before ?? ''}`;
      return request(`${pathOf(runId)}/entries?${where}&limit=${place.limit}`);
    },
    state: async (runId, at) =>
      (await request<{ state: StoredState }>(`${pathOf(runId)}/state?at=${at}`)).state,
    follow: (runId, after, listen) => stream.follow(runId, after, listen),
    followList: listen => stream.followList(listen),
  };
}
