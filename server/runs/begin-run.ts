import { byOf, type Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import type { StartOptions } from '../../agent/begin-journal.ts';
import type { Thread } from '../../agent/thread.ts';
import type { Run } from '../../engine/run/run.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { isOpen } from '../../protocol/store.ts';
import type { Admission } from '../access/admission.ts';
import type { Launch } from './served-agents.ts';

/**
 * Begins a run of a caller: calls `start` with what it adds to the options of `agent.start`. `thread`: the thread that it
 * starts in, whose open run takes the input instead of a new one.
 */
export type BeginRun = (
  caller: Caller,
  agent: Pick<Agent, 'name'>,
  start: (more: Pick<StartOptions, 'launch' | 'by'>) => Promise<Run>,
  thread?: Thread,
) => Promise<Run>;

export const beginFreely: BeginRun = async (caller, _agent, start) =>
  await start(omitUndefined({ by: byOf(caller) }));

/** Begins runs within the limits of a server, and records how later processes create their agents again. */
export function beginWithin({
  admission,
  launches,
}: {
  admission?: Admission | undefined;
  launches?: ReadonlyMap<string, Launch> | undefined;
}): BeginRun {
  return async (caller, { name }, start, thread) => {
    const latest = await thread?.latest();
    const isNew = latest === undefined || !isOpen(latest);
    const leave = (isNew ? await admission?.admit(caller) : undefined) ?? (() => {});
    try {
      const run = await start(omitUndefined({ launch: launches?.get(name), by: byOf(caller) }));
      run.settled().then(leave, leave);
      return run;
    } catch (error) {
      leave();
      throw error;
    }
  };
}
