import type { Run } from '../../engine/run/run.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { commandFor } from '../../protocol/open/answer.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import { ResponsesError } from './api-error.ts';
import type { CallAnswer } from './request/plan.ts';
import { RESPONSES } from './wire/response-spec.ts';

const by = RESPONSES;

/**
 * Submits a request's note, decisions, results and messages to a run, in one append: no crash leaves a request without
 * its effects. A command that the run refuses because
 * the call was already decided is left out, and the rest is submitted again. After each refusal, `onRefusal` may throw:
 * it does so if a call was decided differently. Throws a `ResponsesError` if the run refuses the messages.
 */
export async function submitCommands(
  run: Run,
  request: {
    /** What `readNote` reads. It is not appended if the run refuses all commands. */
    note: JsonValue;
    callAnswers: readonly CallAnswer[];
    messages: readonly Item[];
    limits: { toolCalls: number; turns: number };
  },
  onRefusal: () => Promise<void>,
): Promise<void> {
  const { note, callAnswers, messages, limits } = request;
  const noted: RunCommand = { type: 'note', note, by };
  let left: RunCommand[] = [
    { type: 'set-params', params: { limits }, by },
    ...callAnswers.map(({ open, answer }) => commandFor(open, answer, { by })),
    ...(messages.length === 0 ? [] : [{ type: 'send', message: messages, by } as const]),
  ];
  while (left.length > 0) {
    const hasSeveral = left.filter(({ type }) => type !== 'set-params').length > 1;
    const commands = [noted, ...(hasSeveral && !run.context.paused ? pauseAround(left) : left)];
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

/** Pauses the run around the commands, so that it acts only after all of them. Not used if a person paused the run. */
function pauseAround(commands: readonly RunCommand[]): readonly RunCommand[] {
  return [{ type: 'pause', by }, ...commands, { type: 'unpause', by }];
}
