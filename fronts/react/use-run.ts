import { useMemo, useSyncExternalStore } from 'react';
import type { Run } from '../../engine/run/run.ts';
import type { Context } from '../../machines/context.ts';
import type { RunView } from '../../protocol/run-view.ts';
import { localRun } from './local-run.ts';
import { remoteRun } from './remote-run.ts';
import {
  type ObservedRun,
  type RemoteRunOptions,
  type RunCommands,
  type RunSnapshot,
  refuseOtherOptions,
} from './run-snapshot.ts';

/**
 * Returns a run's snapshot and its commands, and renders the component again when the run changes. `run` is the URL of
 * a run (`…/runs/RUN`), the object that `remoteRun` returned (so that components share a connection), or a `Run` of
 * this process.
 *
 * @example
 * const { state, text, calls, approve } = useRun(`/runs/${runId}`);
 */
export function useRun(
  run: string | ObservedRun<RunView>,
  options?: RemoteRunOptions,
): RunSnapshot<RunView> & RunCommands;
export function useRun(run: Run | ObservedRun<Context>): RunSnapshot<Context> & RunCommands;
export function useRun(
  run: string | Run | ObservedRun<RunView> | ObservedRun<Context>,
  options: RemoteRunOptions = {},
): RunSnapshot & RunCommands {
  refuseOtherOptions('useRun', options);
  const { token, fetch } = options;
  const source = useMemo(() => observe(run, { token, ...(fetch && { fetch }) }), [run, token, fetch]);
  const snapshot = useSyncExternalStore(source.subscribe, source.getSnapshot, source.getSnapshot);
  return useMemo(() => {
    const { getSnapshot: _, subscribe: __, ...commands } = source;
    return { ...snapshot, ...commands };
  }, [snapshot, source]);
}

function observe(
  run: string | Run | ObservedRun<RunView> | ObservedRun<Context>,
  options: RemoteRunOptions,
): ObservedRun {
  if (typeof run === 'string') return remoteRun(run, options);
  return 'getSnapshot' in run ? run : localRun(run);
}
