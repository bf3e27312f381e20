import type { OpenCall } from '../../../engine/log/settled.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import { readActs } from './chaos-agent.ts';
import { type Acknowledged, REFUSED_FORK } from './chaos-evidence.ts';
import { AGENT_ARGS, type ChaosProcess, type Place, startCommand } from './chaos-process.ts';

/** The timeout of a request, in ms: a stopped server does not respond. */
const PATIENCE_MS = 4_000;

export type PersonOptions = {
  place: Place;
  store: Store;
  random: () => number;
  /** The URL of a server that is believed to be running. */
  server(): string | undefined;
  record(acknowledged: Acknowledged): void;
  /** Reports a running command line, so that it can be killed. */
  onCommand(command: ChaosProcess): void;
  /** Runs `work` while no process is killed, so that its lookups stay valid. */
  whileAlive(work: () => Promise<void>): Promise<void>;
};

/** People who start runs, send messages, decide calls and resolve doubts, by any available interface. */
export class ChaosPerson {
  readonly #options: PersonOptions;
  #messages = 0;
  runs = 0;

  constructor(options: PersonOptions) {
    this.#options = options;
  }

  async begin(): Promise<void> {
    const number = Math.floor(this.#options.random() * 4);
    const view = await this.#post<RunView>('/runs', { agent: 'boss', input: `go ${number}` });
    if (view === null) return;
    this.runs += 1;
    this.#options.record({ type: 'started', runId: view.runId });
  }

  /** Answers every open question and sends nothing else. Returns the number of runs that have not ended, and of all entries. */
  async answerAll(): Promise<{ open: number; entries: number }> {
    const views = await this.#list();
    if (views === null) return { open: Number.NaN, entries: 0 };
    let open = 0;
    for (const { runId, status } of views) {
      if (status !== 'running' && status !== 'waiting') continue;
      open += 1;
      const view = await this.#get<RunView>(`/runs/${runId}`);
      if (view === null || view.settled?.status !== 'waiting') continue;
      if (view.settled.paused) await this.#post(`/runs/${runId}/unpause`, {});
      for (const call of view.settled.approvals) await this.#approve(call);
      for (const call of view.settled.doubts) await this.#resolve(call, true);
    }
    return { open, entries: views.reduce((sum, { seq }) => sum + seq, 0) };
  }

  /** Performs one random action of a person on a random run. */
  async act(): Promise<void> {
    const { random } = this.#options;
    const views = (await this.#list()) ?? [];
    const live = views.filter(({ status }) => status === 'running' || status === 'waiting');
    const picked = live[Math.floor(random() * live.length)];
    if (picked === undefined) return;
    const view = await this.#get<RunView>(`/runs/${picked.runId}`);
    if (view === null) return;
    const waiting = view.settled?.status === 'waiting' ? view.settled : null;
    const [approval] = waiting?.approvals ?? [];
    const [doubt] = waiting?.doubts ?? [];
    if (waiting?.paused === true) await this.#post(`/runs/${view.runId}/unpause`, {});
    else if (approval !== undefined) await this.#decide(approval);
    else if (doubt !== undefined) await this.#resolve(doubt, false);
    else await this.#speak(view.runId);
  }

  async #decide(call: OpenCall): Promise<void> {
    const kind = this.#options.random();
    if (kind < 0.6) return await this.#approve(call);
    const { runId, callId } = call;
    if (kind < 0.8) {
      const refused = await this.#post(`/runs/${runId}/reject`, { callId, reason: 'no' });
      if (refused !== null) this.#options.record({ type: 'decided', runId, callId });
      return;
    }
    if (await this.#command(['approve', runId, callId, ...AGENT_ARGS]))
      this.#options.record({ type: 'decided', runId, callId });
  }

  async #approve({ runId, callId }: OpenCall): Promise<void> {
    if ((await this.#post(`/runs/${runId}/approve`, { callId })) !== null)
      this.#options.record({ type: 'decided', runId, callId });
  }

  /** Looks up whether the call happened, and resolves the doubt. Forces a retry only if the person accepts the risk. */
  async #resolve({ runId, callId }: OpenCall, isLast: boolean): Promise<void> {
    const { store, place, random, record, whileAlive } = this.#options;
    await whileAlive(async () => {
      const entries = await store.read(runId);
      const key = findKey(
        entries.map(({ event }) => event),
        callId,
      );
      const isFork = entries.some(({ event }) => event.type === 'run.started' && event.forkOf !== undefined);
      const hasActed = readActs(place.folder).some(act => act.key === key);
      const kind = isLast || isFork ? 1 : random();
      const resolution = hasActed ? { happened: true, output: 'seen' } : resolveUnseen(kind);
      if ((await this.#post(`/runs/${runId}/resolve`, { callId, ...resolution })) !== null)
        record({ type: 'resolved', runId, callId });
    });
  }

  async #speak(runId: string): Promise<void> {
    const { random, record } = this.#options;
    const kind = random();
    this.#messages += 1;
    const text = `said ${this.#messages} to it.`;
    if (kind < 0.2) {
      if ((await this.#post(`/runs/${runId}/send`, { message: text })) !== null)
        record({ type: 'sent', runId, text });
    } else if (kind < 0.3) {
      if (await this.#command(['send', runId, text, ...AGENT_ARGS])) record({ type: 'sent', runId, text });
    } else if (kind < 0.4) {
      if ((await this.#post(`/runs/${runId}/pause`, {})) !== null) record({ type: 'paused', runId });
    } else if (kind < 0.43) {
      if ((await this.#post(`/runs/${runId}/cancel`, {})) !== null) record({ type: 'cancelled', runId });
    } else if (kind < 0.5) await this.#command(['resume', runId, ...AGENT_ARGS]);
    else if (kind < 0.6) await this.#forkInVain(runId);
  }

  /** Asks for a fork whose last command is refused. */
  async #forkInVain(runId: string): Promise<void> {
    const { seq = 1 } = (await this.#get<RunView>(`/runs/${runId}`)) ?? {};
    const at = 1 + Math.floor(this.#options.random() * seq);
    const commands = [
      { type: 'send', message: REFUSED_FORK },
      { type: 'approve', callId: 'call_none' },
    ];
    await this.#post(`/runs/${runId}/fork`, { at, commands });
  }

  /** Whether a command line was accepted: it drove the run to its end, or until it waits. */
  async #command(args: readonly string[]): Promise<boolean> {
    const command = startCommand(this.#options.place, args);
    this.#options.onCommand(command);
    const code = await command.ended;
    return code === 0 || code === 3;
  }

  async #list() {
    const listed = await this.#get<{ runs: RunView[] }>('/runs?limit=1000');
    return listed?.runs ?? null;
  }

  #get<Body>(path: string): Promise<Body | null> {
    return this.#fetch<Body>(path, {});
  }

  #post<Body>(path: string, body: object): Promise<Body | null> {
    const headers = { 'content-type': 'application/json' };
    return this.#fetch<Body>(path, { method: 'POST', headers, body: JSON.stringify(body) });
  }

  /** `null` unless the response is a success: a server may be stopped or killed at any time. */
  async #fetch<Body>(path: string, init: RequestInit): Promise<Body | null> {
    const url = this.#options.server();
    if (url === undefined) return null;
    try {
      const response = await fetch(url + path, { ...init, signal: AbortSignal.timeout(PATIENCE_MS) });
      return response.ok ? ((await response.json()) as Body) : null;
    } catch {
      return null;
    }
  }
}

function findKey(events: readonly RunEvent[], callId: string): string | undefined {
  const started = events.findLast(event => event.type === 'tool.started' && event.callId === callId);
  return started?.type === 'tool.started' ? started.key : undefined;
}

/** The resolution of a call that was not seen to act, by a random number below 1. */
function resolveUnseen(kind: number): JsonObject {
  if (kind < 0.1) return { retry: true, force: true };
  return kind < 0.6 ? { retry: true } : { failed: 'it was not seen' };
}
