import type { RunCommand } from '../../engine/run/run-command.ts';
import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import type { RunParams } from '../../protocol/config.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { omitUndefined } from '../../protocol/json.ts';
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

/** Throws `input-invalid` for options that need each other. */
export function assertChanges({ approve, result, input, output }: ForkChanges): void {
  if (input !== undefined && approve === undefined)
    throw new EngineError('input-invalid', '--input is the edited input of a call: give --approve CALL too.');
  if ((output === undefined) === (result === undefined)) return;
  throw new EngineError('input-invalid', 'Give --result CALL and --output JSON together.');
}

/** Returns the changes as commands for a new fork with this context. Throws `input-invalid`. */
export function readChanges(changes: ForkChanges, context: Context, by: string): RunCommand[] {
  const { approve, reject, result, input, output, text, setParam = [] } = changes;
  const params = Object.fromEntries(setParam.map(readParam));
  return [
    ...(setParam.length > 0 ? [{ type: 'set-params', params: params as RunParams, by } as const] : []),
    ...(text === undefined ? [] : [{ type: 'edit-turn', text, by } as const]),
    ...(approve === undefined
      ? []
      : [{ type: 'approve', callId: approve, by, ...readInput(input) } as const]),
    ...(reject === undefined ? [] : [{ type: 'reject', callId: reject, by } as const]),
    ...(result === undefined ? [] : [giveResult(context, result, output ?? '', by)]),
  ];
}

function readInput(text: string | undefined) {
  return omitUndefined({ input: text === undefined ? undefined : parseJson(text, '--input') });
}

function readParam(text: string): [string, JsonObject[string]] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), parseJson(text.slice(at + 1), '--set-param')];
  throw new EngineError('input-invalid', `--set-param must be NAME=JSON, got ${JSON.stringify(text)}.`);
}

/** A call that had started before the fork is in doubt there; any other one is answered. */
function giveResult(context: Context, callId: string, text: string, by: string): RunCommand {
  const output = parseJson(text, '--output');
  return findCall(context, callId)?.status === 'doubted'
    ? { type: 'resolve', callId, happened: true, output, by }
    : { type: 'answer', callId, output, by };
}
