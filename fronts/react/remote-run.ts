import { backOffMs } from '../../protocol/back-off.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { RunView } from '../../protocol/run-view.ts';
import {
  type CommandAnswer,
  commandsOf,
  type ObservedRun,
  type RemoteRunOptions,
  type RunSnapshot,
  refuseOtherOptions,
  SnapshotStore,
  type StoryTold,
} from './run-snapshot.ts';

export type { RemoteRunOptions };

const RECONNECT = { baseMs: 500, maxMs: 10_000 };
/** How long to collect lines before the view is read again, in ms. */
const GATHER_MS = 30;

/** How often a command whose response was lost is sent again, and the waits before. */
const MOST_RESENDS = 5;
const RESEND = { baseMs: 250, maxMs: 4_000 };

/** Error codes after which it is unknown whether the command was accepted: it is sent again with the same id. */
const LOST = ['unreachable', 'store-reply-lost', 'store-locked', 'shutting-down', 'lease-lost'];

/** HTTP statuses after which a retry is useless. */
const FINAL_STATUSES: readonly number[] = [400, 401, 403, 404];

/**
 * Returns an observable run of the runs API (`…/runs/RUN` of `agentchart serve` or `runsApp`), for pages of any
 * framework. It combines the run's story (`…/story/RUN`) and its view while it has subscribers, and asks for the rest of
 * a story that broke off. The server makes all decisions.
 *
 * @example
 * const run = remoteRun('/runs/run_1f');
 * run.subscribe(({ state, text, calls }) => render(state, text, calls));
 * await run.approve(call);
 */
export function remoteRun(url: string, options: RemoteRunOptions = {}): ObservedRun<RunView> {
  refuseOtherOptions('remoteRun', options);
  const run = new RemoteRun(url, options);
  const { getSnapshot, subscribe } = run.store;
  return { getSnapshot, subscribe, ...commandsOf(command => run.submit(command)) };
}

/** An error response; status 0 without a response. */
class Refused extends Error {
  readonly status: number;
  readonly answer: Exclude<CommandAnswer, { accepted: true }>;

  constructor(
    status: number,
    { code, message, by }: { code: string; message: string; by?: string | string[] | undefined },
  ) {
    super(message);
    this.status = status;
    this.answer = { accepted: false, code, message, ...(by !== undefined && { by }) };
  }
}

/**
 * R1 State, status and calls come from the view only. The story triggers reading the view and delivers text immediately.
 * R2 An older view never replaces a newer one.
 */
class RemoteRun {
  readonly store: SnapshotStore<RunView>;
  readonly #url: string;
  readonly #options: RemoteRunOptions;
  #seq = 0;
  #viewSeq = -1;
  /** Aborted when a command reached the server, so that a lost stream reconnects immediately. */
  #reached = new AbortController();
  #isReading = false;
  #readsAgain = false;

