// server/story: runs as lines of JSON, for shell scripts and clients in any language.

import type { Context } from 'hono';
import { type Caller, signCommand } from '../../access/caller.ts';
import { nextReaderTurn } from '../../engine/events/reader-turns.ts';
import { endOn } from '../../engine/events/stoppable.ts';
import { streamedBody } from '../../engine/events/streamed-body.ts';
import { messageOf } from '../../protocol/error.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { answerCommand } from '../../protocol/open/answer-form.ts';
import { ApiError, describeError } from '../error-envelope.ts';
import type { Handlers } from '../route.ts';
import { signedBy, submit } from '../runs/commands/command-routes.ts';
import type { RouteParts } from '../runs/route-parts.ts';
import { findRecord, openNow, settledNow } from '../runs/run-registry.ts';
import { beginRun } from '../runs/run-routes.ts';
import type { RunsEnv } from '../runs-env.ts';
import { linesOf, type StoryLine } from './story-line.ts';
import { LINES, type STORY_ROUTES } from './story-table.ts';

type Reading = { runId: string; after: number; follow?: boolean; refused?: readonly StoryLine[] };

const none = async (): Promise<[]> => [];

export function storyHandlers(options: RouteParts): Handlers<typeof STORY_ROUTES> {
  return {
    'POST /story': async (c, { body }) => {
      const { id: runId } = await beginRun(c.get('caller'), body, options);
      return await respond(c, { runId, after: 0 }, options);
    },
    'GET /story/:id': async (c, { params, query: { after = 0, follow } }) => {
      await nextReaderTurn();
      return await respond(c, { runId: params.id, after, follow: follow === '1' }, options);
    },
    'POST /story/:id': async (c, { params, query, body }) => {
      const caller = c.get('caller');
      const { runId, seq } = await findRecord(options.store, params.id, caller);
      const after = query.after ?? seq;
      const refused =
        'answers' in body
          ? await giveAnswers(runId, body.answers, caller, options)
          : await submit(
              { runId, commands: signedBy([{ type: 'send', ...body }], caller) },
              caller,
              options,
              none,
            );
      return await respond(c, { runId, after, refused }, options);
    },
  };
}

/** Those about one run in one append. Returns the lines of those that are refused; throws if all are. */
async function giveAnswers(
  runId: string,
  answers: readonly (JsonObject & { id: string })[],
  caller: Caller,
  options: RouteParts,
): Promise<StoryLine[]> {
  const { run, release } = await options.held.hold(runId);
  const open = await openNow(run).finally(release);
  const commands = answers.map(({ id, ...answer }) => {
    const found = open.find(one => one.id === id);
    if (found !== undefined)
      return { id, runId: found.runId, command: signCommand(answerCommand(found, answer), caller) };
    throw new ApiError('call-not-open', `Nothing with the id "${id.slice(0, 200)}" is open.`);
  });
  const byRun = Map.groupBy(commands, one => one.runId);
  const errors: { ids: string[]; error: unknown }[] = [];
  for (const [ofRun, given] of byRun) {
    const submission = { runId: ofRun, commands: given.map(({ command }) => command), together: true };
    const failed = (error: unknown) => errors.push({ ids: given.map(({ id }) => id), error });
    await submit(submission, caller, options, none).catch(failed);
  }
  if (errors[0] !== undefined && errors.length === byRun.size) throw errors[0].error;
  return errors.flatMap(({ ids, error }) => ids.map(id => ({ ...errorLine(error), id })));
}

async function respond(c: Context<RunsEnv>, reading: Reading, options: RouteParts): Promise<Response> {
  const { runId, refused = [] } = reading;
  const { agent } = await findRecord(options.store, runId, c.get('caller'));
  const left = new AbortController();
  const { keepAliveMs: ms } = options.streamBounds;
  const body = streamedBody(tell(reading, left.signal, options), {
    frame: write,
    begin: write([{ type: 'run', runId, agent }, ...refused]),
    keepAlive: { text: '\n', host: options.host, ms },
    failed(error) {
      const line = errorLine(error);
      if (line.code === 'internal')
        options.log(`The story of run ${runId} failed: ${(error as Error).stack ?? messageOf(error)}`);
      return write([line]);
    },
    leave: () => left.abort(),
  });
  return c.body(body, 200, { 'Content-Type': `${LINES}; charset=utf-8`, 'X-Accel-Buffering': 'no' });
}

function write(lines: readonly StoryLine[]): string {
  return lines.map(line => `${JSON.stringify(line)}\n`).join('');
}

function errorLine(error: unknown): Extract<StoryLine, { type: 'error' }> {
  const { code, message, by } = describeError(error).envelope.error;
  return { type: 'error', code, message, ...omitUndefined({ by }) };
}

/** The lines of a run, with those of its sub-agents. The run is held while it is read, and not driven for it. */
async function* tell(
  { runId, after, follow = false }: Reading,
  left: AbortSignal,
  { held }: RouteParts,
): AsyncGenerator<StoryLine[]> {
  const { run, closing, release } = await held.hold(runId);
  /** Whether the run has ended or needs an answer. A run that only waits for its sub-agents' runs does not. */
  const isSettled = async () => {
    const settled = await settledNow(run);
    return settled !== null && (settled.status !== 'waiting' || settled.open.length > 0);
  };
  try {
    const { promise: settling, resolve: end } = Promise.withResolvers<void>();
    const waits = !follow && !(await isSettled());
    const until = waits ? { until: () => settling } : {};
    const batches = run.storyBatches({ after, subAgents: 'merged', follow: follow || waits, ...until });
    for await (const told of endOn(batches, AbortSignal.any([left, closing]))) {
      yield linesOf(told, runId);
      if (waits && told.some(({ type }) => type === 'settled') && (await isSettled())) end();
    }
    if (closing.aborted)
      throw new ApiError('shutting-down', 'The server is shutting down. Continue with ?after=SEQ.');
  } finally {
    release();
  }
}
