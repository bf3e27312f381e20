import type { RunModel } from './run-model.ts';
import { ApiError, type RunView, request } from './runs-api.ts';

const RECONNECT_MS = 1_000;
const DEBOUNCE_MS = 60;
const POLL_MS = 5_000;
/** How long a hidden page keeps its connection: browsers allow only six per server. */
const HIDDEN_MS = 60_000;

/**
 * Keeps a model up to date: events come from the stream, and the run's view from requests. A lost stream is reopened
 * after the last entry, with endless retries. `look` requests the view soon. Calls `onMissing` if the run does not exist.
 */
export function followRun(model: RunModel, onMissing: (error: ApiError) => void): { look(): void } {
  const path = `/runs/${encodeURIComponent(model.runId)}`;
  let looking = false;
  let lookAgain = false;
  let soon: ReturnType<typeof setTimeout> | undefined;
  let source: EventSource | null = null;

  const look = async (): Promise<void> => {
    if (looking) {
      lookAgain = true;
      return;
    }
    looking = true;
    try {
      model.takeView(await request<RunView>(path));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) onMissing(error);
    }
    looking = false;
    if (!lookAgain) return;
    lookAgain = false;
    lookSoon();
  };
  const lookSoon = (): void => {
    clearTimeout(soon);
    soon = setTimeout(look, DEBOUNCE_MS);
  };

  const open = (): void => {
    const stream = new EventSource(`${path}/events?after=${model.seq}`);
    source = stream;
    stream.addEventListener('open', () => {
      model.setConnection({ type: 'live' });
      lookSoon();
    });
    stream.addEventListener('journal', ({ data }) => {
      model.takeEntry(JSON.parse(data));
      lookSoon();
    });
    stream.addEventListener('text', ({ data }) => model.takeTextSoFar(JSON.parse(data)));
    stream.addEventListener('delta', ({ data }) => model.takeDelta(JSON.parse(data)));
    stream.addEventListener('end', () => {
      stream.close();
      model.setConnection({ type: 'ended' });
      lookSoon();
    });
    stream.addEventListener('error', () => {
      const { connection } = model;
      if (connection.type === 'ended') return;
      if (connection.type !== 'away') model.setConnection({ type: 'away', since: Date.now() });
      if (stream.readyState !== EventSource.CLOSED) return;
      setTimeout(reopen, RECONNECT_MS);
    });
  };
  /** An `EventSource` does not report why it failed, but a request for the view does; a 401 shows the sign-in form. */
  const reopen = async (): Promise<void> => {
    try {
      model.takeView(await request<RunView>(path));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return onMissing(error);
      if (error instanceof ApiError && error.status === 401) return;
      setTimeout(reopen, RECONNECT_MS);
      return;
    }
    open();
  };

  void reopen();
  setInterval(() => {
    if (!document.hidden && !model.hasEnded && model.connection.type === 'live') void look();
  }, POLL_MS);
  sleepWhileHidden(
    () => source?.close(),
    () => {
      if (model.connection.type !== 'ended' && source?.readyState === EventSource.CLOSED) void reopen();
    },
  );
  return { look: lookSoon };
}

function sleepWhileHidden(sleep: () => void, wake: () => void): void {
  let sleeping: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(sleeping);
    if (document.hidden) sleeping = setTimeout(sleep, HIDDEN_MS);
    else wake();
  });
}
