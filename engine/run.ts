import type { Context } from '../machines/context.ts';
import { type ChartState, next } from '../machines/step.ts';
import type { Delta, ServiceName } from '../protocol/effect.ts';
import type { ChartEvent, RunEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { type JsonValue, toJson } from '../protocol/json.ts';
import type { Owner, Store } from '../protocol/store.ts';
import type { Tool } from '../protocol/tool.ts';
import { Channel } from './channel.ts';
import { type ChildRuns, type SoughtCall, suspendedCalls } from './child-runs.ts';
import {
  type Command,
  cancelRun,
  type FoldedCommands,
  foldCommands,
  type MakeCommand,
  type Said,
  stampCommand,
} from './command.ts';
import { type DriveOutcome, Driver, POLL_MS } from './driver.ts';
import { type CommandResult, explainRefusal, type SubmitResult } from './explain-refusal.ts';
import type { JudgeOwner } from './find-live-attempt.ts';
import { findPoison } from './find-poison.ts';
import { type ForkMessage, forkRun } from './fork-run.ts';
import { type Host, LONGEST_NAP_MS, type Moment, momentOf, sleep } from './host.ts';
import {
  damagedJournal,
  foldEntry,
  hasEnded,
  isAtRest,
  type LoadedRun,
  makeImage,
  statusOf,
} from './load-run.ts';
import { readJournal, readPages } from './read-journal.ts';
import { findResult } from './results.ts';
import { boundCommand, RunBlobs } from './run-blobs.ts';
import { addChildren, deliverToParent, endRun, findOrphan, RunChildren } from './run-children.ts';
import { RunInputs } from './run-inputs.ts';
import { readEvents, readText } from './run-streams.ts';
import type { Service } from './service.ts';
import { describeSettled, type Settled } from './settled.ts';

/** What a run needs of the agent it belongs to. */
export type RunOptions = {
  runId: string;
  store: Store;
  host: Host;
  owner: Owner;
  isDead(owner: Owner): boolean;
  judgeOwner: JudgeOwner;
  leaseMs: number;
  graceMs: number;
  durability: 'strict' | 'relaxed';
  services: Readonly<Record<ServiceName, Service>>;
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  /** The transcript of the runs that `continues` leads to. */
  loadInherited(continues: string | null): Promise<readonly Item[]>;
  showText(text: string): string;
  children: ChildRuns;
  /** Of a sub-agent's run: attaches to the run that made it, in case its agent is here. */
  openParent?(runId: string): Promise<Run>;
  /** Whether somebody waits for this run's end right here. */
  isAwaited?(): boolean;
};

/** What is journaled, with its place, and what only passes by. */
export type RunHappening = (RunEvent & { runId: string; seq: number }) | Delta;

/**
 * A run as this process holds it: driven here, driven by another process and followed, or at rest.
 *
 * R1 At most one driver at a time; inputs go to it while there is one, else straight to the journal.
 * R2 `settled()` drives if nobody else does; it rejects only for what the store does, never for what a run does.
 * R3 Who reads its events or its text until it settles is told when driving it here fails, as `settled()` is;
 *    who follows it to its end waits for somebody else to go on.
 * R4 A process that holds a run at rest wakes it when an approval expires, and does not stay alive for it.
 * R5 A process that lost its lease takes the run again if nobody else has it, and follows it otherwise; its
 *    events tell who has it (`run.claimed`, whose `replaces` names the loser).
 */
export class Run extends RunInputs {
  readonly id: string;
  readonly #options: RunOptions;
  readonly #blobs: RunBlobs;
  readonly #children: RunChildren;
  readonly #channel = new Channel();
  #loaded: LoadedRun;
  /** The transcript this run continues. */
  #inherited: readonly Item[] | undefined;
  #driver: Driver | null = null;
  #driving: Promise<DriveOutcome> | null = null;
  #claiming: Promise<boolean> | null = null;
  #cancelWake = () => {};
  /** Why this process could not go on driving; until it drives again. */
  #trouble: { error: unknown } | null = null;

  private constructor(options: RunOptions, loaded: LoadedRun, inherited: readonly Item[] | undefined) {
    super(options);
    this.id = options.runId;
    this.#options = options;
    this.#blobs = new RunBlobs(options);
    this.#children = new RunChildren(options);
    this.#loaded = loaded;
    this.#inherited = inherited;
  }

  /** Without `inherited` it is loaded when the run is driven. */
  static attach(options: RunOptions, loaded: LoadedRun, inherited?: readonly Item[]): Run {
    const run = new Run(options, loaded, inherited);
    run.#wakeAtExpiry();
    return run;
  }

  /** A run that was just created and claimed: driving begins at once. */
  static begin(
    options: RunOptions,
    loaded: LoadedRun,
    inherited: readonly Item[],
    { epoch, leasedAt }: { epoch: number; leasedAt: Moment },
  ): Run {
    const run = new Run(options, loaded, inherited);
    run.#driveUnder(epoch, leasedAt);
    return run;
  }

  /** Resolves when the run rests or has ended, driving it if nobody else does. */
  async settled(): Promise<Settled> {
    for (;;) {
      await this.#driving;
      if (this.#driver === null) await this.#catchUp();
      const settled = this.#driver === null ? this.#describe() : null;
      if (settled?.status === 'waiting' && suspendedCalls(this.context).length > 0) {
        const withTheirs = await this.#settleChildren(settled);
        if (withTheirs !== null) return withTheirs;
        continue;
      }
      if (settled?.status === 'cancelled')
        return await addChildren(this.#options.store, this.context, settled);
      if (settled !== null) return settled;
      if (this.#driver !== null || (await this.#endIfOverdue()) || (await this.#tryToDrive())) continue;
      await sleep(this.#options.host, POLL_MS);
    }
  }

  /** What is waited for once all sub-agents rest; `null` when one of them has ended, and the run goes on. */
  async #settleChildren(settled: Extract<Settled, { status: 'waiting' }>): Promise<Settled | null> {
    const ended = await this.#children.settle(this.context);
    for (const said of ended) {
      const command = await this.bound(said);
      await this.put([() => command]);
    }
    return ended.length > 0 ? null : await addChildren(this.#options.store, this.context, settled);
  }

  /** Drives the run until it settles; journals nothing but the claim. */
  async resume(): Promise<Settled> {
    await this.#catchUp();
    if (this.#driver === null && !hasEnded(this.#state)) await this.#tryToDrive();
    return await this.settled();
  }

  /** Entries behind `after`, then what happens, until the run settles; with `follow`, until it has ended. */
  events(options: { after?: number; follow?: boolean } = {}): AsyncIterable<RunHappening> {
    return readEvents(this.#streamSource(), options);
  }

  /** The text as it reaches the reader, until the run settles. */
  text(): AsyncIterable<string> {
    return readText(this.#streamSource(), this.#options.showText);
  }

  /**
   * Aborts what runs, gives it the grace time, and ends the run. Where another process drives it, that one is
   * asked to: the promise resolves once the request is durable, and `settled()` once the run has ended.
   */
  async cancel(options: Said & { reason?: string } = {}): Promise<CommandResult> {
    const result = await this.#cancel(options);
    if (result.accepted && hasEnded(this.#state)) await this.#cancelChildren();
    return result;
  }

  async #cancelChildren(): Promise<void> {
    await this.#children.cancel(this.context, `run ${this.id}, which it worked for, was cancelled`);
  }

  async #cancel(options: Said & { reason?: string }): Promise<CommandResult> {
    if (this.#driver !== null) {
      const answer = await this.#driver.cancel(state => this.#stamp(cancelRun(state, options)));
      if (answer === 'accepted') return { accepted: true };
    }
    const end = await endRun(this.#options, this.id, options);
    const result = await this.put([end]);
    const { cancelling } = this.context;
    return cancelling === null || hasEnded(this.#state) ? result : { accepted: true };
  }

  /**
   * A new run that begins as this one did up to its entry `at`, and with `message` behind it; what was under
   * way there is in doubt. It is attached, and driven once `settled()`, `resume()` or a command asks for it.
   * Throws what `forkRun` throws.
   */
  async fork({ at, ...said }: { at: number } & ForkMessage): Promise<Run> {
    const options = this.#options;
    const { runId, loaded } = await forkRun(options, this.id, at, said);
    const owner = { ...options.owner, id: options.host.newId('driver') };
    return Run.attach({ ...options, runId, owner }, loaded, this.#inherited);
  }

  /** Where the run stands, with what it continues: JSON from which `agent.restore` goes on, in any process. */
  snapshot(): JsonValue {
    const inherited = this.#inherited?.length === 0 ? undefined : this.#inherited;
    const { state, seq } = this.#driver?.durable ?? this.#loaded;
    return { runId: this.id, seq, image: toJson(makeImage(state, inherited)) };
  }

  /**
   * The whole of a result, also of one that is too large for the journal. Throws `result-missing` where the
   * store has only its head and tail, and `call-unknown` for a call that has no result in this run.
   */
  async output(callId: string): Promise<JsonValue> {
    const result = findResult(await this.look(), callId);
    return result.blob === undefined ? result.output : await this.#blobs.load(result.blob);
  }

  /** What the chart knows of the run, as far as this process has seen. JSON; not to be changed. */
  get context(): Readonly<Context> {
    return this.#state.context;
  }

  /** The context, with what others have appended. */
  protected async look(): Promise<Context> {
    if (this.#driver === null) await this.#catchUp();
    return this.#state.context;
  }

  protected async findChildren(sought: SoughtCall, ever: boolean): Promise<RunInputs[]> {
    const open = await this.#children.findWith(this.context, sought);
    if (open.length > 0 || !ever) return open;
    return [(await this.#children.findPast(this.id, sought)) ?? []].flat();
  }

  protected async findPausedChild(): Promise<RunInputs | undefined> {
    return await this.#children.findPaused(this.context);
  }

  protected async wasToldOf(callId: string): Promise<boolean> {
    const told = ['approval.decided', 'result.received', 'doubt.resolved'];
    const entries = await readJournal(this.#options.store, this.id);
    return entries.some(
      ({ event }) => told.includes(event.type) && 'callId' in event && event.callId === callId,
    );
  }

  protected async bound(command: Command): Promise<Command> {
    return await boundCommand(command, this.context, this.#blobs);
  }

  protected goOn(): void {
    this.settled().catch(() => {});
  }

  get #state(): ChartState {
    return this.#driver?.state ?? this.#loaded.state;
  }

  /** `null` while there is something to do: a timer that is due, too. */
  #describe(): Settled | null {
    const { timer } = this.#state.context;
    if (isAtRest(this.#state) && timer !== null && timer <= this.#options.host.now()) return null;
    return describeSettled(this.#state, this.#options.showText);
  }

  /** Puts commands to the driver, or to the journal if nobody drives here; conflicts are tried again. */
  protected async put(makes: readonly MakeCommand[]): Promise<SubmitResult> {
    for (;;) {
      const driver = this.#driver;
      if (driver === null) await this.#catchUp();
      if (driver !== this.#driver) continue;
      const before = this.#state;
      const folded = foldCommands(before, makes, this.#options.host.now());
      if ('accepted' in folded) return folded;
      const answer = driver === null ? await this.#appendInputs(folded) : await driver.input(folded.events);
      if (answer === 'accepted') {
        if (driver === null) this.#driveInBackground();
        return { accepted: true };
      }
      if (answer === 'refused') {
        const after = this.#state;
        const refusal =
          (await this.#explain(before, folded.events)) ?? (await this.#explain(after, folded.events));
        if (refusal !== null) return refusal;
      }
      if (answer === 'gone') await this.#driving;
    }
  }

  async #appendInputs({ events, state }: FoldedCommands): Promise<'accepted' | 'refused' | 'conflict'> {
    const { store, host } = this.#options;
    if (state === null) return 'refused';
    host.reach?.('input.before');
    const { seq } = this.#loaded;
    const result = await store.append(this.id, { after: seq, input: true }, events, statusOf(state));
    host.reach?.('input.after');
    if (result.type !== 'appended') return 'conflict';
    this.#loaded = { ...this.#loaded, state, seq: result.seq };
    for (const [index, event] of events.entries())
      this.#channel.publishEntry({ seq: seq + index + 1, event });
    return 'accepted';
  }

  #stamp(command: Command): ChartEvent {
    return stampCommand(command, this.#options.host.now());
  }

  /** Why the chart does not take these inputs; `null` when it takes them by now. */
  async #explain(state: ChartState, events: readonly ChartEvent[]) {
    const journal = await readJournal(this.#options.store, this.id);
    let before = state;
    for (const [index, event] of events.entries()) {
      const step = next(before, event);
      if (!step.handled) return { ...explainRefusal(before, event, journal), index };
      before = step.state;
      journal.push({ seq: journal.length + 1, event });
    }
    return null;
  }

  /** Folds what others appended while nobody drove here; what came behind entry `last` may be left for later. */
  async #catchUp(last?: number): Promise<void> {
    for await (const page of readPages(this.#options.store, this.id, this.#loaded.seq, last)) {
      for (const entry of page) {
        if (this.#driver !== null) return;
        if (entry.seq <= this.#loaded.seq) continue;
        const state = foldEntry(this.#loaded.state, entry, this.id);
        this.#loaded = { ...this.#loaded, state, seq: entry.seq };
        this.#channel.publishEntry(entry);
      }
    }
  }

  /** Claims and drives; false when another process holds the lease. */
  #tryToDrive(): Promise<boolean> {
    if (this.#driving !== null) return Promise.resolve(true);
    this.#claiming ??= this.#claim().finally(() => {
      this.#claiming = null;
    });
    return this.#claiming;
  }

  async #claim(): Promise<boolean> {
    const { store, host, owner, leaseMs, isDead } = this.#options;
    host.reach?.('claim.before');
    const asked = momentOf(host);
    const { seq: seen } = this.#loaded;
    const claim = await store.claim(this.id, { owner, leaseMs, now: asked.wall, isDead });
    host.reach?.('claim.after');
    if (claim.type === 'held') return false;
    if (claim.seq <= seen)
      throw damagedJournal(this.id, claim.seq, `is a claim, where ${seen} entries were seen before`);
    await this.#catchUp(claim.seq);
    await this.#endIfOrphaned(claim.epoch);
    await this.#parkIfPoisoned(claim.epoch);
    this.#driveUnder(claim.epoch, asked);
    return true;
  }

  /** A process that was asked to cancel the run, and has not by the deadline, is not waited for. */
  async #endIfOverdue(): Promise<boolean> {
    const { cancelling } = this.context;
    if (cancelling === null || this.#options.host.now() < cancelling.deadline) return false;
    return (await this.put([state => cancelRun(state, cancelling)])).accepted;
  }

  /** A sub-agent does nothing more for a run that does not wait for it. */
  async #endIfOrphaned(epoch: number): Promise<void> {
    const reason = hasEnded(this.#state) ? null : await findOrphan(this.#options.store, this.context);
    if (reason !== null) await this.#appendUnder(epoch, state => cancelRun(state, { reason }));
  }

  /** A run that ends one process after another is paused instead of driven. */
  async #parkIfPoisoned(epoch: number): Promise<void> {
    const reason = await findPoison(this.#options.store, this.#loaded, this.id);
    if (reason !== null) await this.#appendUnder(epoch, () => ({ type: 'run.parked', reason }));
  }

  /** Before there is a driver. */
  async #appendUnder(epoch: number, make: (state: ChartState) => Command): Promise<void> {
    const { store, host } = this.#options;
    for (;;) {
      const { state, seq } = this.#loaded;
      const event = this.#stamp(make(state));
      const step = next(state, event);
      if (!step.handled) return;
      host.reach?.('append.before');
      const { type } = await store.append(this.id, { after: seq, epoch }, [event], statusOf(step.state));
      host.reach?.('append.after');
      if (type === 'superseded') return;
      await this.#catchUp();
      if (type === 'appended') return;
    }
  }

  #driveInBackground(): void {
    if (this.#describe() !== null) return this.#wakeAtExpiry();
    this.#tryToDrive().catch(() => {});
  }

  #driveUnder(epoch: number, leasedAt: Moment): void {
    this.#cancelWake();
    this.#trouble = null;
    this.#driving = this.#drive(epoch, leasedAt)
      .catch(error => {
        this.#trouble = { error };
        throw error;
      })
      .finally(() => this.#afterDriving());
    this.#driving.then(
      () => this.#lookAgain(),
      () => {},
    );
  }

  /**
   * What somebody said after the driver's last look, and before it let go of the run, is not left lying; nor
   * is a run whose lease this process let run out, if nobody else took it. A sub-agent's run that ended before
   * this one waited for it could not tell it so.
   */
  async #lookAgain(): Promise<void> {
    if (hasEnded(this.#state)) return;
    try {
      await this.#catchUp();
      if (this.#driving !== null) return;
      for (const command of await this.#children.collect(this.context)) await this.put([() => command]);
    } catch {
      return;
    }
    if (this.#driving === null) this.#driveInBackground();
  }

  async #drive(epoch: number, leasedAt: Moment): Promise<DriveOutcome> {
    const { store, host, leaseMs, graceMs, durability, services, runId, judgeOwner } = this.#options;
    this.#inherited ??= await this.#options.loadInherited(this.#loaded.state.context.continues);
    const inherited = this.#inherited;
    const loaded = this.#loaded;
    const channel = this.#channel;
    this.#driver = new Driver({
      ...{ store, host, runId, epoch, leaseMs, leasedAt, graceMs, durability, judgeOwner },
      ...{ services, channel, loaded, inherited },
    });
    return await this.#driver.drive();
  }

  #afterDriving(): void {
    const driver = this.#driver;
    if (driver !== null)
      this.#loaded = { ...this.#loaded, ...driver.durable, snapshotSeq: driver.snapshotSeq };
    this.#driver = null;
    this.#driving = null;
    this.#wakeAtExpiry();
    this.#channel.nudge();
    if (this.context.cancelling !== null) void this.#cancelChildren().catch(() => {});
    void this.#tellParent().catch(() => {});
  }

  /** The run that waits for this one is told how it ended, and driven on where its agent is here. */
  async #tellParent(): Promise<void> {
    const { store, host, openParent, isAwaited } = this.#options;
    const settled = hasEnded(this.#state) ? this.#describe() : null;
    if (this.context.parent === null || settled === null || settled.status === 'waiting') return;
    if (isAwaited?.() === true) return;
    if (!(await deliverToParent({ store, host }, this.context, settled))) return;
    await (await openParent?.(this.context.parent.runId))?.settled();
  }

  #wakeAtExpiry(): void {
    this.#cancelWake();
    const { timer } = this.#state.context;
    if (!isAtRest(this.#state) || timer === null) return;
    const { host } = this.#options;
    const wake = () => {
      if (host.now() < timer) return this.#wakeAtExpiry();
      this.#tryToDrive().catch(() => {});
    };
    const nap = Math.min(timer - host.now(), LONGEST_NAP_MS);
    this.#cancelWake = host.setTimer(nap, wake, { keepAlive: false });
  }

  #streamSource() {
    return {
      runId: this.id,
      channel: this.#channel,
      host: this.#options.host,
      readPages: (after: number) => readPages(this.#options.store, this.id, after),
      trouble: () => (this.#driving === null ? this.#trouble : null),
      /** Catches up where nobody drives here, and tells whether there is more to come. */
      look: async (): Promise<'running' | 'at-rest' | 'ended'> => {
        if (this.#driving === null) await this.#catchUp();
        if (this.#driving !== null) return 'running';
        return hasEnded(this.#state) ? 'ended' : isAtRest(this.#state) ? 'at-rest' : 'running';
      },
    };
  }
}