  constructor(url: string, options: RemoteRunOptions) {
    this.#url = url.replace(/[?#].*$/, '').replace(/\/+$/, '');
    this.#options = options;
    const runId = decodeURIComponent(this.#url.split('/').at(-1) ?? '');
    this.store = new SnapshotStore(runId, () => {
      const stop = new AbortController();
      void this.#follow(stop.signal);
      return () => stop.abort();
    });
  }

  async submit(command: RunCommand): Promise<CommandAnswer> {
    const { type, runId = this.#runOf(command), ...given } = { runId: undefined, ...command };
    try {
      const own = runId === undefined || runId === this.store.getSnapshot().runId;
      const path = own ? this.#url : this.#url.replace(/[^/]+$/, encodeURIComponent(runId));
      const body = { requestId: newRequestId(), ...given };
      const view = await this.#sendUntilAnswered(`${path}/${type}`, body);
      this.#reached.abort();
      if (own) this.#takeView(view);
      else this.#look();
      return { accepted: true };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.#look();
      return error.answer;
    }
  }

  /** Sends a command until the server answers. The command's id ensures that the server carries it out once. */
  async #sendUntilAnswered(url: string, body: object): Promise<RunView> {
    for (let failures = 1; failures <= MOST_RESENDS; failures += 1) {
      try {
        return await this.#json<RunView>(url, body);
      } catch (error) {
        if (!(error instanceof Refused) || !LOST.includes(error.answer.code)) throw error;
        await pause(backOffMs(failures, RESEND, Math.random()));
      }
    }
    return await this.#json<RunView>(url, body);
  }

  #runOf(command: RunCommand): string | undefined {
    if (!('callId' in command)) return undefined;
    const { calls, reviews } = this.store.getSnapshot();
    return [...calls, ...reviews].find(open => open.callId === command.callId)?.runId;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    let failures = 1;
    while (!signal.aborted) {
      const before = this.#seq;
      try {
        if (await this.#readView(signal)) return;
        await this.#readStory(signal);
        if (await this.#readView(signal)) return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && FINAL_STATUSES.includes(error.status)) {
          const { code, message } = error.answer;
          this.store.change({ error: { code, message } });
          return;
        }
      }
      failures = this.#seq > before ? 1 : failures + 1;
      this.#reached = new AbortController();
      const wait = backOffMs(failures, RECONNECT, Math.random());
      await pause(wait, AbortSignal.any([signal, this.#reached.signal]));
    }
  }

  async #readView(signal: AbortSignal): Promise<boolean> {
    const view = await this.#json<RunView>(this.#url, undefined, signal);
    this.#takeView(view);
    this.#seq ||= view.seq;
    return view.status !== 'running' && view.status !== 'waiting';
  }

  async #readStory(signal: AbortSignal): Promise<void> {
    const url = this.#url.replace(/\/[^/]+(\/[^/]+)$/, '/story$1');
    const response = await this.#send(`${url}?follow=1&after=${this.#seq}`, { headers: {}, signal });
    for await (const line of linesOf(response)) {
      if (line.runId !== undefined) continue;
      this.store.tell(line);
      this.#seq = line.seq ?? this.#seq;
      if (this.#seq > this.#viewSeq) this.#look();
    }
  }

  #takeView(view: RunView): void {
    if (view.seq < this.#viewSeq) return;
    this.#viewSeq = view.seq;
    const { settled, state, status } = view;
    const error = settled?.status === 'failed' ? settled.error : undefined;
    const changed: Partial<RunSnapshot<RunView>> = {
      state,
      status,
      calls: callsOf(view),
      reviews: settled?.status === 'waiting' ? settled.reviews : [],
      context: view,
    };
    if (settled?.status === 'finished') changed.text = settled.text;
    this.store.change({ ...changed, error });
  }

  #look(): void {
    if (this.#isReading) {
      this.#readsAgain = true;
      return;
    }
    this.#isReading = true;
    void pause(GATHER_MS)
      .then(() => this.#json<RunView>(this.#url))
      .then(view => this.#takeView(view))
      .catch(() => {})
      .finally(() => {
        this.#isReading = false;
        if (!this.#readsAgain) return;
        this.#readsAgain = false;
        this.#look();
      });
  }

  async #json<Answer>(url: string, body?: object, signal?: AbortSignal): Promise<Answer> {
    const sent = body && { method: 'POST', body: JSON.stringify(body) };
    const type = body && { 'content-type': 'application/json' };
    const headers = { accept: 'application/json', ...type };
    const response = await this.#send(url, { ...sent, headers, ...(signal && { signal }) });
    return (await response.json().catch(() => {
      throw unreachable();
    })) as Answer;
  }

  async #send(url: string, init: RequestInit & { headers: Record<string, string> }): Promise<Response> {
    const { token, fetch: request = fetch } = this.#options;
    const headers = { ...init.headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) };
    const response = await request(url, { ...init, headers, credentials: 'same-origin' }).catch(() => {
      throw unreachable();
    });
    if (!response.ok) throw await refusalOf(response);
    return response;
  }
}

/** Of a waiting run, those of sub-agents' runs too. */
function callsOf({ settled, calls }: RunView): RunSnapshot['calls'] {
  if (settled?.status !== 'waiting') return calls;
  return settled.open.filter(open => 'callId' in open && open.kind !== 'review');
}

/** Returns a random id. Works on pages without HTTPS, where `crypto.randomUUID` is missing. */
function newRequestId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
}

function unreachable(): Refused {
  return new Refused(0, { code: 'unreachable', message: 'No response from the server.' });
}

async function refusalOf(response: Response): Promise<Refused> {
  const { status } = response;
  try {
    const { error } = (await response.json()) as {
      error: { code: string; message: string; by?: string | string[] };
    };
    return new Refused(status, error);
  } catch {
    return new Refused(status, { code: 'unexpected', message: `The server answered ${status}.` });
  }
}

/** A line of a story; the members that are read here. `runId` is another run's. */
type Line = StoryTold & { runId?: string; seq?: number };

async function* linesOf({ body }: Response): AsyncGenerator<Line> {
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true };
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') yield JSON.parse(line) as Line;
    }
  } finally {
    reader?.cancel().catch(() => {});
  }
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
