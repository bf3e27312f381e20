import { type Agent, createAgent } from '../../agent/agent.ts';
import type { RunParts, RunSupervisor } from '../../engine/driver/run-options.ts';
import { POLL_MS, sleep } from '../../engine/host/host.ts';
import { cancelRun, type MakeCommand } from '../../engine/log/command.ts';
import type { SubmitResult } from '../../engine/log/refusal.ts';
import { describeNow, type Settled } from '../../engine/log/settled.ts';
import { addChildren } from '../../engine/sub-agents/children.ts';
import { suspendedCalls } from '../../engine/sub-agents/sub-agent-runs.ts';
import { hasEnded, isAtRest } from '../../machines/status.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { RestateCalls } from './ingress.ts';
import { DRIVE_SERVICE, RUN_OBJECT } from './requests.ts';
import type { RestateStore } from './restate-store.ts';

const REST_MS = 30_000;

/**
 * The host of a run that Restate's workers drive. This process only appends inputs and follows the journal.
 *
 * F1 An accepted input is in the journal when the command resolves; Restate delivers the run in the same commit.
 * F2 While a run is quarantined, `settled()` rejects with the error that quarantined it.
 */
class FollowedRun implements RunSupervisor {
  readonly driver = null;
  readonly failure = null;
  readonly inherited: readonly Item[] | undefined;
  readonly #parts: RunParts;
  readonly #calls: RestateCalls;

  constructor(parts: RunParts, calls: RestateCalls) {
    this.#parts = parts;
    this.#calls = calls;
    this.inherited = parts.loaded.inherited ?? parts.inherited;
  }

  get activity(): 'running' | 'at-rest' | 'ended' {
    const { state } = this.#parts.log;
    if (hasEnded(state)) return 'ended';
    return isAtRest(state) ? 'at-rest' : 'running';
  }

  async refresh(): Promise<void> {
    await this.#parts.log.catchUp();
  }

  async put(makes: readonly MakeCommand[]): Promise<SubmitResult> {
    return await this.#parts.log.put(makes);
  }

  async settled(): Promise<Settled> {
    const { options, log } = this.#parts;
    for (;;) {
      await this.refresh();
      const settled = describeNow(log.state, options);
      if (settled !== null && !(await this.#hasAnswersToCome(settled)))
        return await addChildren(options.store, log.state, settled);
      if (settled !== null || isAtRest(log.state)) await sleep(options.host, POLL_MS);
      else if (!(await this.#endIfOverdue())) await this.#waitForRest();
    }
  }

  /** Does nothing, because Restate delivers a new run automatically. */
  begin(): void {}

  async drive(): Promise<void> {
    await this.tryToDrive();
  }

  /** Does nothing, because the workers drive the run. */
  async yield(): Promise<void> {}

  /** Does nothing, because Restate wakes the run at its deadline. */
  wakeAtExpiry(): void {}

  async tryToDrive(): Promise<boolean> {
    return await resumeRun(this.#calls, this.#parts.options.runId);
  }

  /** Whether a child run is still active, or has ended and its answer is not in this journal yet. */
  async #hasAnswersToCome({ status }: Settled): Promise<boolean> {
    if (status !== 'waiting') return false;
    const { store } = this.#parts.options;
    for (const { childRunId } of suspendedCalls(this.#parts.log.state.context)) {
      const record = await store.get(childRunId);
      if (record !== undefined && record.status !== 'waiting') return true;
    }
    return false;
  }

  async #waitForRest(): Promise<void> {
    const { options, log } = this.#parts;
    const { runId } = options;
    if (log.state.context.cancelling !== null) return await sleep(options.host, POLL_MS);
    const { seq } = log.durable;
    const reason = { type: 'rest' } as const;
    // If the request fails, the journal is read again, which rejects if Restate cannot be reached.
    await this.#calls.run(runId, 'changed', { reason, withinMs: REST_MS }).catch(() => false);
    const meta = await this.#calls.run(runId, 'get', undefined);
    if (meta?.quarantine === undefined || meta.record.seq > seq) return;
    const message = `Run ${runId} is quarantined: ${meta.quarantine.message} Correct it, then resume the run.`;
    throw new EngineError(meta.quarantine.code, message, { runId });
  }

  async #endIfOverdue(): Promise<boolean> {
    const { options, log } = this.#parts;
    const { cancelling } = log.state.context;
    if (cancelling === null || options.host.now() < cancelling.deadline) return false;
    return (await this.put([state => cancelRun(state, cancelling)])).accepted;
  }
}

/** Has a run delivered, even if it rests or its delivery was killed. False if the run has ended. */
export async function resumeRun(calls: RestateCalls, runId: string): Promise<boolean> {
  const lost = await findLostDelivery(calls, runId);
  return await calls.run(runId, 'call', { reason: 'resumed', ...omitUndefined({ lost }) });
}

/** A driver claims within its delivery, so Restate has known it since before the claim. */
async function findLostDelivery(calls: RestateCalls, runId: string): Promise<number | undefined> {
  const meta = await calls.run(runId, 'get', undefined);
  if (meta?.working == null || meta.record.owner === undefined) return undefined;
  const sender = `${RUN_OBJECT}/${runId}/`.replaceAll("'", "''");
  const alive = await calls.query(
    `select id from sys_invocation where target_service_name = '${DRIVE_SERVICE}' and status <> 'completed'
     and starts_with(invoked_by_target, '${sender}') limit 1`,
  );
  return alive.length === 0 ? meta.working : undefined;
}

type Hosting = {
  store: RestateStore;
  calls: RestateCalls;
  own?(parts: RunParts): RunSupervisor | undefined;
};

/** Returns a copy of an agent that keeps its journals in Restate and only follows a run unless `own` drives it. */
export function hostAgent(agent: Agent, { store, calls, own }: Hosting): Agent {
  const makeSupervisor = (parts: RunParts) => own?.(parts) ?? new FollowedRun(parts, calls);
  return createAgent({ ...agent.options, store, makeSupervisor });
}
