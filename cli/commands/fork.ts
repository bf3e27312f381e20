import { loadRunAt } from '../../engine/journal/load-run.ts';
import type { ForkModel } from '../../engine/run/forks/copy-journal.ts';
import { isDoubtedInFork } from '../../engine/run/forks/copy-journal.ts';
import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import type { RunParams } from '../../protocol/config.ts';
import { invalidInput } from '../../protocol/error.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { type Answer, type AnswerCommand, commandFor } from '../../protocol/open/answer.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { Action, GivenTo } from '../command-table.ts';
import { driveRun } from '../drive-run.ts';
import { EXIT } from '../exit-codes.ts';
import { absoluteModel, bareAgent, makeOwnAgent, readLaunch, recallLaunch, withAgent } from '../launch.ts';
import { parseJson, readSender, type Sender } from '../options.ts';
import { detectEarlyExit } from '../process-end.ts';
import { bold, cyan } from '../render/output.ts';
import { withRun } from '../store.ts';
import { printEntries } from './change.ts';

/** Shows all events of the fork as JSON, but only new ones as text. */
export const forkCommand: Action<'fork'> = async options => {
  const { at, message, paused, replayTools } = options;
  const sender = readSender(options);
  if (message?.trim() === '') throw invalidInput('--message must not be empty.');
  const params = readParams(options);
  const model = options.model === undefined ? undefined : await nameModel(options.model);
  const named = omitUndefined({ model: model?.launch });
  return await detectEarlyExit(() =>
    withRun(options, async ({ record, ...opened }) => {
      const { store, output, commands } = opened;
      const { runId } = record;
      const agent = options.drive
        ? await makeOwnAgent(
            record,
            store,
            { ...(await recallLaunch(store, runId)), ...named },
            { ...readLaunch(options.agent), ...named },
          )
        : bareAgent(record, store);
      return await withAgent(agent, output, async () => {
        const context = async () => (await loadRunAt(store, runId, at)).state.context;
        const changes = await makeChanges(options, params, sender, context);
        const how = { message, paused, replayTools, model, commands: changes, ...sender };
        const run = await (await agent.open(runId)).fork({ at, ...how });
        if (!output.json) output.line(bold(run.id), `  fork of ${runId} at entry ${at}`);
        const begin = output.json ? null : run.durable;
        if (options.drive) return await driveRun({ ...opened, run, agent, begin, options });
        if (output.json) await printEntries(store, run.id, output);
        else output.line('To resume: ', cyan(commands.of('resume', run.id)));
        return EXIT.done;
      });
    }),
  );
};

async function nameModel(text: string): Promise<ForkModel> {
  const launch = absoluteModel(text);
  const { modelFromEnv } = await import('../../adapters/model-from-env.ts');
  const { provider, model, capabilities } = modelFromEnv(launch);
  return { launch, provider, model, usage: capabilities.usage };
}

/** The parameters of `--set-param`, `undefined` without one. Refuses options that need another one. */
function readParams({ input, output, approve, result, setParam }: GivenTo<'fork'>): RunParams | undefined {
  if (input !== undefined && approve === undefined)
    throw invalidInput('--input is the edited input of a call: give --approve CALL too.');
  if ((output === undefined) !== (result === undefined))
    throw invalidInput('Give --result CALL and --output JSON together.');
  return setParam && (Object.fromEntries(setParam.map(readParam)) as RunParams);
}

/** The commands that make the fork different. Reads the original's context at the entry only if it needs it. */
async function makeChanges(
  { approve, reject, result, text, input, output }: GivenTo<'fork'>,
  params: RunParams | undefined,
  sender: Sender,
  readContext: () => Promise<Context>,
): Promise<RunCommand[]> {
  const decide = (callId: string, answer: Answer) => ({
    ...commandFor({ kind: 'approval', callId }, answer),
    ...sender,
  });
  const changes: RunCommand[] = [];
  if (params !== undefined) changes.push({ type: 'set-params', params, ...sender });
  if (text !== undefined) changes.push({ type: 'edit-turn', text, ...sender });
  if (approve !== undefined) changes.push(decide(approve, { type: 'approve', ...omitUndefined({ input }) }));
  if (reject !== undefined) changes.push(decide(reject, { type: 'reject' }));
  if (result !== undefined && output !== undefined)
    changes.push({ ...giveResult(await readContext(), result, output), ...sender });
  return changes;
}

function readParam(text: string): [string, JsonObject[string]] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), parseJson(text.slice(at + 1), '--set-param')];
  throw invalidInput(`--set-param must be NAME=JSON, got ${JSON.stringify(text)}.`);
}

/** A call that is in doubt in the fork is resolved; any other one is answered. */
function giveResult(context: Context, callId: string, output: JsonValue): AnswerCommand {
  const call = findCall(context, callId);
  return call !== undefined && isDoubtedInFork(call)
    ? commandFor({ kind: 'doubt', callId }, { type: 'happened', output })
    : commandFor({ kind: 'result', callId }, { type: 'result', output });
}
