import { approveOpen, runChecks } from './checks.ts';
import { expectAnswer, type Outcome, QUESTION, report } from './outcome.ts';
import { makeDesk } from './refund-desk.ts';

/**
 * The program of a Cloudflare worker. `/checks` runs the checks. `/start` and `/finish` are two requests about one
 * run: as in most workers, the agent is made when the module loads, where workers allow no clock, randomness or I/O.
 */

declare const PROVIDER: string;

const desk = makeDesk({ provider: PROVIDER });

export default {
  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === '/checks') return Response.json(await runChecks(PROVIDER));
    if (pathname === '/start') {
      const run = await desk.start(QUESTION);
      await run.settled();
      return Response.json({ runId: run.id });
    }
    const finish = async () =>
      expectAnswer(await approveOpen(await desk.open(searchParams.get('run') ?? '')));
    const outcome: Outcome = { 'resumed by another request': await report(finish()) };
    return Response.json(outcome);
  },
};
