import { byOf, type Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import type { StartOptions } from '../../agent/begin-journal.ts';
import type { Run } from '../../engine/run/run.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Admission } from '../access/admission.ts';
import type { Launch } from './served-agents.ts';

/** Begins a run of a caller: calls `start` with what it adds to the options of `agent.start`. */
export type BeginRun = (
  caller: Caller,
  agent: Pick<Agent, 'name'>,
  start: (more: Pick<StartOptions, 'launch' | 'by'>) => Promise<Run>,
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
  return async (caller, { name }, start) => {
    const leave = (await admission?.admit(caller)) ?? (() => {});
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
