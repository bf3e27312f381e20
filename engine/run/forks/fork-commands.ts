import type { Context } from '../../../machines/context.ts';
import { hasEnded } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import type { JournalRest, Store } from '../../../protocol/store.ts';
import type { Host } from '../../host/host.ts';
import type { CommandStore } from '../../journal/run-blobs.ts';
import { foldCommands, type MakeCommand } from '../../log/command.ts';
import { findRefusal, type Refusal } from '../../log/refusal.ts';
import type { Copy } from './copy-journal.ts';
import { applyEvent } from './doubt-calls.ts';

type NewBlob = NonNullable<JournalRest['blobs']>[number];
type RefusedCommand = Refusal & { index: number };

/** Prepares commands for the run in `store`, as a submission to it would; see `prepareCommands`. */
export type CheckCommands = (
  commands: readonly RunCommand[],
  context: Context,
  where: { runId: string; store: CommandStore },
) => Promise<MakeCommand[] | RefusedCommand>;

type Options = {
  store: Store;
  host: Host;
  checkCommands: CheckCommands | undefined;
  paused: boolean;
  by: string | undefined;
};

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
export async function applyCommands(
  copy: Copy,
  commands: readonly RunCommand[],
  { store, host, checkCommands, paused, by }: Options,
): Promise<{ events: RunEvent[]; state: ChartState; blobs: NewBlob[] }> {
  if (checkCommands === undefined) throw new Error('A fork with commands needs what checks them.');
  const { started, release } = copy;
  const { runId } = started;
  const steers = commands.findIndex(({ type }) => type === 'pause' || type === 'unpause' || type === 'step');
  const isPause = release !== undefined && commands[steers]?.type === 'pause';
  const acting = commands.filter((_, index) => !isPause || index !== steers);
  const refused = ({ index, ...refusal }: RefusedCommand) =>
    describeRefusal(refusal, isPause && index >= steers ? index + 1 : index);

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

function describeRefusal({ code, message, by }: Refusal, index: number): EngineError {
  return new EngineError(code, message, { index, ...omitUndefined({ by }) });
}
