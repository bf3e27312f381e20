/**
 * `npm start [-- [FOLDER] [--yes | --crash]]`: a documentation steward checks a copy of FOLDER.
 * Runs the `agentchart` command, one process after another, and prints each command line.
 */
import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { formatPath } from '../../cli/render/format.ts';
import { startStandIn } from '../stand-in/wire/provider.ts';
import { environmentOf, WAYS } from '../stand-in/wire/ways.ts';
import { STEWARD_TASK } from './instructions.ts';
import { describeWrite, findOpenCall, findRun } from './look-at-run.ts';
import { prepareCopy } from './prepare-copy.ts';
import { isRefundOpen, killRefund } from './refund/kill-refund.ts';
import { type CommandEnd, runCommand } from './run-command.ts';
import { servePage } from './serve-page.ts';

/** The delay before each piece of a stream in ms, so that streaming is visible. */
const PACE_MS = 8;
const HERE = dirname(fileURLToPath(import.meta.url));
const USAGE = `npm start [-- [FOLDER] [--yes | --crash]]
  FOLDER    the folder of Markdown files to check (default: the example's documents); the steward works on a copy
  --yes     approve the report automatically
  --crash   approve the report, kill the process right after the write, and resume in a new process
Set AGENTCHART_MODEL to use a real model (for example openai:gpt-5-mini), or to PROVIDER:stand-in to run
the stand-in with that provider's wire format.`;

const agent = ['--agent', formatPath(join(HERE, 'agent.ts'))];
const refunds = formatPath(join(HERE, 'refund/agent.ts'));

type Work = { folder: string; db: string; ledger: string; env: Record<string, string> };

// The reader closed the pipe, as `npm start | head` does.
process.stdout.on('error', () => process.exit(0));
process.exitCode = await start();

async function start(): Promise<number> {
  const options = readArguments();
  if (typeof options === 'string') return complain(options, 2);
  const home = resolve('.agentchart/steward');
  let folder: string;
  try {
    folder = prepareCopy(options.folder, home);
  } catch (error) {
    return complain(error instanceof Error ? error.message : String(error), 2);
  }
  const model = process.env.AGENTCHART_MODEL;
  const standIn = await startStandInFor(model);
  introduce(folder, model, standIn);
  try {
    const ledger = join(home, 'payments.txt');
    const work = {
      folder,
      db: formatPath(join(home, 'runs.db')),
      ledger,
      env: { ...standIn?.env, STEWARD_FOLDER: folder, REFUNDS_LEDGER: ledger },
    };
    if (options.crash) return await workAndCrash(work);
    if (options.yes) return await workInOneProcess(work, ['--yes']);
    if (process.stdin.isTTY === true) return await workOnTerminal(work);
    return await workInTwoProcesses(work);
  } finally {
    await standIn?.close();
  }
}

function readArguments(): { folder: string; yes: boolean; crash: boolean } | string {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        yes: { type: 'boolean' },
        crash: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
    if (values.help === true || positionals.length > 1) return USAGE;
    const folder = positionals[0] ?? join(HERE, 'documents');
    return { folder, yes: values.yes === true, crash: values.crash === true };
  } catch (error) {
    return `${error instanceof Error ? error.message : String(error)}\n${USAGE}`;
  }
}

type StandingIn = { url: string; wire: string; env: Record<string, string>; close(): Promise<void> };

/** Starts the stand-in if no model is set, or if the model is PROVIDER:stand-in. Needs no key. */
async function startStandInFor(model: string | undefined): Promise<StandingIn | undefined> {
  const provider = model === undefined ? 'openai' : (/^(.+):stand-in$/.exec(model)?.[1] ?? '');
  const way = WAYS[provider];
  if (way === undefined || (model && process.env[`${way.variables}_BASE_URL`])) return undefined;
  const standIn = await startStandIn({ paceMs: PACE_MS });
  const env = environmentOf(provider, standIn.root);
  const close = async () => await standIn[Symbol.asyncDispose]();
  return { url: standIn.root + way.path, wire: provider, env, close };
}

function introduce(folder: string, model: string | undefined, standIn: StandingIn | undefined): void {
  say(
    'A documentation steward checks a folder of Markdown files and asks for approval before it writes a report.',
  );
  say(`Folder: ${formatPath(folder)} (a copy; the original stays unchanged)`);
  say('Tools: the MCP filesystem server, over stdio');
  if (standIn === undefined) return say(`Model: ${model} (from AGENTCHART_MODEL)`);
  const reason = model === undefined ? 'AGENTCHART_MODEL is not set; using a' : 'a';
  say(`Model: ${reason} stand-in at ${standIn.url} (fixed rules, not a language model),`);
  say(`       in the wire format of ${standIn.wire}.`);
  say('       For a real model, set AGENTCHART_MODEL=openai:gpt-5-mini and OPENAI_API_KEY=…');
}

