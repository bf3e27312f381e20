import { type Idle, measureIdle } from '../../../bench/stores/measure-idle.ts';
import { startPostgres } from '../../support/stores/postgres-server.ts';
import { driveThrough, FAULTS, failOver, type Outage } from './drive-through.ts';
import { RUNS, type Served, serveThrough } from './serve-through.ts';

/** The store calls a second that an idle run may cost. */
const MOST_CALLS = 1;

/** How long the database of a server is away, in ms. */
const AWAY_MS = 20_000;

/** The runs that must be in flight at the least for a fault to count: on a busy machine some have ended. */
const LEAST_IN_FLIGHT = 20;

/** Lets PostgreSQL fail in each way, counts the store calls of idle runs, and returns what must not be. */
export async function proveOutages(onOutcome: (outcome: Outage | Served | Idle) => void): Promise<string[]> {
  const problems: string[] = [];
  const add = (outage: Outage) => {
    onOutcome(outage);
    problems.push(...findProblems(outage));
  };
  for (const [name, fault] of Object.entries(FAULTS))
    add(await driveThrough(name, await startPostgres(), fault));
  add(await failOver());
  const served = await serveThrough(AWAY_MS);
  onOutcome(served);
  problems.push(...findUnserved(served));
  const server = await startPostgres();
  const idle = await measureIdle(server.url).finally(() => server.stop());
  onOutcome(idle);
  if (idle.callsPerRun > MOST_CALLS)
    problems.push(
      `An idle run costs ${idle.callsPerRun} store calls a second, at most ${MOST_CALLS} expected.`,
    );
  if (idle.active < 1_000 || idle.resting < 10_000)
    problems.push(`Only ${idle.active} runs were active and ${idle.resting} at rest.`);
  return problems;
}

/** How long a request may take to say that the database is away, in s: 10 s, 2 s for the question, and a busy machine. */
const LONGEST_ANSWER_S = 15;

/** Requests say within seconds that the database is away, and when to ask again. */
function findUnserved({ isUp, ready, healthy, unpaid, answers, ...runs }: Served): string[] {
  const problems: [boolean, string][] = [
    [unpaid === 0, 'no payment was in flight'],
    [!isUp || healthy !== 200, 'the server ended, or /healthz says so'],
    [String(ready) !== '200,503,200', `/readyz answered ${ready} before, during and after the outage`],
    [
      runs.accepted !== RUNS + 1 || runs.finished !== runs.accepted,
      `${runs.accepted} of ${RUNS + 1} runs were accepted, and ${runs.finished} finished`,
    ],
    [runs.doubted + runs.doubles > 0, `${runs.doubted} in doubt, ${runs.doubles} doubles`],
    ...answers.map(({ path, status, code, retryAfter, seconds }): [boolean, string] => [
      status !== 503 || code !== 'store-unavailable' || retryAfter !== '5' || seconds > LONGEST_ANSWER_S,
      `${path} answered ${status} ${code} with Retry-After ${retryAfter} after ${seconds} s`,
    ]),
  ];
  return problems.flatMap(([isOne, problem]) => (isOne ? [`serve: ${problem}`] : []));
}

function findProblems({ fault, proof, inFlight, unpaid, doubted, lost, doubles }: Outage): string[] {
  const problems: [boolean, string][] = [
    [proof === null, 'the fault did not happen'],
    [
      inFlight < LEAST_IN_FLIGHT || unpaid === 0,
      `only ${inFlight} runs and ${unpaid} payments were in flight`,
    ],
    [doubted > 0, `${doubted} in doubt, and no worker died`],
    [lost > 0, `${lost} lost`],
    [doubles > 0, `${doubles} doubles`],
  ];
  return problems.flatMap(([isOne, problem]) => (isOne ? [`${fault}: ${problem}`] : []));
}
