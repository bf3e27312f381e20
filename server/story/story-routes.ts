// server/story: runs as lines of JSON, for shell scripts and clients in any language.

import type { Context } from 'hono';
import { byOf, type Caller } from '../../access/caller.ts';
import { nextReaderTurn } from '../../engine/events/readers/reader-turns.ts';
import { streamedBody } from '../../engine/events/readers/streamed-body.ts';
import type { Run } from '../../engine/run/run.ts';
import { describeWithChildren } from '../../engine/sub-agents/children.ts';
import { listOpen } from '../../machines/settled.ts';
import { messageOf } from '../../protocol/error.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { type AnswerCommand, commandFor } from '../../protocol/open/answer.ts';
import { ANSWER_EXAMPLES, readAnswer } from '../../protocol/open/answer-form.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import { ApiError, describeError } from '../error-envelope.ts';
import type { Handlers } from '../route.ts';
import { type CommandRoutesOptions, submit } from '../runs/commands/command-routes.ts';
import { findRecord } from '../runs/run-registry.ts';
import { beginRun, type RunRoutesOptions } from '../runs/run-routes.ts';
import type { RunsEnv } from '../runs-env.ts';
import { linesOf, type StoryLine } from './story-line.ts';
import { LINES, type STORY_ROUTES } from './story-table.ts';

export type StoryOptions = RunRoutesOptions & Pick<CommandRoutesOptions, 'held' | 'requests'>;

type Request = Context<RunsEnv>;
type Reading = { runId: string; after: number; follow?: boolean; refused?: readonly StoryLine[] };

/** The handlers of stories. */
export function storyHandlers(options: StoryOptions): Handlers<typeof STORY_ROUTES> {
  return {
    'POST /story': async (c, { body }) => {
      const { id } = await beginRun(c.get('caller'), body, options);
      return await respond(c, { runId: id, after: 0 }, options);
    },
    'GET /story/:id': async (c, { params, query }) => {
      const follow = query.follow === '1';
      await nextReaderTurn();
      return await respond(c, { runId: params.id, after: query.after ?? 0, follow }, options);
    },
    'POST /story/:id': async (c, { params, query, body }) => {
      const caller = c.get('caller');
      const { runId, seq } = await findRecord(options.store, params.id, caller);
      const by = omitUndefined({ by: byOf(caller) });
      const refused =
        'answers' in body
          ? await giveAnswers(runId, body.answers as readonly Given[], { ...by, caller, options })
          : await send(runId, { type: 'send', ...body, ...by }, { caller, options });
      return await respond(c, { runId, after: query.after ?? seq, refused }, options);
    },
  };
}

type Given = JsonObject & { id: string };
type Sender = { caller: Caller; by?: string; options: StoryOptions };

async function send(runId: string, command: RunCommand, { caller, options }: Sender): Promise<[]> {
  await submit(
    { runId, name: 'send', needsAgent: true, commands: [command] },
    caller,
    options,
    async () => {},
  );
  return [];
}

/**
 * Gives answers to what the run and its sub-agents wait for: those about one run in one append. Returns the lines of those
 * that are refused; throws if all are.
 */
async function giveAnswers(
  runId: string,
  answers: readonly Given[],
  { caller, by, options }: Sender,
): Promise<StoryLine[]> {
  const open = await listOpenOf(runId, options);
  const byRun = new Map<string, { id: string; command: AnswerCommand }[]>();
  for (const { id, ...given } of answers) {
    const found = open.find(one => one.id === id);
    if (found === undefined)
      throw new ApiError('call-not-open', `Nothing with the id "${id.slice(0, 200)}" is open.`);
    const answer = readAnswer(found.kind, given as JsonValue);
    if (answer === null) throw unreadable(id, found.kind);
    const command = commandFor(found, answer, { by });
    byRun.set(found.runId, [...(byRun.get(found.runId) ?? []), { id, command }]);
  }
  const errors: { ids: string[]; error: unknown }[] = [];
  for (const [ofRun, given] of byRun) {
    const commands = given.map(({ command }) => command);
    const isPaused = open.some(one => one.kind === 'pause' && one.runId === ofRun);
    // Between a pause and its end, calls that are approved together run together.
    const isHeld = commands.length > 1 && !isPaused;
    const submission = { runId: ofRun, name: 'answers', needsAgent: true, commands, isHeld };
    await submit(submission, caller, options, async () => {}).catch(error =>
      errors.push({ ids: given.map(({ id }) => id), error }),
    );
  }
  if (errors[0] !== undefined && errors.length === byRun.size) throw errors[0].error;
  return errors.flatMap(({ ids, error }) => ids.map(id => ({ ...errorLine(error), id })));
}

function unreadable(id: string, kind: keyof typeof ANSWER_EXAMPLES): ApiError {
  const examples = ANSWER_EXAMPLES[kind].map(one => JSON.stringify({ id, ...one })).join(' or ');
  return new ApiError('input-invalid', `This is no answer to "${id}" (${kind}). Expected ${examples}.`);
}

/** What a run and the runs of its sub-agents wait for. */
async function listOpenOf(runId: string, { held, store }: StoryOptions) {
  const { run, release } = await held.hold(runId);
  try {
    const settled = await describeWithChildren(store, run.durable.state, text => text);
    return settled?.status === 'waiting' ? settled.open : listOpen(run.context);
  } finally {
    release();
  }
}

/** Answers with lines. Throws `run-unknown`, also for runs of others. */
async function respond(c: Request, reading: Reading, options: StoryOptions): Promise<Response> {
  const { agent } = await findRecord(options.store, reading.runId, c.get('caller'));
  const { runId, refused = [] } = reading;
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
  { held, store }: StoryOptions,
): AsyncGenerator<StoryLine[]> {
  const { run, closing, release } = await held.hold(runId);
  const stopped = AbortSignal.any([left, closing]);
  try {
    let end = () => {};
    const settled = new Promise<void>(resolve => {
      end = resolve;
    });
    const waits = !follow && !(await isSettled(run));
    const batches = run.storyBatches({
      after,
      subAgents: 'merged',
      follow: follow || waits,
      ...(waits && { until: () => settled }),
    });
    const stop = () => void batches.return(undefined).catch(() => {});
    if (stopped.aborted) stop();
    stopped.addEventListener('abort', stop, { once: true });
    for await (const told of batches) {
      yield linesOf(told, runId);
      if (waits && told.some(({ type }) => type === 'settled') && (await isSettled(run))) end();
    }
    if (closing.aborted)
      throw new ApiError('shutting-down', 'The server is shutting down. Continue with ?after=SEQ.');
  } finally {
    release();
  }

  /** Whether the run has ended or needs an answer. A run that only waits for its sub-agents' runs does not. */
  async function isSettled({ durable }: Run): Promise<boolean> {
    const described = await describeWithChildren(store, durable.state, text => text);
    return described !== null && (described.status !== 'waiting' || described.open.length > 0);
  }
}