async function workInOneProcess(work: Work, options: string[] = []): Promise<number> {
  return finish(work, await agentchart(work, ['run', ...agent, ...options, STEWARD_TASK]));
}

/**
 * Leaves a killed refund in the inbox of a page, then shows the steward's run and asks for approval on the terminal
 * and on the page. The first decision counts.
 */
async function workOnTerminal(work: Work): Promise<number> {
  const about = await leaveRefund(work);
  const model = work.env.AGENTCHART_MODEL ?? process.env.AGENTCHART_MODEL ?? '';
  const page = await servePage([...agent, '--agent', refunds, '--db', work.db], {
    ...work.env,
    AGENTCHART_MODEL: '',
    STEWARD_MODEL: model,
  });
  if (page === null) return await workInOneProcess(work);
  // Ctrl-C interrupts the command while it runs, and stops the page afterwards. It is handled throughout:
  // its default would end this process alone, and the page would outlive it.
  let onInterrupt = () => {};
  process.on('SIGINT', () => onInterrupt());
  say(`${about} Decide it in the inbox: ${page.url}/inbox`);
  say(`The payments are in ${formatPath(work.ledger)}. Then fork the run with half the amount, and compare.`);
  say(`Then the steward. Watch its run and approve there or here: ${page.url}`);
  const code = await workInOneProcess(work);
  onInterrupt = page.stop;
  say(`The page stays available at ${page.url} until Ctrl-C. The killed refund is in its inbox.`);
  await page.ended;
  return code;
}

/** Leaves a refund that asks whether it happened, and returns what there is to say about it. */
async function leaveRefund(work: Work): Promise<string> {
  if (await isRefundOpen(work.db)) return 'A refund of an earlier start still asks whether it happened.';
  say('First, a refund of $99.00, killed (SIGKILL) right after the payment:');
  const { pid } = await killRefund({ ...work, agent: refunds });
  return `Process ${pid} is gone, and the journal has no result: was the customer paid?`;
}

/** Without a terminal: the first process ends while the run awaits approval, and a second process approves. */
async function workInTwoProcesses(work: Work): Promise<number> {
  const first = await agentchart(work, ['run', ...agent, STEWARD_TASK]);
  if (first.code !== 3) return finish(work, first);
  const { runId, callId } = await findOpenCall(work.db);
  say(`Process ${first.pid} has ended. The run is stored in ${work.db} and waits for approval.`);
  say('There is no terminal to ask on, so a second process approves on your behalf:');
  return finish(work, await agentchart(work, ['approve', runId, callId, '--by', 'npm start']));
}

/** Kills the process at the worst moment: the file is written, but the journal does not have the result. */
async function workAndCrash(work: Work): Promise<number> {
  const crashing = { ...work, env: { ...work.env, STEWARD_CRASH: 'after-write' } };
  const first = await agentchart(crashing, ['run', ...agent, '--yes', STEWARD_TASK]);
  if (first.signal !== 'SIGKILL') return finish(work, first);
  const report = formatPath(join(work.folder, 'REPORT.md'));
  const written = statSync(report).mtimeMs;
  const { runId, seq } = await findRun(work.db);
  say(
    `Process ${first.pid} was killed by ${first.signal} after the write, before the journal had its result.`,
  );
  say(`The journal ends at entry ${seq}: ${await describeWrite(work.db, runId)}.`);
  say(`${report} was written at ${new Date(written).toISOString()}. A new process resumes the run:`);
  const second = await agentchart(work, ['resume', runId]);
  say(
    `Process ${second.pid} called the tool's reconcile instead of writing again: ${await describeWrite(work.db, runId)}.`,
  );
  const now = statSync(report).mtimeMs;
  say(
    `${report} was last modified at ${new Date(now).toISOString()}: ${now === written ? 'unchanged' : 'CHANGED'}.`,
  );
  return now === written ? finish(work, second) : complain('The report was written twice.', 1);
}

async function agentchart(work: Work, args: readonly string[]): Promise<CommandEnd> {
  return await runCommand([...args.slice(0, 1), '--db', work.db, ...args.slice(1)], work.env);
}

function finish({ folder, db }: Work, { code, signal }: CommandEnd): number {
  const report = formatPath(join(folder, 'REPORT.md'));
  if (existsSync(report)) say(`The report: ${report}`);
  say(`The journal: agentchart runs --db ${db}`);
  return code ?? (signal === null ? 1 : 128);
}

function complain(message: string, code: number): number {
  process.stderr.write(`${message}\n`);
  return code;
}

function say(line: string): void {
  process.stdout.write(`· ${line}\n`);
}
