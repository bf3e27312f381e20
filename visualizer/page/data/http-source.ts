import { requestServer, runPath } from './request.ts';
import { lookForServer } from './server-watch.ts';
import { type EntriesPage, type ListNews, type PageSource, type RunNews, TAIL } from './source.ts';

/** The runs of the server. The end of `runId`, the run of the page's address, is requested before its view's code. */
export function httpSource(runId?: string): PageSource {
  const stream = new SharedStream();
  const readTail = (id: string): Promise<EntriesPage> =>
    requestServer(`${runPath(id)}/entries?before=&state=true&limit=${TAIL}`);
  let early = runId === undefined ? null : { runId, tail: readTail(runId) };
  early?.tail.catch(() => {});
  return {
    live: true,
    view: runId => requestServer(runPath(runId)),
    entries: (id, place) => {
      if (place !== 'tail')
        return requestServer(`${runPath(id)}/entries?after=${place.after}&limit=${place.limit}`);
      const tail = early?.runId === id ? early.tail : readTail(id);
      early = null;
      return tail;
    },
    follow: (runId, after, listen) => stream.follow(runId, after, listen),
    followList: listen => stream.followList(listen),
  };
}

const CHANNEL = 'agentchart.stream';
const GATHER_MS = 25;
const RECONNECT_MS = 1_000;
const MOST_RUNS = 32;

type Wants = { tab: string; runs: Record<string, number>; list: boolean };
type Frame = { name: string; data: unknown };
type Message = { type: 'wants'; wants: Wants } | { type: 'frame'; frame: Frame } | { type: 'leads' };

const EVENTS = ['journal', 'text', 'delta', 'end', 'gone', 'ready', 'summary', 'inbox', 'removed'] as const;

/**
 * One event stream for all tabs of this browser, because a browser opens only six connections to a server.
 *
 * T1 The tab that holds the lock has the connection; when it closes, another tab takes over.
 * T2 The other tabs send it their subscriptions, and it sends every event to all tabs. Readers ignore repeated entries.
 * T3 A tab is known by a lock of its own, which ends with it. It tells its wants again once it has that lock.
 * T4 Without locks (a page that is not served securely), each tab has its own connection.
 */
class SharedStream {
  readonly #tab = Math.random().toString(36).slice(2);
  readonly #channel = new BroadcastChannel(CHANNEL);
  readonly #runs = new Map<string, { after(): number; listen(news: RunNews): void }>();
  readonly #lists = new Set<(news: ListNews) => void>();
  readonly #wants = new Map<string, Wants>();
  #leads = false;
  #started = false;
  #source: EventSource | null = null;
  #connected = '';
  #gathering: ReturnType<typeof setTimeout> | undefined;

