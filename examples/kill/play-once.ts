import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { Demo } from './demo.ts';
import { type DemoState, type Ledger, ORDER } from './demo-state.ts';
import { formatDollars } from './format-dollars.ts';
import type { Pace } from './setup.ts';

/** The first payment gets no reply in time: both processes are killed while they wait for it. */
const UNTIL_KILLED: Pace = { model: 200, before: 50, reply: 600_000 };
const QUICK: Pace = { model: 100, before: 20, reply: 50 };
const LOOK_MS = 30;

const viewSchema = z.object({
  state: z.string(),
  calls: z.array(z.object({ callId: z.string(), status: z.string() })),
});
type View = z.infer<typeof viewSchema>;

/**
 * Plays the worst case without a person: both processes are killed after the payment, before its reply.
 * Resolves to the exit code: 0 if the plain loop paid twice and the chart once.
 */
export async function playOnce(say: (line: string) => void, { keep }: { keep: boolean }): Promise<number> {
  const demo = new Demo({ keep, restartMs: 100, paceOf: start => (start === 0 ? UNTIL_KILLED : QUICK) });
  const close = () => void demo.close().finally(() => process.exit(130));
  process.once('SIGINT', close).once('SIGTERM', close);
  try {
    return await play(demo, say);
  } finally {
    await demo.close();
    process.off('SIGINT', close).off('SIGTERM', close);
    if (keep) say(`The files: ${demo.folder}`);
  }
}

async function play(demo: Demo, say: (line: string) => void): Promise<number> {
  await demo.until(({ plain, chart }) => plain.loop?.at === 'askPerson' && chart.runId !== null);
  await sendToChart(demo, 'approve', view => openCall(view, 'gated'));
  demo.round.approvePlain();
  say(`Both sides asked to refund ${formatDollars(ORDER.cents)}, and both were approved.`);

  await demo.until(({ plain, chart }) => plain.ledger.lines.length === 1 && chart.ledger.lines.length === 1);
  const { plain, chart } = demo.state;
  say('Both sides have paid. kill -9 before the reply arrives:');
  demo.kill(['plain', 'chart']);
  await demo.until(state => state.plain.kills === 1 && state.chart.kills === 1);
  say(`  ${nameOf(plain)} and ${nameOf(chart)} were ended by SIGKILL; new processes continue.`);

  await demo.until(state => state.plain.loop?.at === 'finished');
  const view = await look(demo, ({ state }) => state === 'resting.inDoubt' || state === 'finished');
  const asks = view.state === 'resting.inDoubt';
  const ended = demo.state;
  showLedger(say, 'A plain loop', ended.plain.ledger, 'finished');
  showLedger(
    say,
    'agentchart',
    ended.chart.ledger,
    asks ? 'in doubt: it asks whether the refund happened' : view.state,
  );
  if (asks) await answerFromLedger(demo, say);

  const after = demo.state.chart.ledger;
  const holds = ended.plain.ledger.lines.length === 2 && after.lines.length === 1;
  say(holds ? 'The plain loop paid twice, agentchart once.' : 'Unexpected result: see the ledgers above.');
  return holds ? 0 : 1;
}

async function answerFromLedger(demo: Demo, say: (line: string) => void): Promise<void> {
  const paid = demo.state.chart.ledger.lines.length > 0;
  say(`The ledger ${paid ? 'has the payment' : 'has no payment'}; the doubt is resolved accordingly:`);
  await sendToChart(
    demo,
    'resolve',
    view => openCall(view, 'doubted'),
    paid ? { happened: true, output: { refundedCents: ORDER.cents } } : { retry: true },
  );
  const { state } = await look(demo, view => view.state === 'finished');
  showLedger(say, 'agentchart', demo.state.chart.ledger, state);
}

function openCall({ calls }: View, status: string): string | undefined {
  return calls.find(call => call.status === status)?.callId;
}

/** Waits for the call that `find` returns, and sends a command about it. */
async function sendToChart(
  demo: Demo,
  command: string,
  find: (view: View) => string | undefined,
  body: object = {},
): Promise<void> {
  const callId = find(await look(demo, view => find(view) !== undefined));
  const answer = await fetch(await addressOf(demo, command), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ callId, ...body, by: 'you' }),
  });
  if (!answer.ok) throw new Error(`${command} was refused: ${await answer.text()}`);
}

/** Polls the run until `holds` returns true, across restarts of its process. */
async function look(demo: Demo, holds: (view: View) => boolean): Promise<View> {
  for (;;) {
    const answer = await fetch(await addressOf(demo)).catch(() => null);
    const view = answer?.ok === true ? viewSchema.parse(await answer.json()) : null;
    if (view !== null && holds(view)) return view;
    await delay(LOOK_MS);
  }
}

async function addressOf(demo: Demo, command = ''): Promise<string> {
  const origin = await demo.round.findChart(60_000);
  if (origin === null) throw new Error('The process of the chart did not restart.');
  return `${origin}/runs/${demo.state.chart.runId}${command === '' ? '' : `/${command}`}`;
}

function showLedger(
  say: (line: string) => void,
  name: string,
  { lines, cents }: Ledger,
  state: string,
): void {
  say(`${name}: ${state}. Its ledger, ${formatDollars(cents)}:`);
  for (const line of lines) say(`  ${line}`);
  if (lines.length === 0) say('  (empty)');
}

function nameOf({ process: state }: DemoState['plain' | 'chart']): string {
  return 'pid' in state ? `process ${state.pid}` : 'a process';
}
