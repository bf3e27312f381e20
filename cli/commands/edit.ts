import { latestReply } from '../../machines/fold.ts';
import { EngineError, invalidInput } from '../../protocol/error.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Action, GivenTo } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { parseJson, readPiped } from '../options.ts';
import { changeRun, readRun } from './change.ts';

export const edit: Action<'edit'> = async given => {
  const { show, call: callId, text, calls, turn, input, digest, ...options } = given;
  if (show === true) return await showEditable(given);
  if (callId !== undefined) {
    if (text !== undefined || calls !== undefined || turn !== undefined)
      throw invalidInput('--text, --calls and --turn edit the reply: leave out the call.');
    const edited = input === undefined ? await readStdinJson('the input') : input;
    return await changeRun(options, (run, sender) =>
      run.editCall(callId, { input: edited, ...sender, ...omitUndefined({ digest }) }),
    );
  }
  if (input !== undefined || digest !== undefined)
    throw invalidInput('--input and --digest need the id of a call: edit RUN CALL.');
  const hasOptions = text !== undefined || calls !== undefined;
  const reply = readReply(hasOptions ? { text, calls } : await readStdinJson('{ "text", "calls" }'));
  return await changeRun(options, (run, sender) =>
    run.editTurn({ ...reply, ...omitUndefined({ turn }), ...sender }),
  );
};

async function readStdinJson(what: string): Promise<JsonValue> {
  const text = await readPiped();
  if (text !== '') return parseJson(text, 'stdin');
  throw invalidInput(
    `Nothing to edit. Give --text, --calls or, for a call, --input; or ${what} as JSON on stdin. --show prints what there is.`,
  );
}

type EditedCall = { callId?: string; name: string; input: JsonValue };

const isCall = (call: unknown): call is EditedCall =>
  isJsonObject(call) &&
  typeof call.name === 'string' &&
  call.input !== undefined &&
  (call.callId === undefined || typeof call.callId === 'string');

function readReply(given: unknown): { text?: string; calls?: EditedCall[] } {
  const { text, calls } = isJsonObject(given) ? given : {};
  const isText = text === undefined || typeof text === 'string';
  const areCalls = calls === undefined || (Array.isArray(calls) && calls.every(isCall));
  if (isText && areCalls && (text !== undefined || calls !== undefined))
    return omitUndefined({ text, calls });
  throw invalidInput(
    'Expected { "text"?: "…", "calls"?: [{ "callId"?, "name", "input" }] } with at least one of the two. --show prints the current reply in this form.',
  );
}

/** Prints the latest reply, or the input of a call, as JSON that `edit` reads from stdin. */
function showEditable({ call: callId, ...options }: GivenTo<'edit'>): Promise<number> {
  return readRun(options, ({ context }, output) => {
    const reply = latestReply(context);
    const call = reply.calls.find(one => one.callId === callId);
    if (callId !== undefined && call === undefined)
      throw new EngineError(
        'call-unknown',
        `The latest turn has no call ${callId}. It has: ${reply.calls.map(one => one.callId).join(', ') || 'none'}.`,
      );
    output.data(call === undefined ? reply : call.input);
    return EXIT.done;
  });
}
