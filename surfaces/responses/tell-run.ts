import type { Run } from '../../engine/run.ts';
import type { Item } from '../../protocol/item.ts';
import { ResponsesError } from './api-error.ts';
import type { Verdict } from './plan.ts';
import { RESPONSES } from './response-spec.ts';

/** What was decided by somebody else meanwhile stays as it was decided. */
export async function tellRun(
  run: Run,
  said: {
    verdicts: readonly Verdict[];
    messages: readonly Item[];
    limits: { toolCalls: number; turns: number };
  },
): Promise<void> {
  const { verdicts, messages, limits } = said;
  const by = RESPONSES;
  await run.setParams({ limits }, { by });
  // Nothing is spent on a part of what was said.
  const inParts = verdicts.length + Math.min(messages.length, 1) > 1;
  if (inParts) await run.pause({ by });
  for (const verdict of verdicts) await tellVerdict(run, verdict);
  const sent = messages.length === 0 ? undefined : await run.send(messages, { by });
  if (inParts) await run.unpause({ by });
  if (sent?.accepted === false)
    throw new ResponsesError(sent.message, { status: 409, code: 'run_moved_on', param: 'input' });
}

async function tellVerdict(run: Run, verdict: Verdict): Promise<void> {
  const by = RESPONSES;
  const { callId } = verdict;
  if (verdict.type === 'output') await run.answer(callId, { output: verdict.output, by });
  else if (verdict.approve) await run.approve(callId, { by });
  else await run.reject(callId, { by, ...(verdict.reason === undefined ? {} : { reason: verdict.reason }) });
}
