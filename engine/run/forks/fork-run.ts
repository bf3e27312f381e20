import { hasEnded, statusOf } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import type { Source, Store } from '../../../protocol/store.ts';
import type { Host } from '../../host/host.ts';
import { beginFold, foldEntry, type LoadedRun, standingOf } from '../../journal/load-run.ts';
import { readFromStart, readUnredacted, type WholeJournal } from '../../journal/read-journal.ts';
import { findFault, sendMessage, stampCommand } from '../../log/command.ts';
import type { RequestRecord } from '../../log/request-ids.ts';
import { waitsForOriginal } from '../../sub-agents/sub-agent-runs.ts';
import { assertReadable } from '../../versions/version-mismatch.ts';
import { type Copy, copyJournal, type ForkModel } from './copy-journal.ts';
import { applyEvent } from './doubt-calls.ts';
import { applyCommands, type CheckCommands } from './fork-commands.ts';

/** How a fork begins. */
export type ForkOptions = {
  /** The id of the fork. Default: a new random one. */
  runId?: string | undefined;
  /** Who forks. */
  by?: string | undefined;
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
  /** The model of the fork. Default: that of the run. */
  model?: ForkModel | undefined;
  /** The request that forks, so that it is recognized when it comes again. */
  request?: RequestRecord | undefined;
};

/** `checkCommands` is needed for a fork with commands. */
type ForkParts = { store: Store; host: Host; checkCommands?: CheckCommands };

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
 * invalid; `run-ended` for a message to a fork that has ended; `refused` for a run that came from another store, and if
 * the input of a call that still has to run was redacted; `run-unknown`.
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
  { store, host, checkCommands }: ForkParts,
  source: Source,
  at: number,
  { runId: forkId = host.newId('run'), commands = [], message, ...options }: ForkOptions,
): Promise<{ runId: string; loaded: LoadedRun }> {
  const { runId } = source;
  const { by, paused = false, replayTools = false, model, request } = options;
  const entries = await readFromStart(store, runId, 'Fork');
  assertReadable(runId, entries[0].event);
  const decided = commands.flatMap(command => ('callId' in command ? [command.callId] : []));
  const isHeld = paused || commands.length > 0;
  const copy = copyJournal(entries, { forkId, at, isHeld, replayTools, model, request, decided });
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
      : await applyCommands(begun, commands, { store, host, checkCommands, paused, by });
  const wake = waitsForOriginal(state.context) ? { wakeAt: host.now() } : {};
  host.reach?.('create.before');
  const { seq } = await store.create(copy.started, undefined, {
    events,
    ...standingOf(state),
    ...wake,
    source,
    ...(blobs.length > 0 && { blobs }),
  });
  host.reach?.('create.after');
  return { runId: forkId, loaded: { state, seq, redactions: 0, snapshotSeq: 0 } };
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
