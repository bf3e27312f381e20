/**
 * `npm run example:research [-- [QUESTION] [--no-stream | --json] [--invent]]`: an agent that answers from a folder
 * of documents and cites what it read.
 */
import { parseArgs } from 'node:util';
// In a project of your own: from 'agentchart' and 'agentchart/adapters/model-from-env'.
import { modelFromEnv } from '../../adapters/model-from-env.ts';
import type { Run, Settled } from '../../agent/index.ts';
import { messageOf } from '../../protocol/error.ts';
import { makeResearcher } from './researcher.ts';
import { note, ResearchView } from './show-research.ts';
import { standInModel } from './stand-in-model.ts';
import { citations } from './tools.ts';

const DEFAULT_QUESTION =
  'Is a tool run twice after a crash, and what does the First Amendment say of speech?';
const PACE_MS = 15;
const USAGE = `npm run example:research [-- [QUESTION] [--no-stream | --json] [--invent]]
  QUESTION     default: "${DEFAULT_QUESTION}"
  --no-stream  show the answer when it is complete
  --json       print one JSON object instead: question, model, status, turns, text, read
  --invent     let the stand-in also cite a document that it did not read
Set AGENTCHART_MODEL to use a real model, for example openai:gpt-5-mini.`;

type Options = { question: string; stream: boolean; json: boolean; invent: boolean };

process.exitCode = await start();

async function start(): Promise<number> {
  const options = readArguments();
  if (typeof options === 'string') return complain(options);
  if (options === null) return say(USAGE);
  try {
    return await research(options);
  } catch (error) {
    return complain(messageOf(error));
  }
}

function readArguments(): Options | string | null {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        'no-stream': { type: 'boolean' },
        json: { type: 'boolean' },
        invent: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
    if (values.help === true) return null;
    const json = values.json === true;
    const stream = values['no-stream'] !== true && !json;
    const question = positionals.join(' ').trim() || DEFAULT_QUESTION;
    return { question, stream, json, invent: values.invent === true };
  } catch (error) {
    return `${messageOf(error)}\n${USAGE}`;
  }
}

async function research({ question, stream, json, invent }: Options): Promise<number> {
  const named = process.env.AGENTCHART_MODEL;
  const paceMs = process.stdout.isTTY === true && stream ? PACE_MS : 0;
  const model = named === undefined ? standInModel({ invent, paceMs }) : modelFromEnv(named);
  const who = named ?? 'a rule-based stand-in';
  if (!json) introduce(question, named);
  const run = await makeResearcher(model).start(question, { stream });
  const view = new ResearchView(run);
  const [settled] = await Promise.all([run.settled(), json ? undefined : watch(run, view)]);
  if (json) return say(JSON.stringify({ question, model: who, ...describeEnd(settled) }), codeOf(settled));
  if (settled.status !== 'finished') return complain(describeFailure(settled), 1);
  view.finish(settled.text);
  const cut = settled.incomplete === undefined ? '' : `, incomplete: ${settled.incomplete.reason}`;
  note(`${settled.turns} model calls, ${settled.results.length} tool calls${cut}`);
  return 0;
}

async function watch(run: Run, view: ResearchView): Promise<void> {
  for await (const happening of run.events()) view.take(happening);
}

function introduce(question: string, named: string | undefined): void {
  note(`Question: ${question}`);
  note("Documents: this project's README and docs, and examples/research/documents");
  if (named !== undefined) return note(`Model: ${named} (from AGENTCHART_MODEL)`);
  note('Model: AGENTCHART_MODEL is not set; using a stand-in (fixed rules, not a language model).');
  note('       For a real model, set AGENTCHART_MODEL=openai:gpt-5-mini and OPENAI_API_KEY=…');
}

function describeEnd(settled: Settled) {
  const { status, turns } = settled;
  if (settled.status !== 'finished') return { status, turns, error: describeFailure(settled) };
  const read = settled.results.filter(({ isError }) => !isError).flatMap(citations.sources);
  return { status, turns, text: settled.text, read: read.map(({ id }) => id) };
}

function describeFailure(settled: Settled): string {
  return settled.status === 'failed' ? `${settled.error.code}: ${settled.error.message}` : settled.status;
}

function codeOf({ status }: Settled): number {
  return status === 'finished' ? 0 : 1;
}

function say(text: string, code = 0): number {
  process.stdout.write(`${text}\n`);
  return code;
}

function complain(message: string, code = 2): number {
  process.stderr.write(`${message}\n`);
  return code;
}
