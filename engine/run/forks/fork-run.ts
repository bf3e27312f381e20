import type { Context } from '../../../machines/context.ts';
import { hasEnded, statusOf } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { ChartEvent, JournalEntry, RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { type Person, type RunCommand, senderOf } from '../../../protocol/run-command.ts';
import type { CopySource, JournalRest, Store } from '../../../protocol/store.ts';
import type { Host } from '../../host/host.ts';
import {
  beginFold,
  foldEntry,
  type LoadedRun,
  progressOf,
  standingOf,
  wordsFor,
} from '../../journal/load-run.ts';
import { readFromStart, readUnredacted, type WholeJournal } from '../../journal/read-journal.ts';
import type { CommandStore } from '../../journal/run-blobs.ts';
import { findFault, foldCommands, type MakeCommand, sendMessage, stampCommand } from '../../log/command.ts';
import { findRefusal, type Refusal } from '../../log/refusal.ts';
import type { RequestRecord } from '../../log/request-ids.ts';
import { waitsForOriginal } from '../../sub-agents/sub-agent-runs.ts';
import { assertReadable } from '../../versions/version-mismatch.ts';
import { applyEvent, type Copy, copyJournal, type ForkModel } from './copy-journal.ts';

/** How a fork begins. */
export type ForkOptions = {
  /** The id of the fork. Default: a new random one. */
  runId?: string | undefined;
  /** Who forks: the fork has them among its starters. */
  by?: string | undefined;
  /** Who forks, with groups; see `Person`. */
  as?: Person | undefined;
  /** Appended to the fork. */
  message?: string | readonly Item[] | undefined;
  /**
   * Changes in the fork, part of its creation: all of them, or there is no fork. They act after entry `at` and before
   * anything follows from it. Then the fork continues, unless they pause it or set a breakpoint that holds it.
   */
  commands?: readonly RunCommand[] | undefined;
  /**
   * The fork rests after entry `at`, before anything follows from it, also where the original finished. People can then
   * edit the reply, set parameters or decide, and continue.
   */
  paused?: boolean | undefined;
  /**
   * The fork plays the results of the original for equal calls (same tool, same input) and executes no tool. A call
   * without such a result is in doubt; a decision to retry executes it. Approvals still ask.
   */
  replayTools?: boolean | undefined;
  /**
   * The fork is the next run of the run's thread. Refused while a run of the thread has not ended. Without it, the thread
   * continues without the fork.
   */
  inThread?: boolean | undefined;
  /** The model of the fork. Default: that of the run. */
  model?: ForkModel | undefined;
  /** The request that forks, so that it is recognized when it comes again. */
  request?: RequestRecord | undefined;
};

/** `checkCommands` is needed for a fork with commands. */
/** `takesPlace`: the fork takes the place of the run in its thread, if that has one, also while the run has not ended. */
type ForkParts = { store: Store; host: Host; checkCommands?: CheckCommands; takesPlace?: boolean };

/**
 * Creates a run, in one commit, that starts with a copy of the journal of `runId` up to entry `at`, without its
 * claims and late outcomes, followed by the message and the commands. No process drives it yet. It continues the same
 * run as `runId` does.
 *
 * A call that was started but not settled at that entry is in doubt in the fork, regardless of its `sideEffect`: the
 * original run may have performed it, or may still do so. The call keeps its idempotency key. The fork of a
 * sub-agent's run has no parent.
 *
 * Whatever is refused creates nothing. Throws the code of a refused command, with its `index` in the details;
 * `run-exists` if `options.runId` is taken; `input-invalid` if `at` is not an entry of the run or the message is
 * invalid; `run-ended` for a message to a fork that has ended; `refused` for a run that came from another store, if
 * the input of a call that still has to run was redacted, if a limit cannot bind because the model reports no usage, if the
 * entries cannot begin the fork (a decision that no starter may give, and who forks is one; turns that cost more on its
 * model than it may spend), and with `inThread` while a run of the thread has not ended; `run-unknown`.
 */
export async function forkRun(
  parts: ForkParts,
  runId: string,
  at: number,
  options: ForkOptions = {},
): Promise<{ runId: string; loaded: LoadedRun }> {
  return await readUnredacted(parts.store, runId, ({ redactions = 0 }) =>
    forkAsRead(parts, { runId, redactions }, at, options),
  );
}

/** Throws an error of `isChangedRun` if the run is redacted before the fork is created. */
async function forkAsRead(
  parts: ForkParts,
  source: CopySource,
  at: number,
  options: ForkOptions,
): Promise<{ runId: string; loaded: LoadedRun }> {
  const { store, host } = parts;
  const { runId: forkId = host.newId('run'), commands = [], message } = options;
  const { runId } = source;
  const { paused = false, replayTools = false, inThread = false, model, request } = options;
  const { by } = senderOf(omitUndefined({ by: options.by, as: options.as }));
  const entries = await readFromStart(store, runId, 'Fork');
  assertReadable(runId, entries[0].event);
  const decided = commands.flatMap(command => ('callId' in command ? [command.callId] : []));
  const isHeld = paused || commands.length > 0;
  const copy = copyJournal(entries, { forkId, at, isHeld, replayTools, model, request, decided, by });
  const messages = message === undefined ? [] : [makeMessage(message, by, host)];
  if (messages.length > 0 && hasEnded(copy.state)) throw describeEnded(entries, at, copy.state);
  const begun: Copy = {
    ...copy,
    events: [...copy.events, ...messages],
    state: messages.reduce(applyEvent, copy.state),
  };
  const { events, state, blobs } =
    commands.length === 0
      ? { ...begun, blobs: [] }
      : await applyCommands(begun, commands, parts, { paused, by });
  const wake = waitsForOriginal(state.context) ? { wakeAt: host.now() } : {};
  const beside = inThread ? { after: await findLatestBeside(store, runId) } : undefined;
  const place = parts.takesPlace === true ? { of: runId } : beside;
  host.reach?.('create.before');
  const { seq } = await store.create(copy.started, undefined, {
    events,
    ...standingOf(state),
    ...wordsFor([copy.started, ...events], progressOf(state)),
    ...wake,
    source,
    ...(blobs.length > 0 && { blobs }),
    ...omitUndefined({ place }),
  });
  host.reach?.('create.after');
  return { runId: forkId, loaded: { state, seq, redactions: 0, snapshotSeq: 0 } };
}

async function findLatestBeside(store: Store, runId: string): Promise<string | null> {
  const { thread, labels = {} } = (await store.get(runId)) ?? {};
  if (thread === undefined)
    throw new EngineError('input-invalid', `Run ${runId} belongs to no thread. Fork it without inThread.`, {
      runId,
    });
  const { runs } = await store.list({ thread: { id: thread, labels }, latest: true });
  return runs[0]?.runId ?? null;
}

function makeMessage(message: string | readonly Item[], by: string | undefined, host: Host): ChartEvent {
  const command = sendMessage(message, omitUndefined({ by }), host);
  const event = stampCommand(command, host.now());
  const fault = findFault(event);
  if (fault !== null) throw new EngineError('input-invalid', `The message is invalid. ${fault.message}`);
  return event;
}

function describeEnded([first, ...rest]: WholeJournal, at: number, ended: ChartState): EngineError {
  const { runId } = first.event;
  let state = beginFold(first.event);
  let last = first.seq;
  for (const entry of rest) {
    state = foldEntry(state, entry, runId);
    if (hasEnded(state)) break;
    last = entry.seq;
  }
  return new EngineError(
    'run-ended',
    `Run ${runId} has ended (${statusOf(ended)}) at entry ${at}, so the fork cannot accept a message. Fork it at ` +
      `entry ${last} or earlier, or start a run that continues it (--continues ${runId}).`,
    { runId, last },
  );
}

type NewBlob = NonNullable<JournalRest['blobs']>[number];
type RefusedCommand = Refusal & { index: number };

/** Prepares commands for the run in `store`, as a submission to it would; see `prepareCommands`. */
export type CheckCommands = (
  commands: readonly RunCommand[],
  context: Context,
  where: { runId: string; store: CommandStore },
) => Promise<MakeCommand[] | RefusedCommand>;

/**
 * The events of a held fork with commands, what their large results are, and the state after them. The fork is released
 * at the end, unless the commands or `paused` say that it stays held.
 *
 * F1 The commands are refused or accepted as a submission to a run in the same state would be, before the fork exists.
 * F2 They act before anything follows from the last copied entry: the decision that it leads to sees all of them.
 * F3 A `pause`, `unpause` or `step` among them decides itself how the fork continues. The hold is already a pause: the
 *    first of these commands, if it is `pause`, adds nothing to it.
 * F4 A breakpoint that they set holds the fork like a run that arrives there.
 */
async function applyCommands(
  copy: Copy,
  commands: readonly RunCommand[],
  { store, host, checkCommands }: ForkParts,
  { paused, by }: ForkOptions,
): Promise<{ events: RunEvent[]; state: ChartState; blobs: NewBlob[] }> {
  if (checkCommands === undefined) throw new Error('A fork with commands needs what checks them.');
  const { started, release } = copy;
  const { runId } = started;
  const steers = commands.findIndex(({ type }) => type === 'pause' || type === 'unpause' || type === 'step');
  const isPause = release !== undefined && commands[steers]?.type === 'pause';
  const acting = commands.filter((_, index) => !isPause || index !== steers);
  const refused = ({ index: place, code, message, by: who }: RefusedCommand) => {
    const index = isPause && place >= steers ? place + 1 : place;
    return new EngineError(code, message, { index, ...omitUndefined({ by: who }) });
  };

  const entries = [started, ...copy.events].map((event, index): JournalEntry => ({ seq: index + 1, event }));
  const { known, blobs } = storeWith(store, runId, entries);
  const makes = await checkCommands(acting, copy.state.context, { runId, store: known });
  if ('accepted' in makes) throw refused(makes);
  const folded = foldCommands(copy.state, makes, host.now());
  if ('accepted' in folded) throw refused(folded);
  const { events: made, state } = folded;
  if (state === null) {
    const refusal = findRefusal(copy.state, made, entries);
    throw refusal === null ? new Error('The chart accepts commands that it refused.') : refused(refusal);
  }
  const events = [...copy.events, ...made];
  const isReleased = release !== undefined && !paused && steers < 0 && !hasEnded(state);
  if (!isReleased || isHeldByBreakpoint(state, commands, release.isOwn)) return { events, state, blobs };
  const continued = { type: release.type, at: host.now(), ...omitUndefined({ by }) };
  return { events: [...events, continued], state: applyEvent(state, continued), blobs };
}

/** Whether a breakpoint holds the fork, other than one that the original had passed at this entry. */
function isHeldByBreakpoint(
  { context: { next: action } }: ChartState,
  commands: readonly RunCommand[],
  isOwnPause: boolean,
): boolean {
  const isHit = action?.type === 'pause' && action.breakpoint !== undefined;
  return isHit && (isOwnPause || commands.some(({ type }) => type === 'breakpoints'));
}

/** The store as if it had the run with these entries already. Its blobs are kept here. */
function storeWith(store: Store, runId: string, entries: readonly JournalEntry[]) {
  const blobs: NewBlob[] = [];
  const known: CommandStore = {
    get: id => store.get(id),
    readBlob: (...range) => store.readBlob(...range),
    read: async (id, after = 0, page) =>
      id === runId ? entries.slice(after) : await store.read(id, after, page),
    putBlob: async (id, digest, text) => {
      if (id === runId) blobs.push({ digest, text });
      else await store.putBlob(id, digest, text);
    },
  };
  return { known, blobs };
}
