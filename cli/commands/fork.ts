import { loadRunAt } from '../../engine/journal/load-run.ts';
import type { ForkModel } from '../../engine/run/forks/copy-journal.ts';
import { isDoubtedInFork } from '../../engine/run/forks/doubt-calls.ts';
import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import type { RunParams } from '../../protocol/config.ts';
import { EngineError } from '../../protocol/error.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { type Answer, commandFor } from '../../protocol/open/answer.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import { printEntries } from '../change-run.ts';
import { driveRun } from '../drive-run.ts';
import { EXIT } from '../exit-codes.ts';
import { absoluteModel, bareAgent, makeOwnAgent, readLaunch, recallLaunch, withAgent } from '../launch.ts';
import { type DriveOptions, parseJson, readEntryNumber, userName } from '../options.ts';
import { detectEarlyExit } from '../process-end.ts';
import { bold, cyan } from '../render/output.ts';
import { withRun } from '../store.ts';

type ForkOptions = DriveOptions &
  ForkChanges & {
    at: string;
    drive: boolean;
    message?: string;
    paused?: boolean;
    replayTools?: boolean;
    model?: string;
  };

/** Implements `agentchart fork`. Shows all events of the fork as JSON, but only new ones as text. */
export async function fork(id: string, options: ForkOptions): Promise<number> {
  const at = readEntryNumber('--at', options.at);
  if (options.message?.trim() === '') throw new EngineError('input-invalid', '--message must not be empty.');
  const { message, paused, replayTools, by = userName() } = options;
  const changesFor = readChanges(options, by);
  const model = options.model === undefined ? undefined : await nameModel(options.model);
  const named = omitUndefined({ model: model?.launch });
  return await detectEarlyExit(() =>
    withRun(id, options, async ({ record, ...opened }) => {
      const { store, output, commands } = opened;
      const agent = options.drive
        ? await makeOwnAgent(
            record,
            store,
            { ...(await recallLaunch(store, record.runId)), ...named },
            { ...readLaunch(options.agent), ...named },
          )
        : bareAgent(record, store);
      return await withAgent(agent, output, async () => {
        const changes = await changesFor(
          async () => (await loadRunAt(store, record.runId, at)).state.context,
        );
        const how = { message, paused, replayTools, model, commands: changes, by };
        const run = await (await agent.open(record.runId)).fork({ at, ...how });
        if (!output.json) output.line(bold(run.id), `  fork of ${record.runId} at entry ${at}`);
        const begin = output.json ? null : run.durable;
        if (options.drive) return await driveRun({ ...opened, run, agent, begin, options });
        if (output.json) await printEntries(store, run.id, output);
        else output.line('To resume: ', cyan(commands.of('resume', run.id)));
        return EXIT.done;
      });
    }),
  );
}

async function nameModel(text: string): Promise<ForkModel> {
  const launch = absoluteModel(text);
  const { modelFromEnv } = await import('../../adapters/model-from-env.ts');
  const { provider, model } = modelFromEnv(launch);
  return { launch, provider, model };
}

type ForkChanges = {
  setParam?: readonly string[];
  approve?: string;
  reject?: string;
  result?: string;
  input?: string;
  output?: string;
  text?: string;
};

/** Returns what makes the commands; it reads the original's context at that entry if it needs it. */
function readChanges(
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