  follow(runId: string, after: () => number, listen: (news: RunNews) => void): () => void {
    this.#runs.set(runId, { after, listen });
    this.#announce();
    return () => {
      if (this.#runs.get(runId)?.listen !== listen) return;
      this.#runs.delete(runId);
      this.#announce();
    };
  }

  followList(listen: (news: ListNews) => void): () => void {
    this.#lists.add(listen);
    this.#announce();
    return () => {
      this.#lists.delete(listen);
      this.#announce();
    };
  }

  #start(): void {
    this.#started = true;
    this.#channel.addEventListener('message', ({ data }: MessageEvent<Message>) => this.#hear(data));
    const none = { tab: this.#tab, runs: {}, list: false };
    addEventListener('pagehide', () => this.#say({ type: 'wants', wants: none }));
    addEventListener('pageshow', ({ persisted }) => persisted && this.#announce());
    const lead = (): Promise<never> => {
      this.#leads = true;
      this.#say({ type: 'leads' });
      this.#announce();
      return new Promise(() => {});
    };
    if (navigator.locks === undefined) return void lead();
    void navigator.locks.request(`${CHANNEL}.${this.#tab}`, () => {
      this.#announce();
      return new Promise(() => {});
    });
    void navigator.locks.request(CHANNEL, lead);
  }

  #announce(): void {
    if (!this.#started) this.#start();
    const runs = Object.fromEntries([...this.#runs].map(([id, { after }]) => [id, after()]));
    const wants = { tab: this.#tab, runs, list: this.#lists.size > 0 };
    if (this.#leads) this.#want(wants);
    else this.#say({ type: 'wants', wants });
  }

  #say(message: Message): void {
    if (navigator.locks !== undefined) this.#channel.postMessage(message);
  }

  #hear(message: Message): void {
    if (message.type === 'leads') this.#announce();
    else if (message.type === 'frame') this.#deliver(message.frame);
    else if (this.#leads) this.#want(message.wants);
  }

  #want(wants: Wants): void {
    this.#wants.set(wants.tab, wants);
    clearTimeout(this.#gathering);
    this.#gathering = setTimeout(() => void this.#gather(), GATHER_MS);
  }

  /** Reconnects if a tab has a subscription that the connection does not include. */
  async #gather(): Promise<void> {
    await this.#forgetClosedTabs();
    const all = [...this.#wants.values()];
    const runs = new Map<string, number>();
    for (const [id, after] of all.flatMap(wants => Object.entries(wants.runs)))
      runs.set(id, Math.min(runs.get(id) ?? after, after));
    const list = all.some(wants => wants.list);
    const key = `${[...runs.keys()].sort().join(' ')} ${list}`;
    if (key === this.#connected && this.#source?.readyState !== EventSource.CLOSED) return this.#tellOpen();
    this.#connected = key;
    this.#source?.close();
    this.#source = null;
    if (runs.size === 0 && !list) return;
    const query = new URLSearchParams(
      [...runs].slice(-MOST_RUNS).map(([id, after]) => ['run', `${id}:${after}`]),
    );
    if (list) query.set('summaries', '1');
    this.#connect(`/events?${query}`);
  }

  async #forgetClosedTabs(): Promise<void> {
    const held = await navigator.locks?.query();
    if (held?.held === undefined) return;
    const open = new Set(held.held.map(({ name }) => name));
    for (const tab of this.#wants.keys()) if (!open.has(`${CHANNEL}.${tab}`)) this.#wants.delete(tab);
  }

  #tellOpen(): void {
    if (this.#source?.readyState === EventSource.OPEN) this.#send({ name: 'open', data: null });
  }

  #connect(path: string): void {
    const source = new EventSource(path);
    this.#source = source;
    source.addEventListener('open', () => this.#tellOpen());
    for (const name of EVENTS)
      source.addEventListener(name, ({ data }) => this.#send({ name, data: JSON.parse(data) }));
    source.addEventListener('error', () => {
      if (this.#source !== source) return;
      void lookForServer();
      this.#send({ name: 'away', data: null });
      if (source.readyState === EventSource.CLOSED) setTimeout(() => void this.#retry(source), RECONNECT_MS);
    });
  }

  /** Finds out by a request why the connection failed, which `EventSource` does not say. A 401 shows the sign-in form. */
  async #retry(failed: EventSource): Promise<void> {
    if (this.#source !== failed) return;
    const answer = await requestServer('/runs?limit=1').catch(() => null);
    if (this.#source !== failed) return;
    if (answer === null) return void setTimeout(() => void this.#retry(failed), RECONNECT_MS);
    this.#connected = '';
    this.#say({ type: 'leads' });
    this.#announce();
  }

  #send(frame: Frame): void {
    if ([...this.#wants.keys()].some(tab => tab !== this.#tab)) this.#say({ type: 'frame', frame });
    this.#deliver(frame);
  }

  #deliver({ name, data }: Frame): void {
    if (name === 'open' || name === 'away')
      return this.#runs.forEach(({ listen }) => void listen({ type: name }));
    if (name === 'ready' || name === 'summary' || name === 'inbox' || name === 'removed')
      return this.#lists.forEach(listen => void listen({ type: name, data }));
    const { runId } = data as { runId: string };
    this.#runs.get(runId)?.listen({ type: name, data } as RunNews);
  }
}
