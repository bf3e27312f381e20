import type { ObjectContext } from '@restatedev/restate-sdk';
import { isOpen, type RunStatus } from '../../protocol/store.ts';
import { json, RUN_OBJECT, type RunMeta, type RunRequests, type ThreadRequests } from './requests.ts';

type ThreadContext = Pick<ObjectContext, 'get' | 'set' | 'clear' | 'genericCall'>;

type Handlers = {
  [Name in keyof ThreadRequests]: (
    ctx: ThreadContext,
    input: ThreadRequests[Name]['input'],
  ) => Promise<ThreadRequests[Name]['output']>;
};

/**
 * The order of a thread's runs as a virtual object, whose key is `threadKeyOf` its runs. Runs of a thread that take a
 * place are created here, one at a time: so at most one of them has not ended. It keeps the id of the run at each place,
 * and the highest place.
 */
export const threadHandlers: Handlers = {
  async create(ctx, { place: wanted, ...request }) {
    if (await isThere(ctx, request.record.runId)) return { type: 'exists' };
    const place = 'of' in wanted ? await placeOf(ctx, wanted.of) : await placeAfter(ctx, wanted.after);
    if (typeof place === 'object' && place !== null) return place;
    const record = place === null ? request.record : { ...request.record, place };
    const answer = await callRun(ctx, record.runId, 'create', { ...request, record });
    if (answer.type === 'created' && place !== null) {
      if ('of' in wanted) await callRun(ctx, wanted.of, 'leavePlace', undefined);
      keep(ctx, place, record.runId);
    }
    return answer;
  },

  async adopt(ctx, run) {
    if (await isThere(ctx, run.runId)) return { type: 'exists' };
    const latest = await findLatest(ctx);
    if (latest !== undefined && isOpen(latest)) return { type: 'moved', latest: latest.runId };
    const place = (latest?.place ?? 0) + 1;
    const answer = await callRun(ctx, run.runId, 'adopt', { ...run, place });
    if (answer.type === 'adopted') keep(ctx, place, run.runId);
    return answer;
  },

  async left(ctx, { place, runId }) {
    if ((await ctx.get<string>(keyOf(place))) === runId) ctx.clear(keyOf(place));
    return undefined;
  },
};

async function isThere(ctx: ThreadContext, runId: string): Promise<boolean> {
  return (await callRun(ctx, runId, 'get', undefined)) !== null;
}

async function placeOf(ctx: ThreadContext, runId: string): Promise<number | null> {
  return (await callRun(ctx, runId, 'get', undefined))?.record.place ?? null;
}

async function placeAfter(
  ctx: ThreadContext,
  after: string | null,
): Promise<number | { type: 'moved'; latest: string | null }> {
  const latest = await findLatest(ctx);
  if ((latest?.runId ?? null) === after && (latest === undefined || !isOpen(latest)))
    return (latest?.place ?? 0) + 1;
  return { type: 'moved', latest: latest?.runId ?? null };
}

/** The run at the highest place that still has it: others were deleted. */
async function findLatest(
  ctx: ThreadContext,
): Promise<{ runId: string; place: number; status: RunStatus } | undefined> {
  for (let place = (await ctx.get<number>(HIGHEST)) ?? 0; place > 0; place -= 1) {
    const runId = await ctx.get<string>(keyOf(place));
    const meta: RunMeta | null = runId === null ? null : await callRun(ctx, runId, 'get', undefined);
    if (runId !== null && meta?.record.place === place) return { runId, place, status: meta.record.status };
    if (runId !== null) ctx.clear(keyOf(place));
    ctx.set(HIGHEST, place - 1);
  }
  return undefined;
}

const HIGHEST = 'highest';

function keyOf(place: number): string {
  return `run ${place}`;
}

function keep(ctx: ThreadContext, place: number, runId: string): void {
  ctx.set(keyOf(place), runId);
  ctx.set(HIGHEST, place);
}

async function callRun<Name extends keyof RunRequests>(
  ctx: ThreadContext,
  key: string,
  method: Name,
  parameter: RunRequests[Name]['input'],
): Promise<RunRequests[Name]['output']> {
  const serdes = {
    inputSerde: json<RunRequests[Name]['input']>(),
    outputSerde: json<RunRequests[Name]['output']>(),
  };
  return await ctx.genericCall({ service: RUN_OBJECT, key, method, parameter, ...serdes });
}
