import type { RunCommand } from '../../engine/run/command.ts';
import type { Run } from '../../engine/run/run.ts';
import type { Item } from '../../protocol/item.ts';
import { ResponsesError } from './api-error.ts';
import type { Verdict } from './request/plan.ts';
import { OUTCOME_UNKNOWN, RESPONSES } from './wire/response-spec.ts';

const by = RESPONSES;

/**
 * Tells a run all that a request says, in one append. What another person decided meanwhile, in the same way,
 * stays as they decided it, and the rest is said without it. When the run does not take all of it, `onRefusal`
 * looks whether a decision stands otherwise, and throws then, with nothing said. Throws a `ResponsesError`
 * when the run does not take the messages.
 */
export async function submitCommands(
  run: Run,
  said: {
    verdicts: readonly Verdict[];
    messages: readonly Item[];
    limits: { toolCalls: number; turns: number };
  },
  onRefusal: () => Promise<void>,
): Promise<void> {
  const { verdicts, messages, limits } = said;
  let left: RunCommand[] = [
    { type: 'set-params', params: { limits }, by },
    ...verdicts.map(describeVerdict),
    ...(messages.length === 0 ? [] : [{ type: 'send', message: messages, by } as const]),
  ];
  while (left.length > 0) {
    const isInParts = left.filter(({ type }) => type !== 'set-params').length > 1;
    const commands = isInParts && !run.context.paused ? together(left) : left;
    const result = await run.submit(commands);
    if (result.accepted) return;
    await onRefusal();
    const refused = commands[result.index];
    const hasEnded = result.code === 'run-ended';
    if (refused?.type === 'send' || (hasEnded && messages.length > 0))
      throw new ResponsesError(result.message, { status: 409, code: 'run_moved_on', param: 'input' });
    if (hasEnded) return;
    left = left.filter(command => command !== refused);
  }
}

/** The run goes on once all is said: nothing is spent on a part of it. A pause of somebody else's stays. */
function together(commands: readonly RunCommand[]): readonly RunCommand[] {
  return [{ type: 'pause', by }, ...commands, { type: 'unpause', by }];
}

function describeVerdict(verdict: Verdict): RunCommand {
  const { callId } = verdict;
  if (verdict.type === 'unknown') return { type: 'resolve', callId, failed: OUTCOME_UNKNOWN, by };
  if (verdict.type === 'output') return { type: 'answer', callId, output: verdict.output, by };
  if (verdict.approve) return { type: 'approve', callId, by };
  return { type: 'reject', callId, by, ...(verdict.reason === undefined ? {} : { reason: verdict.reason }) };
}
