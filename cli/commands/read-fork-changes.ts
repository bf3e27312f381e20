import { isDoubtedInFork } from '../../engine/run/forks/doubt-calls.ts';
import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import type { RunParams } from '../../protocol/config.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { type Answer, commandFor } from '../../protocol/open/answer.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import { parseJson } from '../options.ts';

/** What a fork does differently, as options of `agentchart fork`. */
export type ForkChanges = {
  setParam?: readonly string[];
  approve?: string;
  reject?: string;
  result?: string;
  input?: string;
  output?: string;
  text?: string;
};

/**
 * Reads the options. Returns a function that makes the commands of a fork, and reads the context of the original at that
 * entry where it needs it. Throws `input-invalid` for options that are not JSON or that need each other.
 */
export function readChanges(
  changes: ForkChanges,
  by: string,
): (readContext: () => Promise<Context>) => Promise<RunCommand[]> {
  const { approve, reject, result, text, setParam = [] } = changes;
  if (changes.input !== undefined && approve === undefined)
    throw new EngineError('input-invalid', '--input is the edited input of a call: give --approve CALL too.');
  if ((changes.output === undefined) !== (result === undefined))
    throw new EngineError('input-invalid', 'Give --result CALL and --output JSON together.');
  const params = Object.fromEntries(setParam.map(readParam));
  const input = changes.input === undefined ? {} : { input: parseJson(changes.input, '--input') };
  const output = changes.output === undefined ? null : parseJson(changes.output, '--output');
  const decide = (callId: string | undefined, answer: Answer) =>
    callId === undefined ? [] : [commandFor({ kind: 'approval', callId }, answer, { by })];
  return async readContext => [
    ...(setParam.length > 0 ? [{ type: 'set-params', params: params as RunParams, by } as const] : []),
    ...(text === undefined ? [] : [{ type: 'edit-turn', text, by } as const]),
    ...decide(approve, { type: 'approve', ...input }),
    ...decide(reject, { type: 'reject' }),
    ...(result === undefined ? [] : [giveResult(await readContext(), result, output, by)]),
  ];
}

function readParam(text: string): [string, JsonObject[string]] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), parseJson(text.slice(at + 1), '--set-param')];
  throw new EngineError('input-invalid', `--set-param must be NAME=JSON, got ${JSON.stringify(text)}.`);
}

/** A call that is in doubt in the fork is resolved; any other one is answered. */
function giveResult(context: Context, callId: string, output: JsonValue, by: string): RunCommand {
  const call = findCall(context, callId);
  return call !== undefined && isDoubtedInFork(call)
    ? commandFor({ kind: 'doubt', callId }, { type: 'happened', output }, { by })
    : commandFor({ kind: 'result', callId }, { type: 'result', output }, { by });
}
