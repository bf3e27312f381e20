import type { Run } from '../../engine/run/run.ts';
import type { Context } from '../../machines/context.ts';
import type { JsonCall } from '../../protocol/run-view.ts';
import type { RunStatus } from '../../protocol/store.ts';
import { commandsOf, type ObservedRun, type RunSnapshot, SnapshotStore } from './run-snapshot.ts';

/** For pages that contain the engine: tests, desktop apps, and server-side rendering. */
export function localRun(run: Run): ObservedRun<Context> {
  const store: SnapshotStore<Context> = new SnapshotStore(run.id, () => follow(run, store));
  store.change(describe(run));
  const { getSnapshot, subscribe } = store;
  return { getSnapshot, subscribe, ...commandsOf(command => run.submit([command])) };
}

function follow(run: Run, store: SnapshotStore<Context>): () => void {
  const story = run.story({ after: run.durable.seq, follow: true });
  const describeNow = async () => store.change({ ...describe(run), ...(await describeRest(run)) });
  const read = async (): Promise<void> => {
    await describeNow();
    let seq = 0;
    for await (const event of story) {
      store.tell(event);
      if (!('seq' in event) || event.seq === seq) continue;
      seq = event.seq;
      await describeNow();
    }
  };
  read().catch(error => store.change({ error: { code: 'internal', message: String(error) } }));
  return () => void story.return(undefined);
}

function describe(run: Run): Partial<RunSnapshot<Context>> {
  const { state } = run.durable;
  const { context } = state;
  const calls = unsettledCalls(context);
  return { state: pathOf(state.value), status: statusOf(run), context, calls, reviews: [] };
}

async function describeRest(run: Run): Promise<Partial<RunSnapshot<Context>>> {
  if (statusOf(run) === 'running') return {};
  const settled = await run.settled();
  // A command was accepted in the meantime: what was read before does not count.
  if (settled.status !== statusOf(run)) return describe(run);
  if (settled.status === 'finished') return { text: settled.text };
  if (settled.status === 'failed') return { error: settled.error };
  if (settled.status !== 'waiting') return {};
  const { open, reviews } = settled;
  return { calls: open.filter(one => 'callId' in one && one.kind !== 'review'), reviews };
}

function statusOf({ durable: { state } }: Run): RunStatus {
  if (state.status !== 'active') return state.value as RunStatus;
  return state.hasTag('rest') && state.context.cancelling === null ? 'waiting' : 'running';
}

function pathOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return Object.entries(value as Record<string, string>)
    .flat()
    .join('.');
}

/** Like `listUnsettled`, which would bring the engine into every page. */
function unsettledCalls({ runId, calls }: Context): JsonCall[] {
  return calls.flatMap(({ callId, name, input, digest, sideEffect, status, childRunId, ...call }) => {
    if (status === 'settled') return [];
    const { reason = call.doubt, expiresAt } = call;
    return [
      {
        callId,
        runId: childRunId ?? runId,
        name,
        input,
        digest,
        sideEffect,
        status,
        ...(childRunId !== undefined && { waitsFor: childRunId }),
        ...(reason !== undefined && { reason }),
        ...(expiresAt !== undefined && { expiresAt }),
      },
    ];
  });
}
