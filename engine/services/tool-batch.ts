import type { Call } from '../../machines/context.ts';
import { isThrown } from '../../protocol/error.ts';
import { becameOnce, CallRun, ONCE_NOW, type ToolBatchParts } from './call-run.ts';
import { type Service, Stopped } from './service.ts';

/**
 * One service for a whole batch of calls.
 *
 * B1 A call found `running` was started by a process that is gone: it is reported interrupted first,
 *    and what the chart then makes of it is done.
 * B2 `tool.started` is durable, and the process known to drive the run, before a tool's function is called. The
 *    first attempt of a call without side effects that nobody had to allow starts while that commit is on its way;
 *    if the commit conflicts, the call is aborted where the run has moved on, and its result is dropped.
 * B3 Every attempt of a call has the same key.
 * B4 A `once` call that may have acted and did not settle is never a result: it is reconciled or in doubt.
 *    `once` is what was recorded so, and what its tool has become since.
 * B5 What a tool gives after its call was given up is kept as evidence.
 * B6 Somebody else's events may come in before a batch is durable, and change what it owes: a call is
 *    run only while the chart says that it runs, and the batch goes on until it owes nothing.
 */

export function makeToolBatch(parts: ToolBatchParts): Service {
  return async scope => {
    const tools = await parts.connectTools();
    for (const call of scope.context().calls.filter(({ status }) => status === 'running')) {
      const { callId } = call;
      const isOnceNow = becameOnce(call, tools.get(call.name));
      scope.report(
        isOnceNow ? { type: 'tool.doubted', callId, reason: ONCE_NOW } : { type: 'tool.interrupted', callId },
      );
    }
    const begun = new Set<string>();
    let place = 0;
    const takeNext = () => {
      if (scope.signal.aborted) return undefined;
      const { calls } = scope.context();
      for (let looked = 0; looked < calls.length; looked += 1) {
        const call = calls[place % calls.length];
        place += 1;
        if (call !== undefined && isOwed(call) && !begun.has(call.callId)) return call;
      }
      return undefined;
    };
    const work = async () => {
      for (let call = takeNext(); call !== undefined; call = takeNext()) {
        begun.add(call.callId);
        await settleCall(new CallRun(scope, call, tools.get(call.name), parts));
      }
    };
    const workers = Math.min(parts.concurrency, scope.context().batch);
    await Promise.all(Array.from({ length: workers }, work));
  };
}

function isOwed({ status }: Call): boolean {
  return status === 'queued' || status === 'reconciling';
}

async function settleCall(run: CallRun): Promise<void> {
  try {
    await (run.call.status === 'reconciling' ? run.recover() : run.execute());
  } catch (error) {
    if (!isThrown(error, Stopped)) throw error;
  }
}
