// server/runs/commands: the routes that change a run: messages, decisions, edits, forks; once per
// `requestId`.

import { createHash } from 'node:crypto';
import type { Context } from 'hono';
import * as z from 'zod';
import { type Caller, personOf, signCommand } from '../../../access/caller.ts';
import { mayCommand } from '../../../access/role.ts';
import { recordRequest } from '../../../engine/log/request-ids.ts';
import type { Run } from '../../../engine/run/run.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import type { RunRecord } from '../../../protocol/store.ts';
import { forbidden } from '../../access/authorize.ts';
import { ApiError, describeError } from '../../error-envelope.ts';
import { fields, optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { type RouteParts, reportStranding, viewHeld } from '../route-parts.ts';
import { assertSees, findRecord, type Hold, type RunRegistry, whileHeld } from '../run-registry.ts';
import { strandingSchema } from '../run-view.ts';
import { type Creation, wasCreated } from './repeated-commands.ts';
import { byBody, commandBody, commandsBody, needsAgent, sendBody } from './request-bodies.ts';

const MOST_RUNS = 200;

const AT_ONCE = 8;

export const bulkBody = fields({
  runs: z.array(z.string().min(1).max(1_000)).min(1).max(MOST_RUNS).meta({ description: 'Ids of runs.' }),
  command: z.union([fields({ type: z.literal('resume'), ...byBody.shape }), commandBody]).meta({
    description:
      'As in `POST /runs/{id}/commands`, or { type: "resume" }. It is applied to each run separately.',
  }),
});

export const bulkSchema = z.object({
  results: z.array(
    z.object({
      runId: z.string(),
      accepted: z.boolean(),
      code: z.exactOptional(z.string()),
      message: z.exactOptional(z.string()),
      by: optional(
        z.union([z.string(), z.array(z.string())]),
        'Who made the earlier decision, or the groups that may decide.',
      ),
      stranded: z.exactOptional(strandingSchema),
    }),
  ),
});

type Submission = {
  runId: string;
  commands: readonly RunCommand[];
  name?: string;
  /** Whether nothing begins before all commands are carried out: calls that are approved together run together. */
  together?: boolean;
};

export async function submitToOne(
  c: Context<RunsEnv>,
  { runId, name, body }: { runId: string; name: string; body: unknown },
  parts: RouteParts,
): Promise<Response> {
  const caller = c.get('caller');
  const commands = signedBy(commandsOf(name, body), caller);
  return c.json(await submit({ runId, name, commands }, caller, parts, run => viewHeld(run, parts)));
}

/** A run that refuses, or that the caller cannot see, does not affect the others. */
export async function submitToMany(
  c: Context<RunsEnv>,
  { runs, command }: z.output<typeof bulkBody>,
  parts: RouteParts,
): Promise<Response> {
  const caller = c.get('caller');
  const name = command.type;
  const commands = name === 'resume' ? [] : signedBy([command as RunCommand], caller);
  const waiting = [...new Set(runs)];
  const results = new Map<string, object>();
  const work = async () => {
    for (let runId = waiting.shift(); runId !== undefined; runId = waiting.shift()) {
      const done = submit({ runId, name, commands }, caller, parts, async run => {
        const record = await findRecord(parts.store, run.id);
        const stranded = await reportStranding(record, run.durable, parts);
        return { accepted: true, ...omitUndefined({ stranded }) };
      });
      results.set(runId, await done.catch(describeRefusal));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return c.json({ results: [...new Set(runs)].map(runId => ({ runId, ...results.get(runId) })) });
}

function describeRefusal(error: unknown) {
  const { code, message, by } = describeError(error).envelope.error;
  return { accepted: false, code, message, ...omitUndefined({ by }) };
}

export async function submit<Answer>(
  { runId, commands, name = '', together = false }: Submission,
  caller: Caller,
  { held, requests }: Pick<RouteParts, 'held' | 'requests'>,
  answer: (run: Run) => Promise<Answer>,
): Promise<Answer> {
  if (!commands.every(command => mayCommand(caller, command))) throw forbidden(caller);
  return await whileHeld(held.hold(runId), async ({ run, isServed }) => {
    assertSees(caller, run.context.labels);
    if (needsAgent(name) && held.drives && !isServed) throw unavailable(run);
    const sent = together && commands.length > 1 && !run.context.paused ? pauseAround(commands) : commands;
    const result = await requests.once(runId, commands, () => run.submit(sent));
    if (!result.accepted) {
      const place = name === 'commands' ? { details: { index: result.index } } : {};
      throw new ApiError(result.code, result.message, { by: result.by, ...place });
    }
    held.drive(runId);
    return await answer(run);
  });
}

/** Pauses a run around commands, so that it acts only after all of them. Not for a paused run. */
export function pauseAround(commands: readonly RunCommand[]): readonly RunCommand[] {
  return [{ type: 'pause' }, ...commands, { type: 'unpause' }];
}

/** Without a token's name, `by` and `groups` of the request are kept. */
export function signedBy(commands: readonly RunCommand[], caller: Caller): RunCommand[] {
  return commands.map(command => signCommand(command, caller));
}

function commandsOf(name: string, body: unknown): RunCommand[] {
  if (name === 'resume') return [];
  return name === 'commands' ? (body as RunCommand[]) : [{ type: name, ...(body as object) } as RunCommand];
}

function unavailable({ context }: Run): ApiError {
  return new ApiError(
    'agent-unavailable',
    `This server does not have the run's agent, "${context.agent.name}", so the run cannot continue here. Restart the server with --agent and that agent's module, or use the command line. Reading, pausing and cancelling the run work without it.`,
  );
}

export const forkBody = fields({
  at: z.number().int().positive().meta({ description: 'The seq of the last entry to copy.' }),
  message: z.exactOptional(sendBody.shape.message),
  replayTools: optional(
    z.boolean(),
    'The fork takes the results of equal calls from the original run and executes no tool. A call without such a result is in doubt.',
  ),
  model: optional(
    z.string(),
    'The model of the fork and of its forks: one of `forkModels` in `GET /agents/{name}`. Without it, the fork uses the model of the run.',
  ),
  paused: optional(
    z.boolean(),
    'The fork rests after entry `at`, before anything follows from it, and after its commands.',
  ),
  commands: optional(
    commandsBody,
    'The changes in the fork: commands as in `POST /runs/{id}/commands`. They are part of its creation and act before anything follows from entry `at`. If a command is refused, no fork is created.',
  ),
  ...byBody.shape,
});

/** A repeated `requestId` returns the fork that it created. Throws the errors of forking, and `request-reused`. */
export async function fork(
  caller: Caller,
  { runId, agent }: RunRecord,
  body: z.output<typeof forkBody>,
  parts: RouteParts,
): Promise<Run> {
  const { store, host, agents, held } = parts;
  const { requestId, commands, at, message, replayTools, paused } = body;
  const forkId = requestId === undefined ? host.newId('run') : forkIdOf(runId, requestId);
  const request = recordRequest(body);
  const options = omitUndefined({
    runId: forkId,
    request,
    as: personOf(caller, body),
    message,
    replayTools,
    paused,
    model: body.model === undefined ? undefined : agents.forkModel(agent, body.model),
    commands: commands && signedBy(commands as RunCommand[], caller),
  });
  return await createOnce(caller, { store, runId: forkId, request }, parts, async () => {
    await whileHeld(held.hold(runId), ({ run }) => run.fork({ at, ...options }));
    return await drive(held.hold(forkId), held);
  });
}

/** Creates a request's run, or finds the one it created, and drives it; a limit counts it till it settles. */
export async function createOnce(
  caller: Caller,
  creation: Creation,
  { held, admission }: RouteParts,
  create: () => Promise<Run>,
): Promise<Run> {
  const release = await admission.admit(caller);
  try {
    const run = (await wasCreated(creation))
      ? await drive(holdCreated(creation, held), held)
      : await create().catch(async error => {
          const holding = holdCreated(creation, held).catch(() => {
            throw error;
          });
          const found = await drive(holding, held);
          if (await wasCreated(creation)) return found;
          throw error;
        });
    if (held.drives) run.settled().then(release, release);
    else release();
    return run;
  } catch (error) {
    release();
    throw error;
  }
}

/** Shares a request that is still creating the run; once more if that fails, because another server had created it. */
async function holdCreated({ runId }: Creation, held: RunRegistry): Promise<Hold> {
  return await held.hold(runId).catch(() => held.hold(runId));
}

async function drive(holding: Promise<Hold>, held: RunRegistry): Promise<Run> {
  return await whileHeld(holding, async ({ run }) => {
    held.drive(run.id);
    return run;
  });
}

function forkIdOf(runId: string, requestId: string): string {
  return `run_${createHash('sha256')
    .update(JSON.stringify(['fork', runId, requestId]))
    .digest('hex')
    .slice(0, 32)}`;
}
