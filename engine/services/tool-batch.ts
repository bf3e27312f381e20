import type { Call } from '../../machines/context.ts';
import { isThrown } from '../../protocol/error.ts';
import { becameOnce, CallRun, ONCE_NOW, type ToolBatchParts } from './call-run.ts';
import { type Service, Stopped } from './service.ts';

/**
 * Returns the service that runs a batch of calls.
 *
 * B1 A call found `running` was started by an earlier process: it is first reported as interrupted (or in doubt), and
 *    then handled as the chart decides.
 *    A call whose function this process is known not to have called begins again with the same attempt.
 * B2 Before a tool's function is called, `tool.started` is durable and this process is known to drive the run. The
 *    first attempt of a call without side effects and approval starts while that commit is pending; if the commit
 *    conflicts and the run has moved on, the call is aborted and its result dropped.
 * B3 Every attempt of a call has the same key.
 * B4 A `once` call that may have happened and did not settle never gets a result from here: it is reconciled or becomes
 *    in doubt. A call is `once` if it was recorded as such or if its tool is declared so now.
 * B5 The outcome of an abandoned attempt is kept as evidence.
 * B6 In a fork that plays results, a call is executed only after a person decided to retry it. A call found `running`
 *    there, and never in doubt, was not executed.
 * B7 Events of other processes may arrive before a batch is durable and change its calls: a call runs only while the
 *    chart has it as running, and the batch continues until none of its calls is left.
 */
export function makeToolBatch(parts: ToolBatchParts): Service {
  return async scope => {
    const tools = await parts.connectTools();
    const isUnbegun = ({ callId, status, attempt }: Call) =>
      status === 'running' && scope.unbegun?.get(callId) === attempt;
    for (const call of scope.context().calls.filter(({ status }) => status === 'running')) {
      const { callId } = call;
      const run = new CallRun(scope, call, tools.get(call.name), parts);
      if (run.isPlayed) {
        await run.play();
        continue;
      }
      if (isUnbegun(call)) continue;
      const isOnceNow = becameOnce(call, tools.get(call.name));
      scope.report(
        isOnceNow ? { type: 'tool.doubted', callId, reason: ONCE_NOW } : { type: 'tool.interrupted', callId },
      );
    }
    const started = new Set<string>();
    let place = 0;
    const takeNext = () => {
      if (scope.stop.isStopped || scope.yielding.aborted) return undefined;
      const { calls } = scope.context();
      for (let checked = 0; checked < calls.length; checked += 1) {
        const call = calls[place % calls.length];
        place += 1;
        if (call === undefined || started.has(call.callId)) continue;
        if (awaitsStart(call)) return call;
        if (isUnbegun(call)) return { ...call, attempt: call.attempt - 1 };
      }
      return undefined;
    };
    const work = async () => {
      for (let call = takeNext(); call !== undefined; call = takeNext()) {
        started.add(call.callId);
        await settleCall(new CallRun(scope, call, tools.get(call.name), parts));
      }
    };
    const workers: Promise<void>[] = [];
    const count = Math.min(parts.concurrency, scope.context().batch);
    while (workers.length < count) workers.push(work());
    await Promise.all(workers);
  };
}

function awaitsStart({ status }: Call): boolean {
  return status === 'queued' || status === 'reconciling';
}

async function settleCall(run: CallRun): Promise<void> {
  try {
    await (run.call.status === 'reconciling' ? run.recover() : run.execute());
  } catch (error) {
    if (!isThrown(error, Stopped)) throw error;
  }
}
