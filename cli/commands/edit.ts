import { latestReply } from '../../machines/fold.ts';
import { EngineError } from '../../protocol/error.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { changeRun, readRun } from '../change-run.ts';
import { EXIT } from '../exit-codes.ts';
import { type DriveOptions, parseJson, readNumber, readPiped, type ShowOptions } from '../options.ts';

type EditOptions = DriveOptions & {
  show?: boolean;
  text?: string;
  calls?: string;
  turn?: string;
  input?: string;
  digest?: string;
};

/** Implements `agentchart edit`: prints what can be edited, edits the latest reply, or the input of a call. */
export async function edit(id: string, callId: string | undefined, options: EditOptions): Promise<number> {
  if (options.show === true) return await showEditable(id, callId, options);
  if (callId !== undefined) return await editCall(id, callId, options);
  const { text, calls, turn, input, digest } = options;
  if (input !== undefined || digest !== undefined)
    throw new EngineError('input-invalid', '--input and --digest need the id of a call: edit RUN CALL.');
  const given = text === undefined && calls === undefined ? await readStdinJson('{ "text", "calls" }') : {};
  const changed = omitUndefined({
    text: text ?? (isJsonObject(given) ? given.text : undefined),
    calls: calls === undefined ? isJsonObject(given) && given.calls : parseJson(calls, '--calls'),
  });
  const edited = readReply(changed);
  const number = turn === undefined ? {} : { turn: readNumber('--turn', turn) };
  return await changeRun(id, options, (run, by) => run.editTurn({ ...edited, ...number, by }));
}

async function editCall(id: string, callId: string, options: EditOptions): Promise<number> {
  const { text, calls, turn, input, digest } = options;
  if (text !== undefined || calls !== undefined || turn !== undefined)
    throw new EngineError('input-invalid', '--text, --calls and --turn edit the reply: leave out the call.');
  const edited = input === undefined ? await readStdinJson('the input') : parseJson(input, '--input');
  return await changeRun(id, options, (run, by) =>
    run.editCall(callId, { input: edited, by, ...omitUndefined({ digest }) }),
  );
}

async function readStdinJson(what: string): Promise<JsonValue> {
  const text = await readPiped();
  if (text !== '') return parseJson(text, 'stdin');
  throw new EngineError(
    'input-invalid',
    `Nothing to edit. Give --text, --calls or, for a call, --input; or ${what} as JSON on stdin. --show prints what there is.`,
  );
}

type EditedCall = { callId?: string; name: string; input: JsonValue };

function readReply({ text, calls }: { text?: unknown; calls?: unknown }): {
  text?: string;
  calls?: EditedCall[];
} {
  const isCall = (call: JsonValue): boolean =>
    isJsonObject(call) &&
    typeof call.name === 'string' &&
    call.input !== undefined &&
    (call.callId === undefined || typeof call.callId === 'string');
  const hasCalls = calls !== undefined && calls !== false;
  const isText = text === undefined || typeof text === 'string';
  if (
    !isText ||
    (hasCalls && !(Array.isArray(calls) && calls.every(isCall))) ||
    (text === undefined && !hasCalls)
  )
    throw new EngineError(
      'input-invalid',
      'Expected { "text"?: "…", "calls"?: [{ "callId"?, "name", "input" }] } with at least one of the two. --show prints the current reply in this form.',
    );
  return { ...omitUndefined({ text }), ...(hasCalls && { calls: calls as EditedCall[] }) };
}

/** Prints the latest reply, or the input of a call, as JSON that `edit` reads from stdin. */
async function showEditable(id: string, callId: string | undefined, options: ShowOptions): Promise<number> {
  return await readRun(id, options, ({ context }, output) => {
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
